"""The doctor's checks of a gateway: its upstream cluster, and the addresses that its clients get.

Used by webui.doctor.symptoms. A broker has none of them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from broker.controller.rows.upstream import UpstreamCondition, UpstreamLatency, UpstreamRow
from webui.doctor.checks import Check, Level, Unit, above

REMOTE_CONNECTIONS: Final = "clients of a loopback address"
PAGE: Final = "/upstream"

SLOW_MS: Final = 100
VERY_SLOW_MS: Final = 1_000
OWN_PART: Final = 0.5
"""From this part of the upstream latency on, the gateway's own turn is named as the cause."""

_FAILURES: Final = (
    (
        UpstreamCondition.CREDENTIALS,
        "Upstream nodes that refuse the gateway's credentials",
        "upstream.sasl.jaas.config",
        "Check the user, the password and upstream.sasl.mechanism.",
    ),
    (
        UpstreamCondition.TLS,
        "Upstream nodes with which TLS fails",
        "upstream.ssl.truststore.location",
        "Check the CA certificates and the names in the nodes' certificates.",
    ),
    (
        UpstreamCondition.OTHER_CLUSTER,
        "Upstream addresses of another cluster",
        "upstream.cluster.id",
        "The gateway forwards nothing to it. Correct the addresses, or the id if the cluster was replaced on "
        "purpose.",
    ),
)
"""Each is urgent from the first node on: it does not go away by itself."""


def upstream_totals(row: UpstreamRow | None) -> dict[str, int]:
    """Return the totals that `RecentTotals` samples; none for a broker."""
    return {} if row is None else {REMOTE_CONNECTIONS: sum(each.remote_connections for each in row.loopback)}


def upstream_checks(row: UpstreamRow) -> Iterable[Check]:
    yield _reachable(row)
    for condition, title, setting, remedy in _FAILURES:
        yield _failing(row, condition, title, setting, remedy)
    yield _slowest(row)
    yield _events(row)
    if row.refused:
        yield _forged(row)


def address_checks(row: UpstreamRow, growth: Mapping[str, int]) -> Iterable[Check]:
    """Yield the checks of the addresses that clients get."""
    total = sum(len(node.addresses) for node in row.nodes)
    missing = [(node.node_id, each) for node in row.nodes for each in node.addresses if not each.is_open]
    without = [node_id for node_id, each in missing if not each.address]
    if without:
        says = f"The range is too short for node {_listed(without)}: clients cannot reach it."
    elif missing:
        places = _listed([f"{node_id} at {each.address}" for node_id, each in missing])
        says = f"The port of node {places} could not be opened; the gateway's log says why."
    else:
        says = "Every node has an address on every listener."
    yield Check(
        "Upstream nodes without an open port",
        len(missing),
        Unit.COUNT,
        above(len(missing), 1, 1),
        says,
        of=total,
        setting="gateway.port.range",
        page=PAGE,
    )
    remote_connections = growth.get(REMOTE_CONNECTIONS, 0)
    hosts = _listed([f"{each.address} on {each.listener}" for each in row.loopback])
    yield Check(
        "Clients that cannot use the advertised address",
        remote_connections,
        Unit.COUNT,
        above(remote_connections, 1, 1),
        f"Clients of other machines connected in the last five minutes, and are told {hosts}."
        if remote_connections
        else "No client of another machine was told a loopback address in the last five minutes.",
        setting="advertised.listeners",
        page="/connections",
    )


def _reachable(row: UpstreamRow) -> Check:
    away = sum(node.condition is UpstreamCondition.UNREACHABLE for node in row.nodes)
    failing = row.condition is UpstreamCondition.UNREACHABLE or (row.nodes and away == len(row.nodes))
    if failing:
        level, says = Level.URGENT, f"No node answers. {_last_error(row, UpstreamCondition.UNREACHABLE)}"
    elif away:
        level = Level.WATCH
        says = f"Clients of the other nodes go on. {_last_error(row, UpstreamCondition.UNREACHABLE)}"
    elif row.condition is UpstreamCondition.CONNECTING:
        level, says = Level.WATCH, "The gateway looks for the cluster."
    else:
        level, says = Level.GOOD, "Every node can be reached."
    return Check(
        "Upstream nodes that cannot be reached",
        away if row.nodes else None,
        Unit.COUNT,
        level,
        says.strip(),
        of=len(row.nodes) or None,
        setting="upstream.bootstrap.servers",
        page=PAGE,
    )


def _failing(row: UpstreamRow, condition: UpstreamCondition, title: str, setting: str, remedy: str) -> Check:
    count = sum(node.condition is condition for node in row.nodes)
    is_failing = count > 0 or row.condition is condition
    return Check(
        title,
        count if row.nodes or not is_failing else None,
        Unit.COUNT,
        Level.URGENT if is_failing else Level.GOOD,
        f"{_last_error(row, condition)} {remedy}".strip() if is_failing else "None.",
        of=len(row.nodes) or None,
        setting=setting,
        page=PAGE,
    )


def _last_error(row: UpstreamRow, condition: UpstreamCondition) -> str:
    """Return the error of the cluster or of the first node with this condition, as a sentence."""
    error = row.error if row.condition is condition else ""
    error = error or next((each.error for each in row.nodes if each.condition is condition), "")
    return f"{error}." if error else ""


def _slowest(row: UpstreamRow) -> Check:
    """Compare the slowest kind of request that does not wait on purpose with the gateway's own turn."""
    found = [each for each in row.latencies if not each.waits and each.p99_ms == each.p99_ms]
    slowest: UpstreamLatency | None = max(found, key=lambda each: each.p99_ms, default=None)
    value = None if slowest is None else slowest.p99_ms
    level = above(value, SLOW_MS, VERY_SLOW_MS)
    if slowest is None:
        says = "No requests in the last five minutes."
    else:
        says = f"{slowest.api}, 99th percentile over five minutes."
        if row.turn_ms is not None:
            says += f" The gateway's own turn takes {row.turn_ms:.2g} ms."
        if level is not Level.GOOD:
            is_own = row.turn_ms is not None and row.turn_ms >= OWN_PART * slowest.p99_ms
            says += " The gateway itself is busy." if is_own else " The upstream cluster is slow."
    return Check("Slowest upstream response", value, Unit.MS, level, says, page=PAGE)


def _events(row: UpstreamRow) -> Check:
    return Check(
        "Event topics that cannot be written",
        len(row.unwritten),
        Unit.COUNT,
        Level.WATCH if row.unwritten else Level.GOOD,
        f"Their events are dropped. {row.unwritten[0][1]}."
        if row.unwritten
        else "Events are written to the upstream cluster.",
        setting="events.topics",
        page=PAGE,
    )


def _forged(row: UpstreamRow) -> Check:
    recent = [each for each in row.refused if each.last_minute]
    topics, reasons = sorted({each.topic for each in recent}), sorted({each.reason for each in recent})
    return Check(
        "Records that no gateway wrote, last minute",
        sum(each.last_minute for each in recent),
        Unit.COUNT,
        Level.URGENT if recent else Level.GOOD,
        f"In {_listed(topics)}: {_listed(reasons)}. "
        "The gateways skip them. Somebody may write to these topics, or a gateway has another key."
        if recent
        else "None.",
        setting="gateway.cluster.keys.location",
        page=PAGE,
    )


def _listed(names: Iterable[object]) -> str:
    """Return at most five names."""
    given = [str(name) for name in names]
    more = f" and {len(given) - 5} more" if len(given) > 5 else ""
    return ", ".join(given[:5]) + more
