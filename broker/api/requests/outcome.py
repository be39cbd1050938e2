"""The outcomes of a handler, matched by `network.handling.handler_pool` only.

Expected errors are values in the reply. The throttle is separate from the reply because the channel must be
marked as throttled before the response is enqueued (KIP-219: respond first, mute afterwards).
"""

import struct
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any, Final

from broker.api.requests.context import Connection
from broker.common.slices import Slices, ThreadWork, begin
from broker.log.partition import PartitionLog
from broker.protocol.schema import Struct
from broker.quotas.throttled import Throttle, longer

_INT32: Final = struct.Struct(">i")

ConnectionUpdate = Callable[[Connection], None]


class Login(Enum):
    """The result of a login step.

    SUCCEEDED and RENEWED lift the limits of an unauthenticated connection. FAILED closes the connection
    `connection.failed.authentication.delay.ms` after the response, without blocking other connections.
    """

    SUCCEEDED = "succeeded"
    RENEWED = "renewed"
    FAILED = "failed"


class Response:
    """A reply to encode and send.

    `cacheable` is true if identical request bytes get the same response until a topic, a broker's setting, a
    user or an ACL changes in the metadata image; the broker then caches the encoded response.
    `update_connection`, if set, applies the request's effect to the connection each time the cached response
    is served. Only the SASL handlers set `login`. `withhold`, if set, returns the response to send instead
    when the request quota throttles the client.
    """

    __slots__ = ("cacheable", "login", "reply", "throttle", "update_connection", "withhold")

    def __init__(
        self,
        reply: Struct,
        throttle: Throttle | None = None,
        *,
        cacheable: bool = False,
        update_connection: ConnectionUpdate | None = None,
        login: Login | None = None,
        withhold: "Callable[[Response, Throttle], Response] | None" = None,
    ) -> None:
        self.reply = reply
        self.throttle = throttle
        self.cacheable = cacheable
        self.update_connection = update_connection
        self.login = login
        self.withhold = withhold


class EncodedResponse:
    """A complete frame, ready to send: bytes, or a list of buffers and file slices.

    The fast paths return it instead of a `Response`, without building a message. `throttle_at` is the
    position of the throttle time: in `frame`, negative, or in the first element if the frame is a list; 0 if
    it has none. `withhold`, if set, returns the response to send instead when the request quota throttles the
    client, or None for this one.
    """

    __slots__ = ("frame", "throttle", "throttle_at", "withhold")

    def __init__(
        self,
        frame: Any,
        throttle: Throttle | None,
        throttle_at: int = 0,
        withhold: "Callable[[Throttle], Response | None] | None" = None,
    ) -> None:
        self.frame = frame
        self.throttle = throttle
        self.throttle_at = throttle_at
        self.withhold = withhold

    def lengthen(self, throttle: Throttle | None) -> None:
        """Report the longer of `throttle` and the response's own, as far as the frame has a place for it."""
        longest = longer(throttle, self.throttle)
        if longest is self.throttle:
            return
        assert longest is not None
        self.throttle = longest
        if not self.throttle_at:
            return
        if isinstance(self.frame, list):
            self.frame[0] = self._with_throttle_time(self.frame[0], longest.throttle_ms)
        else:
            self.frame = self._with_throttle_time(self.frame, longest.throttle_ms)

    def _with_throttle_time(self, frame: bytes, throttle_ms: int) -> bytes:
        """A longer time stays: an upstream broker of a gateway has throttled its own share."""
        changed = bytearray(frame)
        at = self.throttle_at if self.throttle_at > 0 else len(changed) + self.throttle_at
        _INT32.pack_into(changed, at, max(_INT32.unpack_from(changed, at)[0], throttle_ms))
        return bytes(changed)


class NoResponse:
    """No response on the wire (acks=0); a byte-rate violation still mutes the channel."""

    __slots__ = ("throttle",)

    def __init__(self, throttle: Throttle | None = None) -> None:
        self.throttle = throttle


class Delayed:
    """The request waits; its completion posts (context, outcome) to the broker's callbacks."""

    __slots__ = ()


class Hangup:
    """Closes the connection, with one log line; `error` is the response's error code, or 0."""

    __slots__ = ("error", "reason")

    def __init__(self, reason: str, error: int = 0) -> None:
        self.reason = reason
        self.error = error


NOT_FLUSHED: Final = "what the request has written could not be flushed"

NO_TIMEOUT_MS: Final = 2**31 - 1
"""Milliseconds, 24 days: for requests without a timeout."""


class AfterCommit:
    """An outcome that depends on the commit of the appends that this drain staged.

    `finish` is called once, after the write and, where the topic requires it, the flush.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def logs(self) -> Sequence[PartitionLog]:
        """The logs with staged appends."""

    @property
    def timeout_ms(self) -> int:
        """The longest time that the response waits for the disk."""
        return NO_TIMEOUT_MS

    @abstractmethod
    def finish(self) -> "Outcome":
        """Return any outcome.

        Sliced appends more; Delayed occurs only if `api.requests.retry_storm` delays the response.
        """

    def fail(self) -> "Outcome":
        """Return the outcome if the flush fails or exceeds `timeout_ms`; called once, instead of `finish`."""
        return self.finish()


class StagedAppends(AfterCommit):
    """Appends to `logs`, of which `settle` returns the outcome."""

    __slots__ = ("_logs", "_settle")

    def __init__(self, logs: Sequence[PartitionLog], settle: "Callable[[], Outcome]") -> None:
        self._logs = logs
        self._settle = settle

    @property
    def logs(self) -> Sequence[PartitionLog]:
        return self._logs

    def finish(self) -> "Outcome":
        return self._settle()

    def fail(self) -> "Outcome":
        """Close the connection in place of a response: what is appended counts, and is in the log, but may
        not be on the disk. The client asks again. (Kafka answers KAFKA_STORAGE_ERROR, or what the API makes
        of it)
        """
        outcome = self._settle()
        return Hangup(NOT_FLUSHED) if isinstance(outcome, Response) else outcome


class MappedCommit(AfterCommit):
    """Appends of which `then` maps the outcome to another."""

    __slots__ = ("_inner", "_then")

    def __init__(self, inner: AfterCommit, then: "Callable[[Outcome], Outcome]") -> None:
        self._inner = inner
        self._then = then

    @property
    def logs(self) -> Sequence[PartitionLog]:
        return self._inner.logs

    @property
    def timeout_ms(self) -> int:
        return self._inner.timeout_ms

    def finish(self) -> "Outcome":
        return self._then(self._inner.finish())

    def fail(self) -> "Outcome":
        return self._then(self._inner.fail())


class Sliced:
    """A handler that yields to other requests because its work takes longer than one slice.

    The handler pool resumes `slices` between other requests; it returns an outcome, or an awaitable of one.
    `step` is the last yielded value. `then`, if set, maps the returned outcome to another. `held` lists large
    messages and lists that the local variables of `slices` do not reference; they are freed in slices if the
    work is cancelled. (broker.common.slices)
    """

    __slots__ = ("held", "slices", "step", "then")

    def __init__(
        self,
        slices: "Slices[Outcome | Awaitable[Outcome]]",
        step: ThreadWork | None,
        *held: "Struct | list[Any]",
    ) -> None:
        self.held = held
        self.slices = slices
        self.step = step
        self.then: Callable[[Outcome | Awaitable[Outcome]], Outcome | Awaitable[Outcome]] | None = None


def in_slices(slices: "Slices[Outcome | Awaitable[Outcome]]") -> "Outcome | Awaitable[Outcome]":
    """Return the outcome if the first slice completes it, else a `Sliced` with the remaining work."""
    try:
        step = begin(slices)
    except StopIteration as end:
        outcome: Outcome | Awaitable[Outcome] = end.value
        return outcome
    return Sliced(slices, step)


def outcome_of(slices: "Slices[Outcome]") -> "Outcome":
    """Like `in_slices`, for work that never returns an awaitable."""
    outcome = in_slices(slices)
    assert not isinstance(outcome, Awaitable)
    return outcome


DELAYED = Delayed()
NO_RESPONSE = NoResponse()

Outcome = Response | EncodedResponse | NoResponse | Delayed | Hangup | AfterCommit | Sliced
"""The return type of a handler; a completion posts Response, NoResponse, Hangup or Sliced."""
