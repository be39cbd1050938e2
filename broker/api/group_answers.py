"""From what the group coordinator says to answers on the wire.

Called by the handlers that ask it, and by `app` for what time and deletions bring. A request goes to the
coordinator as an `Asked`, which comes back with its reply: at once, or from a later call when it was parked.
Answers leave after the records of their call have been committed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import DELAYED, AfterCommit, Answered, Outcome, Sliced
from broker.groups.replies import Effects, Token
from broker.groups.requests import Now
from broker.log.partition import PartitionLog
from broker.protocol.schema import Struct
from broker.records.slices import Slices
from broker.services.group_service import Writing
from broker.steps import Steps

LONGEST_NAME: Final = 8_000
"""Characters of a group's or a member's names: in the records of the offsets topic they must fit 32,767
bytes.
"""


class Asked:
    """The token of a request: whose it is, and how its reply is said in its version of the protocol."""

    __slots__ = ("answer", "context")

    def __init__(self, context: RequestContext, answer: Callable[[Any, int], Struct]) -> None:
        self.context = context
        self.answer = answer

    def outcome(self, reply: Any) -> Outcome:
        return Answered(self.answer(reply, self.context.api_version))


class AskedInTurns(Asked):
    """A request that may be too large for one call of the coordinator: it is divided among `calls`, each of
    which begins when what the one before it recorded has been written. `take` is given the reply of each, and
    `answer` is the answer after the last. Errors belong to the parts; what was written before one stays.
    `rest` is what the calls have not taken yet. Neither `calls` nor `take` may hold the request's message,
    which is freed in slices as soon as the first call has been made.
    """

    __slots__ = ("_broker", "_calls", "_reply", "_rest", "_take")

    def __init__(
        self,
        context: RequestContext,
        calls: Iterator[Callable[[Token], Effects]],
        take: Callable[[Any], None],
        answer: Struct,
        broker: Broker,
        *rest: list[Any],
    ) -> None:
        super().__init__(context, lambda _reply, _version: answer)
        self._calls = calls
        self._take = take
        self._reply = answer
        self._broker = broker
        self._rest = rest

    def begin(self) -> Outcome:
        """Makes the first call, and there is one."""
        return conclude(next(self._calls)(self), self, self._broker)

    def outcome(self, reply: Any) -> Outcome:
        self._take(reply)
        call = next(self._calls, None)
        if call is None:
            return Answered(self._reply)
        return Sliced(self._turn(call), None, self._reply, *self._rest)

    def _turn(self, call: Callable[[Token], Effects]) -> Slices[Outcome]:
        yield from ()
        return conclude(call(self), self, self._broker)


def now_of(context: RequestContext) -> Now:
    return Now(context.now_ms, context.wall_ms)


def conclude(effects: Effects, asked: Asked, broker: Broker) -> Outcome:
    """The outcome of `asked`; whoever else is answered by it is posted to the callbacks."""
    if not effects.records:
        return _deliver(effects, asked, broker)
    writing = broker.groups.write(effects, now_of(asked.context))
    return _Settling(writing, asked, broker)


def expire_groups(broker: Broker, now_ms: int, wall_ms: int) -> None:
    """Does what is due, and answers whom it concerns. Outside of a handler's batch only."""
    _deliver(broker.groups.expire(Now(now_ms, wall_ms)), None, broker)


def forget_topics(
    broker: Broker, topics: Mapping[str, int], now_ms: Callable[[], int], wall_ms: Callable[[], int]
) -> Steps[None]:
    """`topics` are gone, with so many partitions each. Outside of a handler's batch only; stops after every
    few groups and offsets.
    """
    for group_id, partitions in broker.groups.coordinator.committed_in(topics):
        if partitions:
            now = Now(now_ms(), wall_ms())
            _deliver(broker.groups.partitions_deleted(group_id, partitions, now), None, broker)
        yield


def release_groups(broker: Broker) -> None:
    """The broker stops: every parked JoinGroup and SyncGroup is sent to look for a coordinator again."""
    _deliver(broker.groups.coordinator.release(), None, broker)


class _Settling(AfterCommit):
    """A call whose records are staged."""

    __slots__ = ("asked", "broker", "writing")

    def __init__(self, writing: Writing, asked: Asked, broker: Broker) -> None:
        self.writing = writing
        self.asked = asked
        self.broker = broker

    @property
    def logs(self) -> Sequence[PartitionLog]:
        return [log.log for log, _ in self.writing.written]

    def finish(self) -> Outcome:
        effects = self.broker.groups.settle(self.writing, now_of(self.asked.context))
        return _deliver(effects, self.asked, self.broker)


def _deliver(effects: Effects, asked: Asked | None, broker: Broker) -> Outcome:
    outcome: Outcome = DELAYED
    for token, reply in effects.replies:
        assert isinstance(token, Asked)
        if token is asked:
            outcome = token.outcome(reply)
        else:
            broker.callbacks.post(token.context, partial(token.outcome, reply))
    return outcome
