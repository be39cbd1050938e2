"""A Prometheus that asks a broker takes every query of the dashboards and every alert, and has data for each.

Debian's package `prometheus` has the server; .ci/run unpacks it.
"""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from deploy.dashboards import DASHBOARDS, document
from tests.conventions.sources import ROOT
from tests.support.broker_process import TOKEN, BrokerProcess, within
from tests.support.telemetry import subscribe

SERVER: Final = shutil.which("prometheus") or ""
CONFIGURATION: Final = ROOT / "deploy" / "prometheus"
EVERY: Final = "500ms"
VARIABLES: Final = {"$instance": ".*", "$__rate_interval": "1m"}
NOT_MADE: Final = frozenset({"exceptions {{place}}", "missing offsets {{instance}}"})
"""Legends of the queries whose series begin with a bug or a loss."""

SETTINGS: Final = (
    "broker.quota.enabled=true",
    "broker.quota.produce.bytes=100000",
    # The longest throttle of `busy` is all windows: 2 s, not 11. It may push telemetry before its batch.
    "quota.window.num=2",
    "max.connections.per.ip.overrides=127.0.0.2:1",
)
LIMITS: Final = {
    "written": {"producer_byte_rate": 8e3, "controller_mutation_rate": 100},
    "read": {"consumer_byte_rate": 8e3},
    "busy": {"request_percentage": 0.01},
}
IN_SHADOW: Final = {"producer_byte_rate": 1e3, "consumer_byte_rate": 1e3, "request_percentage": 0.01}
BATCH: Final = 50_000
SHOWN_S: Final = 300
"""What a panel shows: the mean of a throttle is there for a while only."""

pytestmark = [pytest.mark.endtoend, pytest.mark.skipif(not SERVER, reason="there is no prometheus")]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a Prometheus that has asked a busy broker."""
    folder = tmp_path_factory.mktemp("prometheus")
    with BrokerProcess(folder / "data", *SETTINGS) as broker:
        subscribe(broker, metrics="*", interval_ms="300")
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
    """Have clients exceed limits of every kind, and make an error. Returns a producer, still connected."""
    for client_id, limits in LIMITS.items():
        broker.ask("PUT", f"/api/v1/client-quotas/client-id={client_id}", {"limits": limits})
    broker.ask("PUT", "/api/v1/client-quotas/client-id=tried", {"limits": IN_SHADOW, "shadow": True})
    for client_id in ("busy", "tried", "unlimited", "written"):
        producer = write(broker, client_id)
    for client_id in ("read", "tried"):
        read(broker, client_id)
    be_refused(broker)
    return producer


def write(broker: BrokerProcess, client_id: str) -> Producer:
    """The second batch waits for the throttle of the first."""
    producer = Producer({"bootstrap.servers": broker.plain, "client.id": client_id})
    for _ in range(2):
        producer.produce(client_id, b"x" * BATCH)
        assert producer.flush(60) == 0
    return producer


def read(broker: BrokerProcess, client_id: str) -> None:
    """Read in a group what `client_id` or another has written."""
    servers = {"bootstrap.servers": broker.plain, "client.id": client_id}
    group = {"group.id": client_id, "auto.offset.reset": "earliest", "fetch.message.max.bytes": BATCH}
    consumer = Consumer(servers | group)
    consumer.subscribe(["written"])
    assert consumer.poll(20) is not None
    consumer.commit(asynchronous=False)
    consumer.close()


def be_refused(broker: BrokerProcess) -> None:
    """Delete a topic that is not there, and connect twice from an address that may have one connection."""
    admin = AdminClient({"bootstrap.servers": broker.plain})
    (deleted,) = admin.delete_topics(["missing"]).values()
    assert deleted.exception(20) is not None
    host, port = broker.plain.split(":")
    connect = partial(socket.create_connection, (host, int(port)), source_address=("127.0.0.2", 0))
    with connect(), connect() as refused, suppress(ConnectionResetError):
        assert refused.recv(1) == b""


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
def test_every_query_of_a_dashboard_has_data(prometheus: str, name: str) -> None:
    def has_data(expression: str) -> bool:
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        now_s = time.time()
        when = {"start": str(now_s - SHOWN_S), "end": str(now_s), "step": "1"}
        return bool(ask(prometheus, "/api/v1/query_range", query=expression, **when)["result"])

    empty = {
        (panel.title, query.legend)
        for panel in DASHBOARDS[name]
        for query in panel.queries
        if query.legend not in NOT_MADE and not has_data(query.expression)
    }
    assert empty == set()


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_variable_of_a_dashboard_lists_the_broker(prometheus: str, name: str) -> None:
    """By the request that Grafana makes of label_values."""
    (variable,) = document(name)["templating"]["list"]
    found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"])
    assert found is not None
    series, label = found.groups()
    (target,) = ask(prometheus, "/api/v1/targets")["activeTargets"]
    values = ask(prometheus, f"/api/v1/label/{label}/values", **{"match[]": series})
    assert values == [target["labels"]["instance"]]
    assert {f"${variable['name']}": variable["allValue"], "$__rate_interval": "1m"} == VARIABLES
