"""Every key of a dashboard is one of Grafana's. Every metric and label in it or in an alert is on the page
of /metrics of a broker or gateway.
"""

import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from deploy.dashboards import DASHBOARDS, FOLDER, WIDTH, document, rendered
from tests.conventions.sources import ROOT
from tests.deploy.queries import grouped, matched, metrics, shown
from tests.monitoring.prometheus.test_page import ROW, busy, scraped
from tests.support.prometheus import Family
from tests.support.running import running_broker

ALERTS: Final = ROOT / "deploy" / "prometheus" / "alerts.yml"
LABELS: Final = re.compile(r"^\| `((?:kafka|weir)_[^`]+)` \| ([^|]*)\|", re.MULTILINE)


def documented_labels() -> dict[str, set[str]]:
    """Return the labels of each documented metric. Names of sockets have those of `the same` rows above."""
    found: dict[str, set[str]] = {}
    same: set[str] = set()
    for page in ("metrics.md", "gateway.md"):
        for pattern, words in LABELS.findall((ROOT / "docs" / page).read_text(encoding="utf-8")):
            own = set(re.findall(r"[a-zA-Z_]\w+", words.replace("the same", ""))) - {"and", "or"}
            labels = own | same if "the same" in words else own
            if pattern.endswith("_connection_count"):
                same = own
            pieces = re.split(r"\{([^}]*)\}", pattern)
            choices = [piece.split(",") if index % 2 else [piece] for index, piece in enumerate(pieces)]
            found |= {"".join(chosen): labels for chosen in product(*choices)}
    return found


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def queries() -> Iterator[tuple[str, str, str]]:
    """Yield where it is, the expression, and the text that shows its labels."""
    for name, panels in DASHBOARDS.items():
        for panel in panels:
            for query in panel.queries:
                yield f"{name}: {panel.title}", query.expression, query.legend
    for rule in alerts():
        yield rule["alert"], rule["expr"], rule["annotations"]["summary"]


QUERIES: Final = list(queries())


@pytest.fixture(scope="module")
def documented() -> dict[str, set[str]]:
    found = documented_labels()
    assert set(found) >= {"kafka_server_produce_byte_rate", "weir_gateway_upstream_node_connected"}
    return found


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_file_is_what_the_script_writes(name: str) -> None:
    written = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert written == rendered(name), "run python -m deploy.dashboards"


def _unknown(written: Any, read: Any, where: str = "") -> list[str]:
    """Return where Grafana's types have not what was written."""
    if isinstance(written, dict) and isinstance(read, dict):
        missing = [f"{where}.{key}" for key in written.keys() - read.keys()]
        both = written.keys() & read.keys()
        return missing + [
            each for key in both for each in _unknown(written[key], read[key], f"{where}.{key}")
        ]
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        pairs = enumerate(zip(written, read, strict=True))
        return [each for index, (one, other) in pairs for each in _unknown(one, other, f"{where}[{index}]")]
    return [] if written == read else [where]


def _as_grafana_reads(written: dict[str, Any]) -> Any:
    """Return the dashboard after a way through the types that Grafana publishes, of its version 11.6."""
    register_default_plugins()
    return json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(written)))


@pytest.mark.parametrize("name", DASHBOARDS)
def test_grafanas_own_types_have_every_key(name: str) -> None:
    written = document(name)
    assert _unknown(written, _as_grafana_reads(written)) == []


@pytest.mark.parametrize(
    ("part", "key"), [("options", "legends"), ("gridPos", "width"), ("fieldConfig", "default")]
)
def test_a_key_that_grafana_does_not_know_is_found(part: str, key: str) -> None:
    written = document("broker")
    written["panels"][0][part][key] = "anything"
    assert _unknown(written, _as_grafana_reads(written)) == [f".panels[0].{part}.{key}"]


async def test_a_running_broker_has_every_metric(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "console.listener=127.0.0.1:0") as broker:
        await busy(broker)
        families = await scraped(broker)
    gateways = set(ROW.findall((ROOT / "docs" / "gateway.md").read_text(encoding="utf-8")))
    asked = {name for _, expression, _ in QUERIES for name in metrics(expression)}
    assert len(asked) > 40
    assert asked - set(families) - gateways == set()
    assert _wrong_rates(families) == []


def _wrong_rates(families: dict[str, Family]) -> list[str]:
    """Return the metrics of which a rate is taken though they are no counters."""
    rated = {
        name
        for _, expression, _ in QUERIES
        for name in re.findall(r"(?:rate|increase)\(((?:kafka|weir)_\w+)", expression)
    }
    return [name for name in sorted(rated) if name in families and families[name].kind != "counter"]


@pytest.mark.parametrize(("where", "expression", "text"), QUERIES, ids=[where for where, *_ in QUERIES])
def test_every_label_is_one_of_the_metric(
    documented: dict[str, set[str]], where: str, expression: str, text: str
) -> None:
    for name, labels in matched(expression).items():
        assert labels <= documented[name], f"{name} has no label {labels - documented[name]}"
    everywhere = set().union(*(documented[name] for name in metrics(expression)))
    assert grouped(expression) <= everywhere
    assert shown(text) <= (grouped(expression) or everywhere)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_fill_rows_and_do_not_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in document(name)["panels"]:
        place = panel["gridPos"]
        cells = set(
            product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"]))
        )
        assert place["x"] + place["w"] <= WIDTH and not cells & taken
        taken |= cells


def test_every_alert_says_what_and_how_bad() -> None:
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names) > 10
    for rule in alerts():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert "$labels.instance" in rule["annotations"]["summary"]


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("weir_x", {"weir_x": set()}),
        ('rate(weir_x{instance=~"$instance",topic!=""}[5m])', {"weir_x": {"topic"}}),
        ('kafka_a{a="1"} / kafka_b', {"kafka_a": {"a"}, "kafka_b": set()}),
    ],
)
def test_labels_of_a_query_are_found(expression: str, found: dict[str, set[str]]) -> None:
    assert matched(expression) == found
    assert grouped(f"sum by (instance, x) ({expression})") == {"x"}
