"""The metrics of a gateway's upstream cluster: documented names, and exact values."""

from pathlib import Path

from msgspec.structs import replace

from broker.controller.rows.upstream import (
    DrainRow,
    DrainState,
    LoopbackAdvertised,
    NodeAddress,
    RackTraffic,
    UpstreamCondition,
)
from broker.metrics.families import render
from broker.monitoring.prometheus.upstream import drain_families, upstream_families
from tests.monitoring.prometheus.test_page import ROW
from tests.support.fake_upstream import fake_cluster
from tests.support.prometheus import parse
from tests.support.running_gateway import running_gateway
from tests.webui.rows import unreachable_upstream, upstream, upstream_node

PREFIX = "weir_gateway_upstream"
RACKS = "weir_gateway_rack"
DOCUMENT = Path(__file__).parents[3] / "docs" / "gateway.md"


def test_every_name_is_documented() -> None:
    names = [family.name for family in upstream_families(upstream())]
    promised = ROW.findall(DOCUMENT.read_text(encoding="utf-8"))
    assert names == [name for name in promised if name.startswith(PREFIX)]


def test_a_cluster_with_a_node_that_is_away() -> None:
    away = upstream_node(
        2,
        condition=UpstreamCondition.UNREACHABLE,
        latency_ms=None,
        connections=0,
        addresses=(NodeAddress("PLAINTEXT", "", is_open=False),),
    )
    loopback = (LoopbackAdvertised("PLAINTEXT", "localhost", 7),)
    row = upstream(upstream_node(1), away, loopback=loopback, unwritten=(("events", "why"),))
    page = parse(render(upstream_families(row)).decode())
    conditions = {each: page[f"{PREFIX}_condition"].value(condition=each) for each in UpstreamCondition}
    assert conditions == dict.fromkeys(UpstreamCondition, 0) | {UpstreamCondition.CONNECTED: 1}
    for name, values in {
        "node_connected": (1, 0),
        "node_connections": (12, 0),
        "node_bytes_in_total": (4_000_000, 4_000_000),
        "node_bytes_out_total": (9_000_000, 9_000_000),
    }.items():
        family = page[f"{PREFIX}_{name}"]
        assert (family.value(node="1"), family.value(node="2")) == values
    latency = page[f"{PREFIX}_node_latency_ms"]
    assert latency.value(node="1") == 1.25 and str(latency.value(node="2")) == "nan"
    is_open = page[f"{PREFIX}_node_address_open"]
    assert is_open.value(node="1", listener="PLAINTEXT") == 1
    assert is_open.value(node="2", listener="PLAINTEXT") == 0
    assert page[f"{PREFIX}_turn_ms"].value() == 0.05
    assert page[f"{PREFIX}_loopback_remote_connections_total"].value(listener="PLAINTEXT") == 7
    assert page[f"{PREFIX}_unwritten_event_topics"].value() == 1


def test_bytes_by_racks() -> None:
    rows = (RackTraffic("a", "a", 3, 40, 90, 1.5, 2.5), RackTraffic("", "b", 1, 5, 7, 0.0, 0.0))
    families = {family.name for family in upstream_families(upstream(racks=rows))}
    names = families - {family.name for family in upstream_families(upstream())}
    assert names == {f"{RACKS}_connections", f"{RACKS}_bytes_in_total", f"{RACKS}_bytes_out_total"}
    documented = ROW.findall(DOCUMENT.read_text(encoding="utf-8"))
    assert names == {name for name in documented if name.startswith(RACKS)}
    page = parse(render(upstream_families(upstream(racks=rows))).decode())
    for name, own, none in (("connections", 3, 1), ("bytes_in_total", 40, 5), ("bytes_out_total", 90, 7)):
        family = page[f"{RACKS}_{name}"]
        assert family.value(client_rack="a", node_rack="a") == own
        assert family.value(client_rack="", node_rack="b") == none


def test_a_cluster_that_was_never_found() -> None:
    page = parse(render(upstream_families(unreachable_upstream())).decode())
    assert page[f"{PREFIX}_condition"].value(condition="unreachable") == 1
    assert str(page[f"{PREFIX}_turn_ms"].value()) == "nan"
    none = replace(unreachable_upstream(), loopback=())
    assert parse(render(upstream_families(none)).decode())


async def test_the_page_of_a_gateway_has_them(tmp_path: Path) -> None:
    async with fake_cluster(2) as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        page = parse(gateway.server.prometheus.page())
        assert {family.name for family in upstream_families(upstream())} <= set(page)
        assert page[f"{PREFIX}_condition"].value(condition="connected") == 1
        names = [family.name for family in gateway.server.prometheus.families()]
        assert len(names) == len(set(names))


def test_a_drain_shows_its_state_and_what_is_left() -> None:
    row = DrainRow(DrainState.DRAINING, 7, 9, ("gateway-2.example:31000-31099",), 1, 2)
    page = parse(render(drain_families(row)).decode())
    states = page["weir_gateway_drain_state"]
    assert [states.value(state=each) for each in DrainState] == [0, 1, 0]
    assert page["weir_gateway_drain_connections"].value() == 7
