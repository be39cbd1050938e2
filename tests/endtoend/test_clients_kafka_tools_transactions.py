"""kafka-transactions, and transactions of the other tools of Kafka that have some."""

from collections.abc import Iterator
from typing import Final

import pytest
from confluent_kafka import Producer

from tests.support.broker_process import BrokerProcess
from tests.support.kafka_tools import CONSUMER, DUMP, TOPICS, ask, produce, pytestmark, run

__all__ = ["pytestmark"]

TRANSACTIONS: Final = "org.apache.kafka.tools.TransactionsCommand"
FEATURES: Final = "org.apache.kafka.tools.FeatureCommand"
TIMEOUT: Final = 30


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as process:
        yield process


def committed(broker: BrokerProcess, topic: str, most: int) -> list[str]:
    found = ask(
        *(broker, CONSUMER, "--topic", topic, "--from-beginning", "--isolation-level", "read_committed"),
        *("--max-messages", str(most), "--timeout-ms", "30000"),
    )
    return found.splitlines()


def test_transactions_are_produced_listed_described_and_dumped(broker: BrokerProcess) -> None:
    ask(broker, TOPICS, "--create", "--topic", "produced", "--partitions", "2")
    settings = ("transactional.id=perf", "enable.idempotence=true", "transaction.timeout.ms=5000")
    assert "2000 records sent" in produce(broker, "produced", 2_000, *settings)
    assert len(committed(broker, "produced", 2_000)) == 2_000
    assert "perf" in ask(broker, TRANSACTIONS, "list")
    described = ask(broker, TRANSACTIONS, "describe", "--transactional-id", "perf")
    assert "CompleteCommit" in described
    log = broker.directory / "__transaction_state-0" / f"{0:020d}.log"
    dumped = run(DUMP, "--transaction-log-decoder", "--files", str(log))
    assert "perf" in dumped and dumped.count("roducerId") > 2
    features = ask(broker, FEATURES, "describe")
    assert "transaction.version" in features and "FinalizedVersionLevel: 2" in features


def test_an_open_transaction_is_aborted_by_the_tool(broker: BrokerProcess) -> None:
    ask(broker, TOPICS, "--create", "--topic", "open")
    producer = Producer({"bootstrap.servers": broker.plain, "transactional.id": "open", "log_level": 0})
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce("open", b"lost", partition=0)
    assert producer.flush(TIMEOUT) == 0
    plain = Producer({"bootstrap.servers": broker.plain})
    plain.produce("open", b"kept", partition=0)
    assert plain.flush(TIMEOUT) == 0
    place = ("--topic", "open", "--partition", "0")
    assert "CurrentTransactionStartOffset" in ask(broker, TRANSACTIONS, "describe-producers", *place)
    ask(broker, TRANSACTIONS, "abort", *place, "--start-offset", "0")
    assert committed(broker, "open", 1) == ["kept"]
