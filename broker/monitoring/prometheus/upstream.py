"""Metrics of a gateway's upstream cluster: its nodes, and how they answer; and of all gateways that share
limits, since a gateway without a console has no metrics page of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from math import nan
from typing import Final

from broker.controller.rows.upstream import (
    DrainRow,
    DrainState,
    GatewayRow,
    GatewayTraffic,
    RackTraffic,
    UpstreamCondition,
    UpstreamNodeRow,
    UpstreamRow,
)
from broker.metrics.families import FamilySamples, MetricType, Sample, counter, gauge

PREFIX: Final = "weir_gateway_upstream"

GATEWAYS: Final = "weir_gateways"

RACKS: Final = "weir_gateway_rack"


def upstream_families(row: UpstreamRow) -> Iterator[FamilySamples]:
    """Yield the families. A node that left has no series."""
    yield gauge(
        f"{PREFIX}_condition",
        "1 for the present condition of the upstream cluster, 0 for every other",
        [Sample((("condition", each),), int(each is row.condition)) for each in UpstreamCondition],
    )
    yield _of_nodes(
        row,
        "node_connected",
        "1 if the upstream node answers the gateway's own requests",
        MetricType.GAUGE,
        lambda node: int(node.condition is UpstreamCondition.CONNECTED),
    )
    yield _of_nodes(
        row,
        "node_connections",
        "Client connections that are forwarded to the upstream node",
        MetricType.GAUGE,
        lambda node: node.connections,
    )
    yield _of_nodes(
        row,
        "node_bytes_in_total",
        "Bytes of requests from clients to the upstream node",
        MetricType.COUNTER,
        lambda node: node.bytes_in,
    )
    yield _of_nodes(
        row,
        "node_bytes_out_total",
        "Bytes of responses from the upstream node to clients",
        MetricType.COUNTER,
        lambda node: node.bytes_out,
    )
    yield _of_nodes(
        row,
        "node_latency_ms",
        "Milliseconds of the upstream node's last response to the gateway's own requests",
        MetricType.GAUGE,
        lambda node: nan if node.latency_ms is None else node.latency_ms,
    )
    yield gauge(
        f"{PREFIX}_node_address_open",
        "1 if clients of the listener can connect to the upstream node",
        [
            Sample((_label(node), ("listener", each.listener)), int(each.is_open))
            for node in row.nodes
            for each in node.addresses
        ],
    )
    yield gauge(
        f"{PREFIX}_turn_ms",
        "Mean milliseconds of a turn of the gateway's event loop over the last second or scrape",
        nan if row.turn_ms is None else row.turn_ms,
    )
    yield counter(
        f"{PREFIX}_loopback_remote_connections_total",
        "Connections from other machines to a listener that advertises a loopback address",
        [Sample((("listener", each.listener),), each.remote_connections) for each in row.loopback],
    )
    yield gauge(
        f"{PREFIX}_unwritten_event_topics",
        "Event topics whose records cannot be written to the upstream cluster",
        len(row.unwritten),
    )
    if row.racks:
        for name, about, kind, value in _OF_RACKS:
            yield FamilySamples(
                f"{RACKS}_{name}", about, kind, [_of_racks(each, value) for each in row.racks]
            )
    if row.refused:
        yield counter(
            "weir_gateway_refused_records_total",
            "Records of the topics that gateways believe which no gateway wrote",
            [Sample((("topic", each.topic), ("reason", each.reason)), each.total) for each in row.refused],
        )


def drain_families(row: DrainRow) -> Iterator[FamilySamples]:
    """Yield the families of a gateway's drain."""
    yield gauge(
        "weir_gateway_drain_state",
        "1 for the present state of the gateway, 0 for every other",
        [Sample((("state", each),), int(each is row.state)) for each in DrainState],
    )
    yield gauge(
        "weir_gateway_drain_connections",
        "Connections that are left in a drain of the gateway, 0 while it serves",
        row.connections,
    )


def _of_nodes(
    row: UpstreamRow, name: str, about: str, kind: MetricType, value: Callable[[UpstreamNodeRow], float]
) -> FamilySamples:
    samples = [Sample((_label(node),), value(node)) for node in row.nodes]
    return FamilySamples(f"{PREFIX}_{name}", about, kind, samples)


def _of_racks(row: RackTraffic, value: Callable[[RackTraffic], int]) -> Sample:
    return Sample((("client_rack", row.client_rack), ("node_rack", row.node_rack)), value(row))


def _label(node: UpstreamNodeRow) -> tuple[str, str]:
    return ("node", str(node.node_id))


_OF_RACKS: Final[tuple[tuple[str, str, MetricType, Callable[[RackTraffic], int]], ...]] = (
    (
        "connections",
        "Connections of clients with one rack to upstream nodes in one rack",
        MetricType.GAUGE,
        lambda each: each.connections,
    ),
    (
        "bytes_in_total",
        "Bytes of requests from clients with one rack to upstream nodes in one rack",
        MetricType.COUNTER,
        lambda each: each.bytes_in,
    ),
    (
        "bytes_out_total",
        "Bytes of responses to clients with one rack from upstream nodes in one rack",
        MetricType.COUNTER,
        lambda each: each.bytes_out,
    ),
)

_OF_GATEWAYS: Final[tuple[tuple[str, str, MetricType, Callable[[GatewayTraffic], int]], ...]] = (
    ("connections", "Open connections of the gateway", MetricType.GAUGE, lambda each: each.connections),
    (
        "throttled_connections",
        "Throttled connections of the gateway",
        MetricType.GAUGE,
        lambda each: each.throttled,
    ),
    ("bytes_in_total", "Bytes of the gateway's requests", MetricType.COUNTER, lambda each: each.bytes_in),
    ("bytes_out_total", "Bytes of the gateway's responses", MetricType.COUNTER, lambda each: each.bytes_out),
    ("requests_total", "Requests of the gateway's clients", MetricType.COUNTER, lambda each: each.requests),
)


def gateway_families(rows: Sequence[GatewayRow]) -> Iterator[FamilySamples]:
    """Yield the families; none if limits are not shared. A gateway that is lost has no series."""
    known = [(row.gateway_id, row.traffic) for row in rows if row.traffic is not None]
    if not known:
        return
    for name, about, kind, value in _OF_GATEWAYS:
        samples = [Sample((("gateway", gateway),), value(traffic)) for gateway, traffic in known]
        yield FamilySamples(f"{GATEWAYS}_{name}", f"{about}, up to a second ago", kind, samples)
