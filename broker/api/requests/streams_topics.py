"""Creates the internal topics of Streams applications. (Kafka: AutoTopicCreationManager's
createStreamsInternalTopics, ExpiringErrorCache)

Called by StreamsGroupHeartbeat, which does not wait for the topics: the next heartbeat finds them, or tells
why they could not be created. A task of the server creates them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from broker.common.clock import Clock
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.controller.commands import Charge, CreateTopics, NewTopic
from broker.controller.control import Control
from broker.controller.topics import MAX_PARTITIONS
from broker.coordinator.group.streams.topology import TopicInfo
from broker.metadata.actor import Actor

CREATED_AT_ONCE: Final = 100
"""Topics that one change of the metadata creates, of at most MAX_PARTITIONS in sum; ours."""

MOST_PENDING: Final = 10_000
"""Topics that are to be created; ours. The application asks for the others with its next heartbeat."""

MOST_ERRORS: Final = 1_000
"""Topics whose errors are kept, as in Kafka."""

DEFAULT: Final = -1

CREATED: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class _Error(NamedTuple):
    message: str
    until_ms: int


class _Pending(NamedTuple):
    topic: NewTopic
    actor: Actor
    charge: Charge
    errors_ms: int


class StreamsTopics:
    """The topics that are to be created, one object per broker. `on_pending` is called when there are some,
    `on_failure` with an unexpected exception.
    """

    def __init__(self, control: Control, clock: Clock, on_failure: Callable[[Exception], None]) -> None:
        self._control = control
        self._clock = clock
        self._on_failure = on_failure
        self._pending: dict[str, _Pending] = {}
        self._errors: dict[str, _Error] = {}
        self.on_pending: Callable[[], None] = lambda: None

    def create(
        self, topics: Mapping[str, TopicInfo], actor: Actor, charge: Charge, errors_ms: int
    ) -> Steps[None]:
        """Let the topics be created that are not yet to be. One that could not be is tried again after
        `errors_ms`.
        """
        now_ms = self._clock.ms()
        try:
            for name, topic in topics.items():
                if len(self._pending) >= MOST_PENDING:
                    break
                error = self._errors.get(name)
                if name not in self._pending and (error is None or error.until_ms <= now_ms):
                    self._errors.pop(name, None)
                    factor = topic.replication_factor or DEFAULT
                    new = NewTopic(name, topic.partitions, factor, topic.configs)
                    self._pending[name] = _Pending(new, actor, charge, errors_ms)
                yield
        finally:
            if self._pending:
                self.on_pending()

    def errors(self, names: Iterable[str]) -> Steps[dict[str, str]]:
        """Return why topics could not be created, of those that could not."""
        now_ms = self._clock.ms()
        found = {}
        for name in names:
            error = self._errors.get(name)
            if error is not None and now_ms < error.until_ms:
                found[name] = error.message
            yield
        return found

    async def create_pending(self) -> None:
        """Create the topics that are to be created. If cancelled, the topics of the metadata change that has
        not begun are still to be.
        """
        while self._pending:
            some = self._next()
            first = next(iter(some.values()))
            try:
                command = CreateTopics(tuple(each.topic for each in some.values()), charge=first.charge)
                outcomes = await self._control.apply(command, first.actor)
                failed = {
                    each.name or "": each.message or each.error.name
                    for each in outcomes
                    if each.error not in CREATED
                }
            except ApiError as error:
                failed = dict.fromkeys(some, error.message or error.code.name)
            except Exception as error:  # noqa: BLE001 - reported; other topics are created
                self._on_failure(error)
                failed = dict.fromkeys(some, ErrorCode.UNKNOWN_SERVER_ERROR.name)
            for name, pending in some.items():
                self._pending.pop(name, None)
                if name in failed:
                    self._keep_error(name, failed[name], pending.errors_ms)

    def _next(self) -> dict[str, _Pending]:
        """Return the topics that the next change of the metadata creates, at least one: those of a heartbeat
        are next to each other.
        """
        some: dict[str, _Pending] = {}
        partitions = 0
        first = next(iter(self._pending.values()))
        for name, each in self._pending.items():
            partitions += each.topic.partitions
            is_other = each.actor != first.actor or each.charge != first.charge
            if some and (is_other or partitions > MAX_PARTITIONS or len(some) == CREATED_AT_ONCE):
                break
            some[name] = each
        return some

    def _keep_error(self, name: str, message: str, errors_ms: int) -> None:
        self._errors.pop(name, None)
        self._errors[name] = _Error(message, self._clock.ms() + errors_ms)
        while len(self._errors) > MOST_ERRORS:
            del self._errors[next(iter(self._errors))]
