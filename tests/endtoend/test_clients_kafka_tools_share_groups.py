"""Kafka's own tools with share groups: the Java share consumer, kafka-share-groups, kafka-features, a kill of
the broker, and the group's records as kafka-dump-log reads them.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess, within
from tests.support.kafka_tools import (
    CONFIGS,
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

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
ALL_GROUPS = "org.apache.kafka.tools.GroupsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
PLACES = ("--property", "print.partition=true", "--property", "print.offset=true")
EARLIEST = "share.auto.offset.reset=earliest"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as process:
        yield process


def prepare(broker: BrokerProcess, name: str) -> None:
    """Have a topic with ten records, and a group of the same name that begins with the first."""
    ask(broker, TOPICS, "--create", "--topic", name, "--partitions", "2")
    produce(broker, name, 10)
    named = ("--entity-type", "groups", "--entity-name", name)
    ask(broker, CONFIGS, *named, "--alter", "--add-config", EARLIEST)


def consume(broker: BrokerProcess, group: str, count: int) -> list[str]:
    """Return the records that one share consumer reads before it leaves."""
    return ask(
        broker, CONSUMER, "--topic", group, "--group", group, "--max-messages", str(count)
    ).splitlines()


@contextmanager
def consumer(broker: BrokerProcess, group: str) -> Iterator[subprocess.Popen[str]]:
    """A share consumer that goes on until the block ends. It prints partition and offset of each record."""
    command = [*JAVA, "-cp", f"{KAFKA_LIBS}/*", CONSUMER, "--bootstrap-server", broker.plain]
    with subprocess.Popen(
        [*command, "--topic", group, "--group", group, *PLACES], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def offsets(broker: BrokerProcess, group: str) -> list[list[str]]:
    """Return topic, partition, start offset and lag."""
    described = rows(ask(broker, SHARE_GROUPS, "--describe", "--group", group, "--offsets"))
    return sorted(row[1:5] for row in described if row[:1] == [group])


def test_a_share_consumer_reads_and_leaves_an_empty_group(broker: BrokerProcess) -> None:
    prepare(broker, "left")
    assert len(consume(broker, "left", 10)) == 10
    assert ["left", "Empty"] in rows(ask(broker, SHARE_GROUPS, "--list", "--state"))
    assert ["left", "Share", "share"] in rows(ask(broker, ALL_GROUPS, "--list", "--share"))
    assert "left" not in ask(broker, GROUPS, "--list")
    assert sum(int(row[2]) for row in offsets(broker, "left")) == 10
    assert {row[3] for row in offsets(broker, "left")} == {"0"}
    produce(broker, "left", 5)
    assert sum(int(row[3]) for row in offsets(broker, "left")) == 5
    # The records of the group are those that Kafka's own reader expects.
    (directory,) = broker.directory.glob("__consumer_offsets-0")
    dumped = run(DUMP, "--offsets-decoder", "--files", str(next(directory.glob("*.log"))))
    kinds = {
        json.loads(line[line.index("key: ") + 5 : line.index(" payload: ")])["type"]
        for line in dumped.splitlines()
        if " payload: " in line and '"left"' in line
    }
    assert {"10", "11", "12", "13", "14", "15"} == {str(kind) for kind in kinds}
    assert "Could not decode" not in dumped


def test_a_live_group_is_described_in_every_way(broker: BrokerProcess) -> None:
    prepare(broker, "live")
    with consumer(broker, "live") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(10)]
        asked = ("--describe", "--group", "live")
        state = rows(ask(broker, SHARE_GROUPS, *asked, "--state"))
        assert state[-1][-2:] == ["Stable", "1"], state
        members = rows(ask(broker, SHARE_GROUPS, *asked, "--members", "--verbose"))
        assert members[-1][0] == "live" and "live:0,1" in members[-1], members
        # The tool says so with status 0.
        assert "not EMPTY" in ask(broker, SHARE_GROUPS, "--delete", "--group", "live")
    within(20, lambda: ["live", "Empty"] in rows(ask(broker, SHARE_GROUPS, "--list", "--state")), "it left")


def test_topics_and_groups_are_deleted(broker: BrokerProcess) -> None:
    prepare(broker, "gone")
    consume(broker, "gone", 10)
    named = ("--group", "gone", "--topic", "gone")
    assert ["gone", "Successful"] in rows(ask(broker, SHARE_GROUPS, "--delete-offsets", *named))
    assert offsets(broker, "gone") == []
    # The group begins anew.
    assert len(consume(broker, "gone", 10)) == 10
    assert "successful" in ask(broker, SHARE_GROUPS, "--delete", "--group", "gone")
    assert "gone" not in ask(broker, SHARE_GROUPS, "--list")


def test_a_member_goes_on_after_a_kill(broker: BrokerProcess) -> None:
    prepare(broker, "killed")
    with consumer(broker, "killed") as process:
        assert process.stdout is not None
        first = {process.stdout.readline() for _ in range(10)}
        assert all(first)
        within(20, lambda: sum(int(row[2]) for row in offsets(broker, "killed")) == 10, "acknowledged")
        broker.kill()
        broker.start()
        assert sum(int(row[2]) for row in offsets(broker, "killed")) == 10
        produce(broker, "killed", 7)
        # The same member reads what is new, and nothing again.
        assert first.isdisjoint({process.stdout.readline() for _ in range(7)})
        within(20, lambda: sum(int(row[2]) for row in offsets(broker, "killed")) == 17, "acknowledged")


def test_the_feature_is_finalized(broker: BrokerProcess) -> None:
    described = rows(ask(broker, FEATURES, "describe"))
    feature = next(row for row in described if "share.version" in row)
    assert feature[feature.index("FinalizedVersionLevel:") + 1] == "2"
