"""Warnings about rates that are too small for Kafka's rule (`quota.bandwidth.algorithm=rate`).

Used by broker.controller where quotas and settings change. Kafka's rule averages over windows of a second:
one fetch of a replica fills a window of less than 1 MB/s, and connections are never fewer than one per
window. Every other value of the setting counts replication and connections exactly, and byte rates of
clients, which have eleven windows, are good enough with all of them: there is no warning about these.
"""

from collections.abc import Iterable
from typing import Final

ALGORITHM: Final = "quota.bandwidth.algorithm"
KAFKAS_RULE: Final = "rate"

LEAST_CONNECTIONS: Final = 1.0
LEAST_REPLICATION: Final = 1_000_000.0
"""Bytes per second."""

_CONNECTIONS: Final = "connection_creation_rate"
_REPLICATION: Final = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)


def small_rate_warnings(limits: Iterable[tuple[str, float | None]], algorithm: str) -> tuple[str, ...]:
    """Return a warning for each (key, value) that is kept only roughly. A removal (None) causes none."""
    if algorithm != KAFKAS_RULE:
        return ()
    return tuple(
        f"{key}={value:g} is kept only roughly with {ALGORITHM}={KAFKAS_RULE}: {why}"
        for key, value in limits
        if value is not None and (why := _why(key, value))
    )


def _why(key: str, value: float) -> str:
    if key == _CONNECTIONS and value <= LEAST_CONNECTIONS:
        return "at least one connection is admitted in each window of quota.window.size.seconds"
    if key in _REPLICATION and 0 < value < LEAST_REPLICATION:
        return "one fetch can fill a window of a second at less than 1 MB/s"
    return ""
