"""What one address may send before it has logged in: bytes and frames per second. Ours: Kafka bounds the
size of one request before the login, and neither how many there are nor how many connections send them.

Asked by network.acceptor.unauthenticated for every read and every request of a connection that has not
authenticated. Each address has two token buckets that hold `BURST_S` seconds of the rate, so that all clients
behind one address may log in at once after a restart. Verdicts only; knows no socket and no clock.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

CONNECTIONS: Final = "max.unauthenticated.connections.per.ip"
BYTE_RATE: Final = "max.unauthenticated.byte.rate.per.ip"
FRAME_RATE: Final = "max.unauthenticated.frame.rate.per.ip"

BURST_S: Final = 10
MOST_ADDRESSES: Final = 4_096
"""Beyond it, the address that has sent nothing for longest is forgotten."""


@dataclass(frozen=True, slots=True)
class UnauthenticatedLimits:
    """The values of the three keys; the rates in bytes and frames per second."""

    connections: int = 1_000
    byte_rate: int = 2_097_152
    frame_rate: int = 1_000


@dataclass(frozen=True, slots=True)
class OverRate:
    """`rule` is the key of the rate that the address has exceeded, `bound` its value."""

    rule: str
    bound: int


class _Sent:
    """What an address has sent and not paid for yet, in thousandths, so that milliseconds pay exactly."""

    __slots__ = ("bytes", "frames", "paid_ms")

    def __init__(self, now_ms: int) -> None:
        self.bytes = self.frames = 0
        self.paid_ms = now_ms


class UnauthenticatedQuotas:
    """`limits` may be replaced at any time; what was sent stays counted."""

    __slots__ = ("_sent", "limits")

    def __init__(self) -> None:
        self.limits = UnauthenticatedLimits()
        self._sent: OrderedDict[str, _Sent] = OrderedDict()

    def __len__(self) -> int:
        """Addresses that are remembered."""
        return len(self._sent)

    def add_bytes(self, address: str, size: int, now_ms: int) -> OverRate | None:
        """Counts bytes that were received; whether the address has now sent more than it may."""
        sent = self._of(address, now_ms)
        sent.bytes += size * 1_000
        rate = self.limits.byte_rate
        return OverRate(BYTE_RATE, rate) if sent.bytes > rate * BURST_S * 1_000 else None

    def add_frames(self, address: str, count: int, now_ms: int, *, is_begun: bool = False) -> OverRate | None:
        """Counts requests, unless there is no room for them. `is_begun`: they go on with a login that was let
        in, so there is: half a login would have been work for nothing, and its client would begin anew.
        """
        sent = self._of(address, now_ms)
        rate = self.limits.frame_rate
        if not is_begun and sent.frames + count * 1_000 > rate * BURST_S * 1_000:
            return OverRate(FRAME_RATE, rate)
        sent.frames += count * 1_000
        return None

    def _of(self, address: str, now_ms: int) -> _Sent:
        """What it has sent, less what the time since has paid."""
        sent = self._sent.get(address)
        if sent is None:
            sent = self._sent[address] = _Sent(now_ms)
            if len(self._sent) > MOST_ADDRESSES:
                self._sent.popitem(last=False)
            return sent
        self._sent.move_to_end(address)
        elapsed_ms = now_ms - sent.paid_ms
        if elapsed_ms > 0:
            sent.bytes = max(0, sent.bytes - elapsed_ms * self.limits.byte_rate)
            sent.frames = max(0, sent.frames - elapsed_ms * self.limits.frame_rate)
            sent.paid_ms = now_ms
        return sent
