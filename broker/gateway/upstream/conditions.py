"""The states of upstream nodes and of the cluster, for the console, with one log line for each change.

A failing node often gives different errors in turn (closed, refused, a timeout): a change among them is not a
change of its condition.
"""

import logging
from enum import StrEnum
from typing import Final

import msgspec

from broker.gateway.upstream.errors import Reason, UpstreamError

logger = logging.getLogger(__name__)


class Condition(StrEnum):
    """The condition of a node, or of the cluster as a whole."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    UNREACHABLE = "unreachable"
    CREDENTIALS = "credentials refused"
    TLS = "TLS failed"
    OTHER_CLUSTER = "another cluster"

    @property
    def is_failing(self) -> bool:
        return self not in (Condition.CONNECTING, Condition.CONNECTED)


_OF_REASON: Final = {
    Reason.CLUSTER: Condition.OTHER_CLUSTER,
    Reason.CREDENTIALS: Condition.CREDENTIALS,
    Reason.TLS: Condition.TLS,
}

_NODE_LINES: Final = {
    Condition.CONNECTED: "an upstream node is back",
    Condition.UNREACHABLE: "cannot reach an upstream node",
    Condition.CREDENTIALS: "an upstream node refuses the gateway's credentials",
    Condition.TLS: "TLS with an upstream node failed",
    Condition.OTHER_CLUSTER: "an upstream node belongs to another cluster",
}
_CLUSTER_LINES: Final = {
    Condition.CONNECTED: "the upstream cluster is back",
    Condition.UNREACHABLE: "cannot reach the upstream cluster",
    Condition.CREDENTIALS: "the upstream cluster refuses the gateway's credentials",
    Condition.TLS: "TLS with the upstream cluster failed",
    Condition.OTHER_CLUSTER: "the upstream cluster is another one; the gateway forwards nothing to it",
}
_FIRST: Final = (Condition.CONNECTING, Condition.CONNECTED)


class UpstreamState(msgspec.Struct, frozen=True):
    """`condition` has lasted since `since_ms`, a wall-clock time. `error` is the last one, empty if there is
    none. `latency_ms` is how long the node took for the watcher's last successful request.
    """

    condition: Condition
    since_ms: int
    error: str = ""
    latency_ms: float | None = None


def condition_of(error: UpstreamError) -> Condition:
    return _OF_REASON.get(error.reason, Condition.UNREACHABLE)


def next_state(
    old: UpstreamState,
    condition: Condition,
    wall_ms: int,
    *,
    error: str = "",
    latency_ms: float | None = None,
) -> UpstreamState:
    """Return the state after an event. `since_ms` stays while the condition does, and so does the last known
    latency.
    """
    since_ms = old.since_ms if condition is old.condition else wall_ms
    return UpstreamState(condition, since_ms, error, old.latency_ms if latency_ms is None else latency_ms)


def log_node(old: UpstreamState, new: UpstreamState, node_id: int, address: object) -> None:
    """Log a node's change of condition. The first answer of a new node is not a change."""
    if new.condition is old.condition or (old.condition, new.condition) == _FIRST:
        return
    extra = {"node": node_id, "address": str(address)}
    if new.error:
        extra["reason"] = new.error
    logger.log(_level(new.condition), _NODE_LINES[new.condition], extra=extra)


def log_cluster(old: UpstreamState, new: UpstreamState) -> None:
    """Log a change of the cluster's condition."""
    if new.condition is old.condition:
        return
    extra = {"reason": new.error} if new.error else {}
    logger.log(_level(new.condition), _CLUSTER_LINES[new.condition], extra=extra)


def _level(condition: Condition) -> int:
    if condition is Condition.OTHER_CLUSTER:
        return logging.ERROR
    return logging.WARNING if condition.is_failing else logging.INFO
