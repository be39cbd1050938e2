"""The tools of Apache Kafka, and with them its Java client, directly and through a gateway: topics, groups of
all three protocols, share groups, quotas, subscriptions of client metrics, transactions.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import LOGIN_MODULE, USERS
from tests.support.gateway_process import Way
from tests.support.kafka_tools import (
    CLIENT_METRICS,
    CONFIGS,
    CONSUMER,
    GROUPS,
    OFFSETS,
    PRODUCER,
    TOPICS,
    VERSIONS,
    refusal,
    rows,
    run,
)

pytestmark = kafka_tools.pytestmark

SHARE_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
SHARE_GROUPS: Final = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
TRANSACTIONS: Final = "org.apache.kafka.tools.TransactionsCommand"
CLUSTER: Final = "org.apache.kafka.tools.ClusterTool"
QUORUM: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
EVENTUALLY_S: Final = 20


def ask(way: Way, tool: str, *arguments: str) -> str:
    return run(tool, "--bootstrap-server", way.plain, *arguments)


def create(way: Way, topic: str, partitions: int = 1) -> None:
    ask(
        way,
        TOPICS,
        "--create",
        "--topic",
        topic,
        "--partitions",
        str(partitions),
        "--replication-factor",
        "3",
    )


def produce(way: Way, topic: str, records: int, *settings: str, size: int = 100) -> str:
    return run(
        *(PRODUCER, "--topic", topic, "--num-records", str(records), "--record-size", str(size)),
        *("--throughput", "-1", "--producer-props", f"bootstrap.servers={way.plain}", *settings),
    )


def eventually(look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + EVENTUALLY_S
    while not look():
        assert time.monotonic() < deadline, what


def test_a_topic_from_its_making_to_its_end(way: Way) -> None:
    topic = way.topic("life")
    create(way, topic, 2)
    ask(way, TOPICS, "--alter", "--topic", topic, "--partitions", "3")
    described = ask(way, TOPICS, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described and "ReplicationFactor: 3" in described
    entity = ("--entity-type", "topics", "--entity-name", topic)
    ask(way, CONFIGS, "--alter", *entity, "--add-config", "segment.ms=7")
    eventually(lambda: "segment.ms=7" in ask(way, CONFIGS, "--describe", *entity), "the new setting")
    assert "already exists" in refusal(
        *(TOPICS, "--bootstrap-server", way.plain, "--create", "--topic", topic, "--partitions", "2")
    )
    ask(way, TOPICS, "--delete", "--topic", topic)
    eventually(lambda: topic not in ask(way, TOPICS, "--list").split(), "it is gone")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_what_was_produced_and_is_described(way: Way, protocol: str) -> None:
    topic = way.topic("group")
    create(way, topic, 3)
    assert "2000 records sent" in produce(way, topic, 2_000, "acks=all", "enable.idempotence=true")
    output = ask(way, OFFSETS, "--topic", topic)
    assert sum(int(line.rpartition(":")[2]) for line in output.split()) == 2_000
    consumed = ask(
        *(way, CONSUMER, "--topic", topic, "--group", topic, "--from-beginning"),
        *("--max-messages", "2000", "--timeout-ms", "30000"),
        *("--command-property", f"group.protocol={protocol}"),
    )
    assert len(consumed.splitlines()) == 2_000
    described = rows(ask(way, GROUPS, "--describe", "--group", topic))
    lags = [row[5] for row in described if row[:2] == [topic, topic]]
    assert lags == ["0", "0", "0"]
    ask(way, GROUPS, "--reset-offsets", "--group", topic, "--topic", topic, "--to-earliest", "--execute")
    described = rows(ask(way, GROUPS, "--describe", "--group", topic))
    assert sum(int(row[5]) for row in described if row[:2] == [topic, topic]) == 2_000
    ask(way, GROUPS, "--delete", "--group", topic)
    assert topic not in ask(way, GROUPS, "--list").split()


def test_large_records_are_written_and_read_by_the_java_client(way: Way) -> None:
    topic = way.topic("large")
    create(way, topic)
    settings = ("max.request.size=11000000", "batch.size=2000000", "buffer.memory=40000000")
    assert "30 records sent" in produce(way, topic, 30, *settings, size=3_000_000)
    consumed = ask(
        *(way, CONSUMER, "--topic", topic, "--from-beginning", "--max-messages", "30"),
        *("--timeout-ms", "60000", "--formatter-property", "print.value=false"),
        *("--formatter-property", "print.offset=true"),
    )
    assert len(consumed.splitlines()) == 30


def test_a_share_group_reads_every_record_and_is_described(way: Way) -> None:
    topic = way.topic("share")
    create(way, topic)
    entity = ("--entity-type", "groups", "--entity-name", topic)
    ask(way, CONFIGS, "--alter", *entity, "--add-config", "share.auto.offset.reset=earliest")
    assert "500 records sent" in produce(way, topic, 500)
    consumed = ask(
        *(way, SHARE_CONSUMER, "--topic", topic, "--group", topic, "--max-messages", "500"),
        *("--timeout-ms", "60000"),
    )
    assert len(consumed.splitlines()) == 500
    assert topic in ask(way, SHARE_GROUPS, "--list").split()
    described = rows(ask(way, SHARE_GROUPS, "--describe", "--group", topic))
    assert any(row[:3] == [topic, topic, "0"] for row in described)


def test_quotas_are_set_described_and_removed(way: Way) -> None:
    entity = ("--entity-type", "clients", "--entity-name", way.topic("limited"))
    ask(way, CONFIGS, "--alter", *entity, "--add-config", "producer_byte_rate=54321")
    eventually(
        lambda: "producer_byte_rate=54321" in ask(way, CONFIGS, "--describe", *entity), "it is described"
    )
    ask(way, CONFIGS, "--alter", *entity, "--delete-config", "producer_byte_rate")
    eventually(lambda: "producer_byte_rate" not in ask(way, CONFIGS, "--describe", *entity), "it is removed")


def test_subscriptions_of_client_metrics_are_set_and_described(way: Way) -> None:
    name = way.topic("metrics")
    ask(
        way, CLIENT_METRICS, "--alter", "--name", name, "--interval", "5000", "--metrics", "org.apache.kafka."
    )
    eventually(
        lambda: "interval.ms=5000" in ask(way, CLIENT_METRICS, "--describe", "--name", name), "described"
    )
    ask(way, CLIENT_METRICS, "--delete", "--name", name)


def test_transactions_are_listed_and_described(way: Way) -> None:
    topic = way.topic("transactional")
    create(way, topic)
    settings = (f"transactional.id={topic}", "enable.idempotence=true")
    done = run(
        *(PRODUCER, "--topic", topic, "--num-records", "1000", "--record-size", "100", "--throughput", "-1"),
        *(
            "--transaction-duration-ms",
            "200",
            "--producer-props",
            f"bootstrap.servers={way.plain}",
            *settings,
        ),
    )
    assert "1000 records sent" in done
    assert topic in ask(way, TRANSACTIONS, "list")
    assert "CompleteCommit" in ask(way, TRANSACTIONS, "describe", "--transactional-id", topic)
    consumed = ask(
        *(way, CONSUMER, "--topic", topic, "--from-beginning", "--isolation-level", "read_committed"),
        *("--max-messages", "1000", "--timeout-ms", "30000"),
    )
    assert len(consumed.splitlines()) == 1_000


def test_every_node_is_named_by_the_address_of_the_way(way: Way) -> None:
    output = ask(way, VERSIONS)
    assert {line.split()[0] for line in output.splitlines() if "(id: " in line} == set(
        way.addresses().values()
    )


def test_the_cluster_and_its_quorum_are_described(way: Way) -> None:
    found = run(CLUSTER, "cluster-id", "--bootstrap-server", way.plain)
    assert "4L6g3nShT-eMCtK--X86sw" in found
    status = ask(way, QUORUM, "describe", "--status")
    assert "LeaderId" in status
    replicas = rows(ask(way, QUORUM, "describe", "--replication"))
    assert {row[0] for row in replicas[1:]} == {"1", "2", "3"}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_the_java_client_logs_in(way: Way, tmp_path: Path, mechanism: str) -> None:
    module = LOGIN_MODULE if mechanism == "PLAIN" else LOGIN_MODULE.replace("plain.Plain", "scram.Scram")
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} username="bob" password="{USERS["bob"]}";\n'
    )
    topic, address = way.topic("login"), way.bootstrap("SASL_PLAINTEXT")
    command = ("--bootstrap-server", address, "--command-config", str(file), "--replication-factor", "3")
    run(TOPICS, "--create", "--topic", topic, "--partitions", "3", *command)
    done = run(
        *(PRODUCER, "--topic", topic, "--num-records", "500", "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={address}", "--producer.config", str(file)),
    )
    assert "500 records sent" in done
