"""A Prometheus that asks a broker takes every query of the dashboards and every alert, and has data for them.

Debian's package `prometheus` has the server; .ci/run unpacks it.
"""

import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from confluent_kafka import Consumer, Producer

from deploy.dashboards import DASHBOARDS
from tests.conventions.sources import ROOT
from tests.support.broker_process import TOKEN, BrokerProcess, within

SERVER: Final = shutil.which("prometheus") or ""
CONFIGURATION: Final = ROOT / "deploy" / "prometheus"
EVERY: Final = "500ms"
VARIABLES: Final = {"$instance": ".*", "$__rate_interval": "1m"}
NOT_MADE: Final = frozenset(
    {
        "Errors",
        "Limits in shadow mode",
        "Refused connections",
        "Throttles by the whole broker's limits",
        "Throttles that clients obey",
    }
)
"""Panels of events that the load here does not make, or not for certain."""

pytestmark = [pytest.mark.endtoend, pytest.mark.skipif(not SERVER, reason="there is no prometheus")]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a Prometheus that has asked a busy broker."""
    folder = tmp_path_factory.mktemp("prometheus")
    with BrokerProcess(folder / "data") as broker:
        load(broker)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        options = {
            "config.file": configured(folder, broker.console),
            "storage.tsdb.path": folder / "tsdb",
            "web.listen-address": address,
        }
        with (folder / "log").open("wb") as log:
            command = [SERVER, *(f"--{key}={value}" for key, value in options.items())]
            with subprocess.Popen(command, stdout=log, stderr=log) as process:
                try:
                    within(30, lambda: answers(address), (folder / "log").read_text())
                    # A rate needs two of them.
                    within(30, lambda: scrapes(address) > 2, "the broker is asked")
                    connected = load(broker)
                    before = scrapes(address)
                    within(30, lambda: scrapes(address) > before + 1, "the broker is asked again")
                    yield address
                    del connected
                finally:
                    process.terminate()


def configured(folder: Path, console: str) -> Path:
    """The configuration that Compose mounts, with the places of this test, and asked more often."""
    configuration = yaml.safe_load((CONFIGURATION / "prometheus.yml").read_text(encoding="utf-8"))
    shutil.copy(CONFIGURATION / "alerts.yml", folder)
    (folder / "token").write_text(TOKEN, encoding="ascii")
    (folder / "weir.yml").write_text(yaml.safe_dump([{"targets": [console]}]), encoding="ascii")
    configuration["global"] = {"scrape_interval": EVERY, "evaluation_interval": EVERY}
    weir, _clients = configuration["scrape_configs"]
    weir["authorization"]["credentials_file"] = str(folder / "token")
    weir["file_sd_configs"] = [{"files": [str(folder / "weir.yml")]}]
    configuration["scrape_configs"] = [weir]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(configuration), encoding="utf-8")
    return path


def load(broker: BrokerProcess) -> Producer:
    """Have a client write more than it may, and read in a group. Returns the producer, still connected."""
    limits = {
        "producer_byte_rate": 8e3,
        "consumer_byte_rate": 1e9,
        "request_percentage": 200,
        "controller_mutation_rate": 100,
    }
    broker.ask("PUT", "/api/v1/client-quotas/client-id=orders", {"limits": limits})
    servers = {"bootstrap.servers": broker.plain, "client.id": "orders"}
    producer = Producer(servers)
    for _ in range(10):
        producer.produce("orders", b"x" * 10_000)
    assert producer.flush(20) == 0
    consumer = Consumer(servers | {"group.id": "orders", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    assert consumer.poll(20) is not None
    consumer.commit(asynchronous=False)
    consumer.close()
    return producer


def ask(address: str, path: str, **query: str) -> Any:
    with urllib.request.urlopen(f"http://{address}{path}?{urllib.parse.urlencode(query)}", timeout=20) as got:
        answer = json.load(got)
    assert answer["status"] == "success"
    return answer["data"]


def answers(address: str) -> bool:
    try:
        return bool(ask(address, "/api/v1/status/buildinfo"))
    except OSError:
        return False


def scrapes(address: str) -> int:
    found = ask(address, "/api/v1/query", query='count_over_time(up{job="weir"}[1h])')["result"]
    return int(found[0]["value"][1]) if found else 0


def test_the_broker_lets_it_read(prometheus: str) -> None:
    (target,) = ask(prometheus, "/api/v1/targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


def test_every_alert_can_be_evaluated(prometheus: str) -> None:
    """With the series that there are: two that match one are an error that no file shows."""

    def evaluated() -> Sequence[Any]:
        rules = [rule for group in ask(prometheus, "/api/v1/rules")["groups"] for rule in group["rules"]]
        return [] if any(rule["health"] == "unknown" for rule in rules) else rules

    rules = within(30, evaluated, "every alert is evaluated")
    assert len(rules) > 10
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"] == []


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_panel_of_a_dashboard_has_data(prometheus: str, name: str) -> None:
    def has_data(expression: str) -> bool:
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        return bool(ask(prometheus, "/api/v1/query", query=expression)["result"])

    # Each query is asked, also where another has data: Prometheus refuses a wrong one.
    found = {
        panel.title: [has_data(query.expression) for query in panel.queries] for panel in DASHBOARDS[name]
    }
    assert {title for title, has in found.items() if not any(has)} - NOT_MADE == set()
