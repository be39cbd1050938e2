"""The metrics of all gateways that share limits: documented names, and exact values."""

from pathlib import Path

from broker.controller.rows.upstream import GatewayRow, GatewayTraffic
from broker.metrics.families import render
from broker.monitoring.prometheus.upstream import GATEWAYS, gateway_families
from tests.monitoring.prometheus.test_page import ROW
from tests.support.prometheus import parse

DOCUMENT = Path(__file__).parents[3] / "docs" / "gateway.md"
ROWS = (
    GatewayRow("1-aa", "one:9092", None, GatewayTraffic(3, 1, 4_000, 9_000, 77, 1.0, 2.0, 3.0)),
    GatewayRow("2-bb", "two:9092", 5, GatewayTraffic(30, 10, 40_000, 90_000, 770, 1.0, 2.0, 3.0)),
    GatewayRow("3-cc", "", 5),
)


def test_every_name_is_documented() -> None:
    promised = ROW.findall(DOCUMENT.read_text(encoding="utf-8"))
    names = [family.name for family in gateway_families(ROWS)]
    assert names == [name for name in promised if name.startswith(f"{GATEWAYS}_")]


def test_each_gateway_has_its_series() -> None:
    page = parse(render(gateway_families(ROWS)).decode())
    for name, values in {
        "connections": (3, 30),
        "throttled_connections": (1, 10),
        "bytes_in_total": (4_000, 40_000),
        "bytes_out_total": (9_000, 90_000),
        "requests_total": (77, 770),
    }.items():
        family = page[f"{GATEWAYS}_{name}"]
        assert (family.value(gateway="1-aa"), family.value(gateway="2-bb")) == values


def test_limits_that_are_not_shared_have_none() -> None:
    assert list(gateway_families(())) == []
    assert list(gateway_families(ROWS[2:])) == []
