"""Limits on bytes and frames per second of an address before authentication. Kafka limits only the size of
one request before the login, not the number of requests or of connections that send them.

Called by network.unauthenticated for every read and request of an unauthenticated connection.
Each address has two token buckets of `BURST_S` seconds, so that all clients behind one address can log in at
once after a restart. Verdicts only; independent of sockets and clocks.
"""

from collections import OrderedDict
from typing import Final

import msgspec

CONNECTIONS: Final = "max.unauthenticated.connections.per.ip"
BYTE_RATE: Final = "max.unauthenticated.byte.rate.per.ip"
FRAME_RATE: Final = "max.unauthenticated.frame.rate.per.ip"

BURST_S: Final = 10
MAX_ADDRESSES: Final = 4_096
"""Addresses kept. One more evicts the address that was idle longest."""


class UnauthenticatedLimits(msgspec.Struct, frozen=True):
    """The values of the three keys; the rates in bytes and frames per second."""

    connections: int = 1_000
    byte_rate: int = 2_097_152
    frame_rate: int = 1_000


class OverRate(msgspec.Struct, frozen=True):
    """The address exceeded the rate of key `rule`, whose value is `bound`."""

    rule: str
    bound: int


class _Sent(msgspec.Struct):
    """The unpaid bytes and frames of an address, in thousandths, so that each millisecond pays an integer."""

    paid_ms: int
    bytes: int = 0
    frames: int = 0


class UnauthenticatedQuotas:
    """The buckets of all addresses. `limits` may be replaced at any time; usage is kept."""

    def __init__(self) -> None:
        self.limits = UnauthenticatedLimits()
        self._sent: OrderedDict[str, _Sent] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of addresses."""
        return len(self._sent)

    def add_bytes(self, address: str, size: int, now_ms: int) -> OverRate | None:
        """Count received bytes. Return the exceeded rate, if any."""
        sent = self._of(address, now_ms)
        sent.bytes += size * 1_000
        rate = self.limits.byte_rate
        return OverRate(BYTE_RATE, rate) if sent.bytes > rate * BURST_S * 1_000 else None

    def add_frames(self, address: str, count: int, now_ms: int, *, is_begun: bool = False) -> OverRate | None:
        """Count requests, unless they exceed the rate. With `is_begun` they continue an admitted login and
        are always admitted: refusing them would waste the login's work, and the client would start again.
        """
        sent = self._of(address, now_ms)
        rate = self.limits.frame_rate
        if not is_begun and sent.frames + count * 1_000 > rate * BURST_S * 1_000:
            return OverRate(FRAME_RATE, rate)
        sent.frames += count * 1_000
        return None

    def _of(self, address: str, now_ms: int) -> _Sent:
        """Return the address's usage, less what the elapsed time has paid."""
        sent = self._sent.get(address)
        if sent is None:
            sent = self._sent[address] = _Sent(now_ms)
            if len(self._sent) > MAX_ADDRESSES:
                self._sent.popitem(last=False)
            return sent
        self._sent.move_to_end(address)
        elapsed_ms = now_ms - sent.paid_ms
        if elapsed_ms > 0:
            sent.bytes = max(0, sent.bytes - elapsed_ms * self.limits.byte_rate)
            sent.frames = max(0, sent.frames - elapsed_ms * self.limits.frame_rate)
            sent.paid_ms = now_ms
        return sent
