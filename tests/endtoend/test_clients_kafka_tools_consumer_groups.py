"""Kafka's own tools with consumer groups of KIP-848: the Java consumer with `group.protocol=consumer`,
kafka-consumer-groups, kafka-features, and the group's records as kafka-dump-log reads them.
"""

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess, within
from tests.support.kafka_tools import (
    CONFIGS,
    CONSUMER,
    DUMP,
    GROUPS,
    JAVA,
    KAFKA_LIBS,
    TOPICS,
    ask,
    produce,
    rows,
    run,
)

pytestmark = kafka_tools.pytestmark

FEATURES = "org.apache.kafka.tools.FeatureCommand"
PROTOCOL = ("--command-property", "group.protocol=consumer")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as process:
        ask(process, TOPICS, "--create", "--topic", "read", "--partitions", "2")
        produce(process, "read", 10)
        yield process


@pytest.fixture
def consumer(broker: BrokerProcess) -> Iterator[None]:
    """A Java consumer of the group "live" that goes on until the test ends."""
    command = [*JAVA, "-cp", f"{KAFKA_LIBS}/*", CONSUMER, "--bootstrap-server", broker.plain]
    arguments = ["--topic", "read", "--group", "live", *PROTOCOL, "--from-beginning"]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(10):
            assert process.stdout.readline()
        yield
        process.terminate()


def test_a_java_consumer_reads_and_leaves_an_empty_group(broker: BrokerProcess) -> None:
    asked = ("--topic", "read", "--group", "left", *PROTOCOL, "--from-beginning", "--max-messages", "10")
    assert len(ask(broker, CONSUMER, *asked).split()) == 10
    assert ["left", "Consumer", "Empty"] in rows(
        ask(broker, GROUPS, "--list", "--state", "Empty", "--type", "consumer")
    )
    described = rows(ask(broker, GROUPS, "--describe", "--group", "left"))
    assert sorted(row[1:4] for row in described if row[:1] == ["left"]) == [
        ["read", "0", ended] if part == "0" else ["read", "1", ended]
        for part, ended in sorted((row[2], row[4]) for row in described if row[:1] == ["left"])
    ]
    assert sum(int(row[3]) for row in described if row[:1] == ["left"]) == 10
    # The records of the group are those that Kafka's own reader expects.
    (directory,) = broker.directory.glob("__consumer_offsets-0")
    dumped = run(DUMP, "--offsets-decoder", "--files", str(next(directory.glob("*.log"))))
    kinds = {
        json.loads(line[line.index("key: ") + 5 : line.index(" payload: ")])["type"]
        for line in dumped.splitlines()
        if " payload: " in line and '"left"' in line
    }
    assert {"1", "3", "5", "6", "7", "8"} <= {str(kind) for kind in kinds}
    assert "Could not decode" not in dumped


def test_a_live_group_is_described_in_every_way(broker: BrokerProcess, consumer: None) -> None:
    asked = ("--describe", "--group", "live")
    state = rows(ask(broker, GROUPS, *asked, "--state"))
    assert state[-1] == ["live", broker.plain, "(1)", "uniform", "Stable", "1"]
    verbose = rows(ask(broker, GROUPS, *asked, "--state", "--verbose"))
    assert verbose[-1][3:] == ["uniform", "Stable", "2", "2", "1"]
    members = rows(ask(broker, GROUPS, *asked, "--members", "--verbose"))
    assert members[-1][0] == "live" and "read:0,1" in members[-1][-1] + members[-1][-3] + members[-1][-2]
    within(20, lambda: _lag(broker) == 0, "all offsets committed")


def _lag(broker: BrokerProcess) -> int:
    described = rows(ask(broker, GROUPS, "--describe", "--group", "live"))
    found = [row[5] for row in described if row[:2] == ["live", "read"]]
    return sum(int(each) for each in found) if found and "-" not in found else -1


def test_the_feature_is_finalized(broker: BrokerProcess) -> None:
    described = rows(ask(broker, FEATURES, "describe"))
    feature = next(row for row in described if "group.version" in row)
    assert "FinalizedVersionLevel:" in feature
    assert feature[feature.index("FinalizedVersionLevel:") + 1] == "1"


def test_a_group_has_settings_of_its_own(broker: BrokerProcess) -> None:
    named = ("--entity-type", "groups", "--entity-name", "readers")
    ask(broker, CONFIGS, *named, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    described = ask(broker, CONFIGS, *named, "--describe")
    assert "consumer.session.timeout.ms=50000" in described
    assert "consumer.heartbeat.interval.ms" not in described  # it is the broker's
    assert "readers" in ask(broker, CONFIGS, "--entity-type", "groups", "--describe")
    ask(broker, CONFIGS, *named, "--alter", "--delete-config", "consumer.session.timeout.ms")
    assert "50000" not in ask(broker, CONFIGS, *named, "--describe")
