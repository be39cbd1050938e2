"""Creates the internal topics of Streams applications. (Kafka: AutoTopicCreationManager's
createStreamsInternalTopics, ExpiringErrorCache)

Called by StreamsGroupHeartbeat, which does not wait for the topics: the next heartbeat finds them, or tells
why they could not be created. A task of the server creates them.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple

from broker.common.clock import Clock
from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import CreateTopics, NewTopic
from broker.controller.control import Control
from broker.coordinator.group.streams.topology import TopicInfo
from broker.metadata.actor import Actor

CREATED_AT_ONCE: Final = 100
"""Topics that one change of the metadata creates; ours."""

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
    errors_ms: int


class StreamsTopics:
    """The topics that are to be created, one object per broker. `on_pending` is called with each."""

    def __init__(self, control: Control, clock: Clock) -> None:
        self._control = control
        self._clock = clock
        self._pending: dict[str, _Pending] = {}
        self._errors: dict[str, _Error] = {}
        self.on_pending: Callable[[], None] = lambda: None

    def create(self, topics: Mapping[str, TopicInfo], actor: Actor, errors_ms: int) -> None:
        """Let the topics be created that are not yet to be. One that could not be is tried again after
        `errors_ms`.
        """
        now_ms = self._clock.ms()
        for name, topic in topics.items():
            if len(self._pending) >= MOST_PENDING:
                break
            error = self._errors.get(name)
            if name not in self._pending and (error is None or error.until_ms <= now_ms):
                self._errors.pop(name, None)
                factor = topic.replication_factor or DEFAULT
                new = NewTopic(name, topic.partitions, factor, topic.configs)
                self._pending[name] = _Pending(new, actor, errors_ms)
        if self._pending:
            self.on_pending()

    def errors(self, names: Iterable[str]) -> dict[str, str]:
        """Return why topics could not be created, of those that could not."""
        now_ms = self._clock.ms()
        known = {name: self._errors[name] for name in names if name in self._errors}
        return {name: error.message for name, error in known.items() if now_ms < error.until_ms}

    async def create_pending(self) -> None:
        """Create the topics that are to be created. If cancelled, the topics of the metadata change that has
        not begun are still to be.
        """
        while self._pending:
            actor = next(iter(self._pending.values())).actor
            same = (each for each in self._pending.values() if each.actor == actor)
            some = {each.topic.name: each for each in islice(same, CREATED_AT_ONCE)}
            try:
                command = CreateTopics(tuple(each.topic for each in some.values()))
                outcomes = await self._control.apply(command, actor)
                failed = {
                    each.name or "": each.message or each.error.name
                    for each in outcomes
                    if each.error not in CREATED
                }
            except ApiError as error:
                failed = dict.fromkeys(some, error.message or error.code.name)
            for name, pending in some.items():
                self._pending.pop(name, None)
                if name in failed:
                    self._keep_error(name, failed[name], pending.errors_ms)

    def _keep_error(self, name: str, message: str, errors_ms: int) -> None:
        self._errors.pop(name, None)
        self._errors[name] = _Error(message, self._clock.ms() + errors_ms)
        while len(self._errors) > MOST_ERRORS:
            del self._errors[next(iter(self._errors))]
