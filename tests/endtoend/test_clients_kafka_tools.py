"""The tools of Apache Kafka, and with them its Java client: kafka-topics, kafka-consumer-groups,
kafka-configs, kafka-console-consumer, kafka-producer-perf-test, kafka-dump-log and others.

Each tool starts a Java machine, which takes seconds; `tests.support.kafka_tools` says where they come from.
"""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_tools import (
    CLIENT_METRICS,
    CONFIGS,
    CONSUMER,
    DELETE_RECORDS,
    DUMP,
    GROUPS,
    LOG_DIRS,
    OFFSETS,
    TOPICS,
    VERSIONS,
    ask,
    free_port,
    produce,
    refusal,
    refused,
    rows,
    run,
)

pytestmark = kafka_tools.pytestmark


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data"), "group.initial.rebalance.delay.ms=100") as process:
        yield process


def test_a_topic_from_its_making_to_its_end(broker: BrokerProcess) -> None:
    ask(broker, TOPICS, "--create", "--topic", "life", "--partitions", "2")
    ask(broker, TOPICS, "--alter", "--topic", "life", "--partitions", "3")
    described = ask(broker, TOPICS, "--describe", "--topic", "life")
    assert "PartitionCount: 3" in described and described.count("Leader: 1") == 3
    ask(
        broker,
        CONFIGS,
        "--alter",
        "--entity-type",
        "topics",
        "--entity-name",
        "life",
        "--add-config",
        "segment.ms=7",
    )
    found = ask(broker, CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "life")
    assert "segment.ms=7" in found
    ask(broker, TOPICS, "--delete", "--topic", "life")
    assert "life" not in ask(broker, TOPICS, "--list").split()


def test_topics_are_filtered_by_how_they_stand(broker: BrokerProcess) -> None:
    ask(broker, TOPICS, "--create", "--topic", "odd", "--config", "retention.ms=5000")
    ask(broker, TOPICS, "--create", "--topic", "placed", "--replica-assignment", "1,1")
    described = ask(broker, TOPICS, "--describe", "--topic", "placed")
    assert "PartitionCount: 2" in described and "ReplicationFactor: 1" in described
    (overridden,) = ask(
        broker, TOPICS, "--describe", "--topics-with-overrides", "--topic", "odd"
    ).splitlines()
    assert overridden.endswith("Configs: min.insync.replicas=1,retention.ms=5000")
    for troubled in (
        "--under-replicated-partitions",
        "--unavailable-partitions",
        "--under-min-isr-partitions",
    ):
        assert ask(broker, TOPICS, "--describe", troubled) == ""
    assert "Topic: odd\tPartition: 0" in ask(broker, TOPICS, "--describe", "--at-min-isr-partitions")
    assert "__weir_requests" in ask(broker, TOPICS, "--list").split()
    listed = ask(broker, TOPICS, "--list", "--exclude-internal").split()
    assert "odd" in listed and not [name for name in listed if name.startswith("__")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--create", "--topic", "a/b"], "Topic name is invalid: 'a/b'"),
        (["--create", "--topic", "there"], "Topic 'there' already exists."),
        (["--create", "--topic", "new", "--replication-factor", "3"], "only 1 broker(s) are registered"),
        (["--create", "--topic", "new", "--replica-assignment", "1:2"], "broker 2, but no such broker"),
        (["--create", "--topic", "new", "--partitions", "0"], "must be greater than 0"),
        (["--create", "--topic", "new", "--config", "segment.bytes=13"], "segment.bytes"),
        (["--create", "--topic", "new", "--config", "no.such.key=1"], "no.such.key"),
        (["--alter", "--topic", "there", "--partitions", "1"], "would not be an increase"),
        (["--alter", "--topic", "missing", "--partitions", "2"], "'missing' does not exist"),
        (["--delete", "--topic", "missing"], "'missing' does not exist"),
        (["--describe", "--topic", "missing"], "'missing' does not exist"),
    ],
)
def test_impossible_topic_changes_are_reported(
    broker: BrokerProcess, arguments: list[str], words: str
) -> None:
    ask(broker, TOPICS, "--create", "--topic", "there", "--partitions", "2", "--if-not-exists")
    assert words in refused(broker, TOPICS, *arguments)
    ask(broker, TOPICS, "--delete", "--topic", "missing", "--if-exists")
    listed = ask(broker, TOPICS, "--list").split()
    assert "there" in listed and "new" not in listed


def test_offsets_are_asked_for_and_records_deleted(broker: BrokerProcess, tmp_path: Path) -> None:
    ask(broker, TOPICS, "--create", "--topic", "cut")
    produce(broker, "cut", 10)
    wanted = tmp_path / "offsets.json"

    def delete_up_to(offset: int) -> str:
        wanted.write_text(
            json.dumps({"version": 1, "partitions": [{"topic": "cut", "partition": 0, "offset": offset}]})
        )
        return ask(broker, DELETE_RECORDS, "--offset-json-file", str(wanted))

    def offset(time: str) -> str:
        return ask(broker, OFFSETS, "--topic", "cut", "--time", time).strip()

    assert "partition: cut-0\tlow_watermark: 4" in delete_up_to(4)
    assert (offset("earliest"), offset("latest")) == ("cut:0:4", "cut:0:10")
    assert offset("max-timestamp").startswith("cut:0:")
    assert offset("1000") == "cut:0:4"
    assert offset("-5") == offset("-6") == offset("earliest-pending-upload") == ""
    assert "OffsetOutOfRangeException" in delete_up_to(11)
    assert "partition: cut-0\tlow_watermark: 10" in delete_up_to(-1)
    assert "Could not match any topic-partitions" in refused(broker, OFFSETS, "--topic", "missing")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produced_records_are_consumed_and_can_be_dumped(broker: BrokerProcess, codec: str) -> None:
    ask(broker, TOPICS, "--create", "--topic", codec)
    produced = produce(broker, codec, 5_000, "acks=all", f"compression.type={codec}")
    assert produced.startswith("5000 records sent")
    consumed = ask(
        *(broker, CONSUMER, "--topic", codec, "--group", f"of-{codec}", "--from-beginning"),
        *("--max-messages", "5000", "--timeout-ms", "20000"),
    )
    assert len(consumed.splitlines()) == 5_000
    (_, group) = rows(ask(broker, GROUPS, "--describe", "--group", f"of-{codec}"))[:2]
    assert group[:6] == [f"of-{codec}", codec, "0", "5000", "5000", "0"]
    segment = broker.directory / f"{codec}-0" / "00000000000000000000.log"
    dumped = run(DUMP, "--deep-iteration", "--files", str(segment))
    assert dumped.count("isvalid: true") > 0 and "isvalid: false" not in dumped
    assert dumped.count("| offset:") == 5_000


def test_a_group_from_its_first_offset_to_its_end(broker: BrokerProcess) -> None:
    ask(broker, TOPICS, "--create", "--topic", "read")
    produce(broker, "read", 10)
    ask(broker, CONSUMER, "--topic", "read", "--group", "readers", "--from-beginning", "--max-messages", "10")
    assert ["readers", "Empty"] in rows(ask(broker, GROUPS, "--list", "--state"))
    reset = ask(
        *(broker, GROUPS, "--reset-offsets", "--group", "readers", "--topic", "read"),
        *("--shift-by", "-4", "--execute"),
    )
    assert rows(reset)[-1] == ["readers", "read", "0", "6"]
    offsets = broker.directory / "__consumer_offsets-0" / "00000000000000000000.log"
    dumped = run(DUMP, "--offsets-decoder", "--files", str(offsets))
    assert '"group":"readers","topic":"read","partition":0' in dumped and '"offset":6' in dumped
    ask(broker, GROUPS, "--delete-offsets", "--group", "readers", "--topic", "read")
    ask(broker, GROUPS, "--delete", "--group", "readers")
    assert "readers" not in ask(broker, GROUPS, "--list").split()


def test_quotas_are_set_shown_and_removed(broker: BrokerProcess) -> None:
    entity = ("--entity-type", "clients", "--entity-name", "greedy")
    ask(broker, CONFIGS, "--alter", *entity, "--add-config", "producer_byte_rate=1024")
    assert "producer_byte_rate=1024.0" in ask(broker, CONFIGS, "--describe", *entity)
    ask(broker, CONFIGS, "--alter", *entity, "--delete-config", "producer_byte_rate")
    assert "producer_byte_rate" not in ask(broker, CONFIGS, "--describe", *entity)


def test_a_setting_of_the_broker_from_its_change_to_its_end(broker: BrokerProcess) -> None:
    one = ("--entity-type", "brokers", "--entity-name", "1")
    all_brokers = ("--entity-type", "brokers", "--entity-default")
    ask(broker, CONFIGS, "--alter", *one, "--add-config", "num.io.threads=16")
    ask(broker, CONFIGS, "--alter", *all_brokers, "--add-config", "num.io.threads=12,log.retention.ms=77")
    assert (
        "num.io.threads=16 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:num.io.threads=16, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:num.io.threads=12, DEFAULT_CONFIG:num.io.threads=8}"
    ) in ask(broker, CONFIGS, "--describe", *one)
    assert "log.retention.ms=77" in ask(broker, CONFIGS, "--describe", *all_brokers)
    doubled = (CONFIGS, "--bootstrap-server", broker.plain, "--alter", *one, "--add-config")
    assert "not be greater than double the current value 16" in refusal(*doubled, "num.io.threads=33")
    ask(broker, CONFIGS, "--alter", *one, "--delete-config", "num.io.threads")
    assert "num.io.threads=12 sensitive=false" in ask(broker, CONFIGS, "--describe", "--all", *one)
    ask(broker, CONFIGS, "--alter", *all_brokers, "--delete-config", "num.io.threads,log.retention.ms")
    assert "num.io.threads" not in ask(broker, CONFIGS, "--describe", *all_brokers)


def test_a_subscription_to_client_metrics_from_its_making_to_its_end(broker: BrokerProcess) -> None:
    entity = ("--entity-type", "client-metrics", "--entity-name", "queues")
    settings = "metrics=[org.apache.kafka.producer.,org.apache.kafka.consumer.],interval.ms=60000"
    ask(broker, CONFIGS, "--alter", *entity, "--add-config", settings)
    ask(
        *(broker, CLIENT_METRICS, "--alter", "--name", "queues", "--interval", "30000"),
        *("--match", "client_software_name=apache-kafka-java"),
    )
    described = ask(broker, CONFIGS, "--describe", "--all", *entity)
    assert "metrics=org.apache.kafka.producer.,org.apache.kafka.consumer. " in described
    assert "interval.ms=30000 " in described
    assert "match=client_software_name=apache-kafka-java " in described
    output = refused(broker, CLIENT_METRICS, "--alter", "--name", "queues", "--interval", "99")
    assert "Invalid value 99 for interval.ms" in output
    assert ask(broker, CLIENT_METRICS, "--list") == "queues\n"
    ask(broker, CLIENT_METRICS, "--delete", "--name", "queues")
    assert ask(broker, CLIENT_METRICS, "--list") == "\n"
    assert "interval.ms=300000 " in ask(broker, CONFIGS, "--describe", "--all", *entity)


def test_a_listener_is_added_and_taken_away(broker: BrokerProcess, tmp_path: Path) -> None:
    one = ("--entity-type", "brokers", "--entity-name", "1")
    port = free_port()
    settings = tmp_path / "listener.properties"
    settings.write_text(
        f"listeners=PLAINTEXT://{broker.plain},SASL_PLAINTEXT://{broker.sasl},NEW://127.0.0.1:{port}\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,NEW:PLAINTEXT\n"
    )
    ask(broker, CONFIGS, "--alter", *one, "--add-config-file", str(settings))
    assert run(TOPICS, "--bootstrap-server", f"127.0.0.1:{port}", "--list") is not None
    ask(broker, CONFIGS, "--alter", *one, "--delete-config", "listeners,listener.security.protocol.map")
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port)).close()


def test_a_controller_listener_serves_administrators(tmp_path: Path) -> None:
    """KIP-919."""
    port = free_port()
    with BrokerProcess(
        tmp_path,
        f"listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
        "listener.security.protocol.map="
        "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "process.roles=broker,controller",
        "controller.listener.names=CONTROLLER",
    ):
        target = (
            "--bootstrap-controller",
            f"127.0.0.1:{port}",
            "--entity-type",
            "brokers",
            "--entity-default",
        )
        run(CONFIGS, *target, "--alter", "--add-config", "log.retention.ms=77")
        assert "log.retention.ms=77" in run(CONFIGS, *target, "--describe")


def test_the_tools_read_the_brokers_configs_versions_and_log_dirs(broker: BrokerProcess) -> None:
    settings = ask(broker, CONFIGS, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
    assert "node.id=1 " in settings
    versions = ask(broker, VERSIONS)
    assert "Produce(0): 0 to 13 [usable: 13]" in versions
    assert "ListConfigResources(74): 0 to 1 [usable: 1]" in versions
    assert "UNSUPPORTED" not in versions and "UNKNOWN" not in versions
    assert "do not exist from --broker-list: 9" in refused(
        broker, LOG_DIRS, "--describe", "--broker-list", "9"
    )
    answer = ask(broker, LOG_DIRS, "--describe", "--topic-list", "nothing").splitlines()[-1]
    (directory,) = json.loads(answer)["brokers"][0]["logDirs"]
    assert (directory["logDir"], directory["error"]) == (str(broker.directory), None)


def test_users_of_scram_and_their_quotas_are_described_together(broker: BrokerProcess) -> None:
    carol = ("--entity-type", "users", "--entity-name", "carol")
    ask(broker, CONFIGS, *carol, "--alter", "--add-config", "SCRAM-SHA-512=[password=secret]")
    ask(broker, CONFIGS, *carol, "--alter", "--add-config", "producer_byte_rate=5000")
    described = ask(broker, CONFIGS, "--entity-type", "users", "--describe")
    assert "Quota configs for user-principal 'carol' are producer_byte_rate=5000" in described
    assert (
        "SCRAM credential configs for user-principal 'carol' are SCRAM-SHA-512=iterations=4096" in described
    )
    ask(broker, CONFIGS, *carol, "--alter", "--delete-config", "SCRAM-SHA-512")
    assert "SCRAM" not in ask(broker, CONFIGS, "--entity-type", "users", "--describe")
