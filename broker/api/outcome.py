"""The ways a handler can end. `network.handling.handler_pool` matches on them; nothing else does.

Expected errors are values inside a reply. A throttle travels beside the reply, because the channel must be
marked as throttled before the response is enqueued (KIP-219: answer first, mute afterwards).
"""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any, Final

from broker.api.context import Connection
from broker.log.partition import PartitionLog
from broker.protocol.schema import Struct
from broker.quotas.verdict import Throttle
from broker.records.slices import Slices, Unpack

Imprint = Callable[[Connection], None]


class Login(Enum):
    """How a login ended, for the connection: a success lifts the limits that held before it, as the renewal
    of one does, a failure
    closes the connection `connection.failed.authentication.delay.ms` after the answer, and holds up nobody
    else meanwhile.
    """

    SUCCEEDED = "succeeded"
    RENEWED = "renewed"
    FAILED = "failed"


class Answered:
    """A reply to encode and send.

    `cacheable` says that the same request bytes get the same answer until the metadata image changes; the
    encoded answer is then kept, and `imprint`, if given, is what the request leaves on its connection each
    time it is served so. `login` is given by the SASL handlers only.
    """

    __slots__ = ("cacheable", "imprint", "login", "reply", "throttle")

    def __init__(
        self,
        reply: Struct,
        throttle: Throttle | None = None,
        *,
        cacheable: bool = False,
        imprint: Imprint | None = None,
        login: Login | None = None,
    ) -> None:
        self.reply = reply
        self.throttle = throttle
        self.cacheable = cacheable
        self.imprint = imprint
        self.login = login

    def withheld(self, throttle: Throttle) -> "Answered":
        """What is sent when the request quota throttles the client: this answer, but for a consumer's fetch,
        which is answered without records. (api.fetch_pending.FetchAnswer)
        """
        return self


class Encoded:
    """A whole frame, ready to send (bytes, or a list of buffers and file slices): what an `Answered`
    becomes, where the handler can say it without a message.
    """

    __slots__ = ("frame", "throttle")

    def __init__(self, frame: Any, throttle: Throttle | None) -> None:
        self.frame = frame
        self.throttle = throttle


class Silent:
    """No response on the wire (acks=0); a byte-rate violation still mutes."""

    __slots__ = ("throttle",)

    def __init__(self, throttle: Throttle | None = None) -> None:
        self.throttle = throttle


class Delayed:
    """The request waits. Whoever completes it posts (context, outcome) to the broker's callbacks."""

    __slots__ = ()


class Hangup:
    """The connection is closed, with one log line. `error` is the code that an answer would have had, 0 where
    there is none.
    """

    __slots__ = ("error", "reason")

    def __init__(self, reason: str, error: int = 0) -> None:
        self.reason = reason
        self.error = error


AS_LONG_AS_IT_TAKES: Final = 2**31 - 1
"""Milliseconds, 24 days: for those whose request says nothing of a time-out."""


class AfterCommit:
    """The outcome is known once the appends that this drain staged are on file, and on the disk where the
    topic wants that: `finish` is called then, once.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def logs(self) -> Sequence[PartitionLog]:
        """Where it appended."""

    @property
    def timeout_ms(self) -> int:
        """How long the answer waits for the disk."""
        return AS_LONG_AS_IT_TAKES

    @abstractmethod
    def finish(self) -> "Outcome":
        """Any outcome: Sliced where more is to be appended; Parked only where `api.retry_storm` has its
        answer come later.
        """

    def give_up(self) -> "Outcome":
        """The outcome when the disk does not have the records, be it that it took longer than `timeout_ms` or
        that it failed; called once, and `finish` never then.
        """
        return self.finish()


class Sliced:
    """The outcome takes longer to find out than others may be kept waiting: `slices` is resumed between other
    requests, and returns the outcome, or an awaitable of it, as a handler may. `step` is what it has yielded
    last; `then`, if somebody sets it, makes another outcome of what is returned. `held` are large messages
    and lists that the local variables of `slices` do not name, to be freed in slices if the work is given up.
    (broker.records.slices)
    """

    __slots__ = ("held", "slices", "step", "then")

    def __init__(
        self, slices: "Slices[Outcome | Awaitable[Outcome]]", step: Unpack | None, *held: "Struct | list[Any]"
    ) -> None:
        self.held = held
        self.slices = slices
        self.step = step
        self.then: Callable[[Outcome | Awaitable[Outcome]], Outcome | Awaitable[Outcome]] | None = None


def in_slices(slices: "Slices[Outcome | Awaitable[Outcome]]") -> "Outcome | Awaitable[Outcome]":
    """The outcome where the first slice finds it out, else the work that is left."""
    try:
        step = next(slices)
    except StopIteration as end:
        outcome: Outcome | Awaitable[Outcome] = end.value
        return outcome
    return Sliced(slices, step)


def outcome_of(slices: "Slices[Outcome]") -> "Outcome":
    """The same of work that ends in an outcome."""
    outcome = in_slices(slices)
    assert not isinstance(outcome, Awaitable)
    return outcome


DELAYED = Delayed()
SILENT = Silent()

Outcome = Answered | Encoded | Silent | Delayed | Hangup | AfterCommit | Sliced
"""What a handler returns; a completion posts one of Answered, Silent, Hangup or Sliced."""
