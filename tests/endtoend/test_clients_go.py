"""Sarama and kafka-go, Go clients: what tests/endtoend/go_clients does with a broker."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.broker_process import BrokerProcess

pytestmark = [
    pytest.mark.endtoend,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("go") is None, reason="needs Go"),
]

SOURCE: Final = Path(__file__).with_name("go_clients")
RECORDS: Final = 1_000
CLIENTS: Final = ("sarama", "kafka-go")

RATE: Final = 40_000
SENT: Final = 30 * 20_000
CREDIT_S: Final = 11
"""How much passes at once at most: Kafka's eleven samples of a second."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("go") / "go_clients"
    subprocess.run(["go", "build", "-o", path, "."], cwd=SOURCE, check=True, timeout=900)
    return path


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data"), "group.initial.rebalance.delay.ms=100") as process:
        yield process


def run(program: Path, *what: str) -> Any:
    done = subprocess.run([program, *what], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_reads_commits_and_goes_on_from_there(
    program: Path, broker: BrokerProcess, client: str
) -> None:
    output = run(program, client, "groups", broker.plain)
    assert output == {"produced": RECORDS, "read": RECORDS, "committed": RECORDS, "again": 0}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_with_a_quota_waits_and_loses_nothing(
    program: Path, broker: BrokerProcess, client: str
) -> None:
    op = {"key": "producer_byte_rate", "value": RATE}
    entry = {"entity": {"client-id": f"greedy-{client}"}, "ops": [op]}
    broker.ask("PATCH", "/api/v1/client-quotas", {"entries": [entry]})
    output = run(program, client, "throttle", broker.plain)
    assert output["read"] == SENT
    assert output["seconds"] >= (SENT - 20_000) / RATE - CREDIT_S
