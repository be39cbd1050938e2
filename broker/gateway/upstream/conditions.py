"""The states of upstream nodes and of the cluster, for the console, with one log line for each change.

A failing node often gives different errors in turn (closed, refused, a timeout): a change among them is not a
change of its condition.
"""

import logging
from typing import Final

import msgspec

from broker.controller.rows.upstream import UpstreamCondition
from broker.gateway.upstream.errors import Reason, UpstreamError

logger = logging.getLogger(__name__)


_OF_REASON: Final = {
    Reason.CLUSTER: UpstreamCondition.OTHER_CLUSTER,
    Reason.CREDENTIALS: UpstreamCondition.CREDENTIALS,
    Reason.TLS: UpstreamCondition.TLS,
}

_NODE_LINES: Final = {
    UpstreamCondition.CONNECTED: "an upstream node is back",
    UpstreamCondition.UNREACHABLE: "cannot reach an upstream node",
    UpstreamCondition.CREDENTIALS: "an upstream node refuses the gateway's credentials",
    UpstreamCondition.TLS: "TLS with an upstream node failed",
    UpstreamCondition.OTHER_CLUSTER: "an upstream node belongs to another cluster",
}
_CLUSTER_LINES: Final = {
    UpstreamCondition.CONNECTED: "the upstream cluster is back",
    UpstreamCondition.UNREACHABLE: "cannot reach the upstream cluster",
    UpstreamCondition.CREDENTIALS: "the upstream cluster refuses the gateway's credentials",
    UpstreamCondition.TLS: "TLS with the upstream cluster failed",
    UpstreamCondition.OTHER_CLUSTER: (
        "the upstream cluster is another one; the gateway forwards nothing to it"
    ),
}
_FIRST: Final = (UpstreamCondition.CONNECTING, UpstreamCondition.CONNECTED)


class UpstreamStatus(msgspec.Struct, frozen=True):
    """`condition` has lasted since `since_ms`, a wall-clock time. `error` is the last one, empty if there is
    none. `latency_ms` is how long the node took for the watcher's last successful request.
    """

    condition: UpstreamCondition
    since_ms: int
    error: str = ""
    latency_ms: float | None = None


def condition_of(error: UpstreamError) -> UpstreamCondition:
    return _OF_REASON.get(error.reason, UpstreamCondition.UNREACHABLE)


def next_state(
    old: UpstreamStatus,
    condition: UpstreamCondition,
    wall_ms: int,
    *,
    error: str = "",
    latency_ms: float | None = None,
) -> UpstreamStatus:
    """Return the state after an event. `since_ms` stays while the condition does, and so does the last known
    latency.
    """
    since_ms = old.since_ms if condition is old.condition else wall_ms
    return UpstreamStatus(condition, since_ms, error, old.latency_ms if latency_ms is None else latency_ms)


def log_node(old: UpstreamStatus, new: UpstreamStatus, node_id: int, address: object) -> None:
    """Log a node's change of condition. The first answer of a new node is not a change."""
    if new.condition is old.condition or (old.condition, new.condition) == _FIRST:
        return
    extra = {"node": node_id, "address": str(address)}
    if new.error:
        extra["reason"] = new.error
    logger.log(_level(new.condition), _NODE_LINES[new.condition], extra=extra)


def log_cluster(old: UpstreamStatus, new: UpstreamStatus) -> None:
    """Log a change of the cluster's condition."""
    if new.condition is old.condition:
        return
    extra = {"reason": new.error} if new.error else {}
    logger.log(_level(new.condition), _CLUSTER_LINES[new.condition], extra=extra)


def _level(condition: UpstreamCondition) -> int:
    if condition is UpstreamCondition.OTHER_CLUSTER:
        return logging.ERROR
    return logging.WARNING if condition.is_failing else logging.INFO
