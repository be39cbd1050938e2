"""Connection statistics per client address: accept rate, delayed and refused connections.

Kept by `connections` and read by the console; no verdict depends on it. Kafka has metrics only for addresses
with a limit; these also show a connection storm from an address without one. Independent of sockets and
clocks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from broker.metrics.quota import INT_MAX
from broker.metrics.window import Window
from broker.quotas.connection_rates import AcceptRate
from broker.quotas.usage import IDLE_MS

MAX_ADDRESSES: Final = 10_000
"""Addresses kept; one more evicts the eighth of them that was seen longest ago. Kafka has no such table."""


@dataclass(slots=True)
class AddressStats:
    """Totals since the address was first seen, or seen again after an hour: connections accepted, delayed
    for the address's rate (`held`), and refused.
    """

    rate: AcceptRate
    last_ms: int
    accepted: int = 0
    held: int = 0
    refused: int = 0


class Addresses:
    __slots__ = ("_most", "_seen", "_window")

    def __init__(self, window: Window, most: int = MAX_ADDRESSES) -> None:
        self._most = most
        self._seen: dict[str, AddressStats] = {}
        self._window = window

    def __len__(self) -> int:
        return len(self._seen)

    def __iter__(self) -> Iterator[tuple[str, AddressStats]]:
        return iter(self._seen.items())

    def accepted(self, address: str, now_ms: int) -> None:
        stats = self._of(address, now_ms)
        stats.accepted += 1
        stats.rate.record(now_ms)

    def held(self, address: str, now_ms: int) -> None:
        self._of(address, now_ms).held += 1

    def refused(self, address: str, now_ms: int) -> None:
        self._of(address, now_ms).refused += 1

    def expire(self, now_ms: int) -> None:
        """Remove addresses that were not seen for an hour."""
        self._seen = {
            address: each for address, each in self._seen.items() if now_ms - each.last_ms <= IDLE_MS
        }

    def _of(self, address: str, now_ms: int) -> AddressStats:
        stats = self._seen.get(address)
        if stats is None:
            if len(self._seen) >= self._most:
                for each in nsmallest(max(1, self._most // 8), self._seen, key=self._last):
                    del self._seen[each]
            stats = self._seen[address] = AddressStats(AcceptRate(self._window, INT_MAX, now_ms), now_ms)
        stats.last_ms = now_ms
        return stats

    def _last(self, address: str) -> int:
        return self._seen[address].last_ms
