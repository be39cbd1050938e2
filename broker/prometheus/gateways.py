"""Metrics of all gateways that share limits; a gateway without a console has no metrics page of its own."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from broker.control.rows.upstream import GatewayRow, GatewayTraffic
from broker.metrics.families import FamilySamples, Kind, Sample

PREFIX: Final = "weir_gateways"

_FAMILIES: Final[tuple[tuple[str, str, Kind, Callable[[GatewayTraffic], int]], ...]] = (
    ("connections", "Open connections of the gateway", Kind.GAUGE, lambda each: each.connections),
    (
        "throttled_connections",
        "Throttled connections of the gateway",
        Kind.GAUGE,
        lambda each: each.throttled,
    ),
    ("bytes_in_total", "Bytes of the gateway's requests", Kind.COUNTER, lambda each: each.bytes_in),
    ("bytes_out_total", "Bytes of the gateway's responses", Kind.COUNTER, lambda each: each.bytes_out),
    ("requests_total", "Requests of the gateway's clients", Kind.COUNTER, lambda each: each.requests),
)


def gateway_families(rows: Sequence[GatewayRow]) -> Iterator[FamilySamples]:
    """Yield the families; none if limits are not shared. A gateway that is lost has no series."""
    known = [(row.gateway_id, row.traffic) for row in rows if row.traffic is not None]
    if not known:
        return
    for name, about, kind, value in _FAMILIES:
        samples = [Sample((("gateway", gateway),), value(traffic)) for gateway, traffic in known]
        yield FamilySamples(f"{PREFIX}_{name}", f"{about}, up to a second ago", kind, samples)
