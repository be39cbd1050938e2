"""gateway.processes=2 with quota.scope=cluster before a real cluster: one limit, one console for both."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import within
from tests.support.gateway_process import GatewayProcess, set_rate
from tests.support.greedy_load import CLIENT_ID, GreedyLoad
from tests.support.kafka_cluster import KafkaCluster
from tests.support.prometheus import parse

pytestmark = kafka_tools.pytestmark

RATE: Final = 2_000_000
PRODUCERS: Final = 12
"""The system distributes their connections over the processes."""

TOLERANCE: Final = 0.05
BACK_WITHIN_S: Final = 20.0


@pytest.fixture
def gateway(cluster: KafkaCluster, tmp_path: Path) -> Iterator[GatewayProcess]:
    settings = ("quota.scope=cluster", "gateway.processes=2", "node.id=10")
    with GatewayProcess(tmp_path, cluster.bootstrap(), *settings, nodes=cluster.count) as running:
        yield running


def processes(gateway: GatewayProcess) -> dict[int, str]:
    """The command lines of the gateway's processes, by their ids."""
    parent = str(gateway.running.pid)
    found = subprocess.run(["pgrep", "-a", "-P", parent], capture_output=True, text=True, check=False)
    lines = [line.partition(" ") for line in found.stdout.splitlines()]
    return {int(pid): command for pid, _, command in lines}


def rows(gateway: GatewayProcess) -> dict[str, dict[str, Any]]:
    """The gateways that the console shows with their traffic, by node id."""
    found = gateway.ask("GET", "/api/v1/gateways")["items"]
    return {row["gateway_id"].partition("-")[0]: row for row in found if row["traffic"] is not None}


def both(gateway: GatewayProcess) -> bool:
    return sorted(rows(gateway)) == ["10", "11"]


def test_two_processes_hold_one_limit_and_one_console_shows_both(gateway: GatewayProcess) -> None:
    set_rate(gateway, CLIENT_ID, RATE)
    within(10, lambda: both(gateway), "both processes in the console")
    with GreedyLoad("gateway-processes", RATE, 1) as load:
        load.start(0, gateway.bootstrap, PRODUCERS)
        time.sleep(10)
        (rate,) = load.rates(12)
        print(f"part of the limit over 12 s: {rate:.4f}")
        assert rate == pytest.approx(1, abs=TOLERANCE)

        found = rows(gateway)
        traffic = [found[node]["traffic"] for node in ("10", "11")]
        assert all(each["connections"] > 0 and each["bytes_in_per_s"] > 0 for each in traffic)
        overview = gateway.ask("GET", "/api/v1/overview")
        assert overview["gateways"]["gateways"] == 2
        assert overview["gateways"]["connections"] == pytest.approx(
            sum(each["connections"] for each in traffic), abs=2
        )
        assert overview["gateways"]["bytes_in_per_s"] == pytest.approx(RATE, rel=0.5)
        page = parse(gateway.ask("GET", "/metrics"))["weir_gateways_bytes_in_total"]
        for row in found.values():
            assert page.value(gateway=row["gateway_id"]) >= row["traffic"]["bytes_in"]
        shown = within(
            10, lambda: _throttled_of(gateway, found["11"]["gateway_id"]), "throttles of the second process"
        )
        for row in shown:
            assert row["client_id"] == CLIENT_ID and row["entity"] == {"client-id": CLIENT_ID}
            assert row["quota_type"] == "produce" and row["address"] == "127.0.0.1"
            # The bound of the throttle is the process's share of the limit.
            assert 0 < row["bound"] <= RATE


def _throttled_of(gateway: GatewayProcess, gateway_id: str) -> list[Any]:
    found = gateway.ask("GET", "/api/v1/throttled-channels")["items"]
    return [row for row in found if row["gateway"] == gateway_id]


def test_a_killed_process_disappears_and_comes_back(gateway: GatewayProcess) -> None:
    set_rate(gateway, CLIENT_ID, RATE)
    within(10, lambda: both(gateway), "both processes in the console")
    first = rows(gateway)
    (victim,) = [pid for pid, command in processes(gateway).items() if "node.id=11" in command]
    others = processes(gateway).keys() - {victim}
    with GreedyLoad("gateway-processes", RATE, 1) as load:
        load.start(0, gateway.bootstrap, PRODUCERS)
        time.sleep(5)
        os.kill(victim, signal.SIGKILL)
        within(
            BACK_WITHIN_S,
            lambda: rows(gateway).get("11", first["11"])["gateway_id"] != first["11"]["gateway_id"],
            "another process in its place",
        )
        assert victim not in processes(gateway)
        assert others < processes(gateway).keys()
        assert rows(gateway)["10"]["gateway_id"] == first["10"]["gateway_id"]
        # Producers reconnect, and the shares settle.
        time.sleep(8)
        (rate,) = load.rates(12)
        print(f"part of the limit over 12 s after a process was killed: {rate:.4f}")
        assert rate == pytest.approx(1, abs=TOLERANCE)
    assert any("a gateway process has ended and starts again" in line for line in gateway.log_lines)
