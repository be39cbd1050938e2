"""Limits on connections that several gateways share (quota.scope=cluster), as `connections` sees them.

`ConnectionQuotas.share` takes what knows this gateway's part of each limit: `gateway.sharing.connections`.
"""

from typing import Final, NamedTuple, Protocol

from broker.metrics.rate import INT_MAX, Window
from broker.quotas.connection_rates import LEAST_CAPACITY, PacedAcceptRate

CREDIT_S: Final = 1.0
"""Seconds of a share that may come at once; ours. Shares move every second: with Kafka's ten seconds, each
move would let the gain come ten times.
"""


class ConnectionKey(NamedTuple):
    """One limit on connections: the key of the rule, and the address or user that it counts ("": all)."""

    limit: str
    name: str


class ConnectionShares(Protocol):
    """This gateway's parts of the limits."""

    def most(self, key: ConnectionKey, maximum: int) -> int:
        """Return how many of at most `maximum` connections this gateway may have now."""

    def part(self, key: ConnectionKey) -> float:
        """Return the part of a rate that this gateway may use now."""

    def refused(self, key: ConnectionKey) -> None:
        """Note a connection that is refused or delayed by the limit: its client waits."""


class SharedAcceptRate(PacedAcceptRate):
    """A gateway's share of a rate. At first, and after a pause, CREDIT_S of it may come at once."""

    __slots__ = ()

    def __init__(self, window: Window, bound: float, now_ms: int = 0) -> None:
        super().__init__(window, bound, now_ms)
        self._burst_s = CREDIT_S

    def change_bound(self, bound: float, now_ms: int) -> None:
        """Keep what is owed and what is left: a larger share brings none of its own past."""
        before = self.bound
        if self._spent is not None and 0 < before < INT_MAX and 0 < bound < INT_MAX:
            old, new = (max(each * CREDIT_S, LEAST_CAPACITY) for each in (before, bound))
            now_ms = max(now_ms, self._at_ms)
            self._spent = max(self._spent_until(now_ms, before, old) + new - old, 0.0)
        self.bound = bound
