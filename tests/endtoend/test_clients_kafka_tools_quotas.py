"""Java's producer and consumer under quotas, as in Kafka's BaseQuotaTest."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_tools import TOPICS, ask, produce

pytestmark = kafka_tools.pytestmark

CONSUMER_PERFORMANCE: Final = "org.apache.kafka.tools.ConsumerPerformance"
RECORDS: Final = 300
ONE_BY_ONE: Final = ("client.id=producer", "batch.size=1", "max.in.flight.requests.per.connection=1")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Two samples, so one whole window of a second: 2,500 bytes, less than a fetch asks for."""
    with BrokerProcess(tmp_path / "data", "quota.window.num=2") as process:
        ask(process, TOPICS, "--create", "--topic", "read")
        yield process


def limit(broker: BrokerProcess, client_id: str | None, **limits: float) -> None:
    ops = [{"key": key, "value": value} for key, value in limits.items()]
    entry = {"entity": {"client-id": client_id}, "ops": ops}
    broker.ask("PATCH", "/api/v1/client-quotas", {"entries": [entry]})


def largest(printed: str, metric: str) -> float:
    """Of the client's own metric of this name."""
    found = re.findall(rf":{metric}:\{{[^}}]*\}}\s*: ([0-9.]+|NaN)", printed)
    assert found, printed
    return max(float(value) for value in found)


def consume(broker: BrokerProcess, directory: Path) -> str:
    settings = directory / "consumer.properties"
    settings.write_text("client.id=consumer\nmax.partition.fetch.bytes=4096\nfetch.max.bytes=4096\n")
    return ask(
        *(broker, CONSUMER_PERFORMANCE, "--topic", "read", "--messages", str(RECORDS)),
        *("--consumer.config", str(settings), "--print-metrics", "--timeout", "30000"),
    )


def test_a_producer_and_a_consumer_are_told_to_wait_and_get_everything(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    limit(broker, "producer", producer_byte_rate=8_000)
    limit(broker, "consumer", consumer_byte_rate=2_500)
    produced = produce(broker, "read", RECORDS, *ONE_BY_ONE, metrics=True)
    assert f"{RECORDS} records sent" in produced
    assert largest(produced, "produce-throttle-time-max") > 0
    consumed = consume(broker, tmp_path)
    assert largest(consumed, "records-consumed-total") == RECORDS
    assert largest(consumed, "fetch-throttle-time-max") > 0


def test_limits_beyond_reach_throttle_no_client(broker: BrokerProcess, tmp_path: Path) -> None:
    beyond = 2**63 - 1_024
    limit(broker, None, producer_byte_rate=beyond, consumer_byte_rate=beyond)
    produced = produce(broker, "read", RECORDS, *ONE_BY_ONE, metrics=True)
    assert largest(produced, "produce-throttle-time-max") == 0
    consumed = consume(broker, tmp_path)
    assert largest(consumed, "records-consumed-total") == RECORDS
    assert largest(consumed, "fetch-throttle-time-max") == 0


@pytest.mark.parametrize(("algorithm", "longest_ms"), [("paced", 11_000), ("rate", 1_000)])
def test_a_request_quota_holds_a_producer_for_its_windows_and_with_kafkas_rule_for_one(
    tmp_path: Path, algorithm: str, longest_ms: int
) -> None:
    with BrokerProcess(tmp_path, f"quota.bandwidth.algorithm={algorithm}") as broker:
        limit(broker, None, request_percentage=0.1)
        produced = produce(broker, "read", 15, *ONE_BY_ONE, metrics=True)
    assert 0 < largest(produced, "produce-throttle-time-max") <= longest_ms
