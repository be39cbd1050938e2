"""kafka-streams-groups, kafka-groups, kafka-features and kafka-configs say of a streams group at Weir what
they say at Kafka, in every action; and Kafka's own reader prints the group's records.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.endtoend.answers.groups import commit
from tests.endtoend.answers.streams_groups import beats, count, joins, leaves, owns
from tests.endtoend.answers.topics import create
from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_answers import Body, Side
from tests.support.kafka_cluster import KafkaCluster
from tests.support.kafka_tools import CONFIGS, CONSUMER, DUMP, ask, run
from tests.support.tool_machine import ToolMachine

pytestmark = kafka_tools.pytestmark

STREAMS: Final = "org.apache.kafka.tools.streams.StreamsGroupCommand"
GROUPS: Final = "org.apache.kafka.tools.GroupsCommand"
FEATURES: Final = "org.apache.kafka.tools.FeatureCommand"
SETTINGS: Final = (
    "group.streams.initial.rebalance.delay.ms=0",
    "group.streams.assignment.interval.ms=0",
    "group.streams.max.session.timeout.ms=600000",
    "group.streams.session.timeout.ms=600000",
)
LINES: Final = "streams-lines"
APP: Final = "tooled"
OTHER: Final = "tooled-other"
TIMEOUT_S: Final = 60

Call = tuple[str, ...]


def groups(*arguments: str) -> Call:
    return (STREAMS, *arguments)


def of(*arguments: str, group: str = APP) -> Call:
    return (STREAMS, "--group", group, *arguments)


def reset(*arguments: str) -> Call:
    return of("--reset-offsets", *arguments)


LIVE: Final = (
    groups("--list"),
    groups("--list", "--state"),
    groups("--list", "--state", "Stable"),
    groups("--list", "--state", "NotReady,empty"),
    groups("--list", "--state", "Preparing"),
    groups("--all-groups", "--describe", "--state"),
    of("--describe"),
    of("--describe", "--verbose"),
    of("--describe", "--offsets"),
    of("--describe", "--offsets", "--verbose"),
    of("--describe", "--state"),
    of("--describe", "--state", "--verbose"),
    of("--describe", "--members"),
    of("--describe", "--members", "--verbose"),
    of("--describe", "--topology"),
    of("--describe", group="none"),
    of("--delete"),
    of("--delete", group="none"),
    of("--delete-offsets", "--input-topic", LINES),
    reset("--to-earliest", "--all-input-topics", "--dry-run"),
    reset("--to-earliest", "--all-input-topics", "--execute"),
    (GROUPS, "--list"),
    (GROUPS, "--list", "--streams"),
    (GROUPS, "--list", "--group-type", "streams"),
    (FEATURES, "upgrade", "--feature", "streams.version=1"),
    (FEATURES, "upgrade", "--feature", "streams.version=2"),
    (FEATURES, "version-mapping", "--release-version", "4.4-IV0"),
)
"""While the group has a member with all tasks."""

KEYS: Final = (
    *(("streams.heartbeat.interval.ms", value) for value in ("6000", "15000", "15001")),
    *(("streams.num.standby.replicas", value) for value in ("1", "2", "3")),
    ("streams.initial.rebalance.delay.ms", "5"),
    ("streams.session.timeout.ms", "60000"),
    ("streams.no.such.key", "1"),
)
SET_ASIDE: Final = ("--entity-type", "groups", "--entity-name", "other")
CONFIGURED: Final = (
    *((CONFIGS, *SET_ASIDE, "--alter", "--add-config", f"{key}={value}") for key, value in KEYS),
    (CONFIGS, *SET_ASIDE, "--describe"),
    (CONFIGS, *SET_ASIDE, "--alter", "--delete-config", "streams.num.standby.replicas"),
    (CONFIGS, *SET_ASIDE, "--describe"),
    (CONFIGS, *SET_ASIDE, "--alter", "--delete-config", "streams.no.such.key"),
    (CONFIGS, "--entity-type", "groups", "--describe"),
)

DIFFERENT: Final = {
    (CONFIGS, *SET_ASIDE, "--alter", "--delete-config", "streams.no.such.key"): (
        "Kafka deletes what no group can have"
    ),
}
"""The calls that Weir does not answer as Kafka does."""

LEFT: Final = (
    groups("--list", "--state", "Empty"),
    of("--describe"),
    of("--describe", "--members"),
    of("--describe", "--state", "--verbose"),
    reset("--to-earliest", "--all-input-topics", "--dry-run"),
    reset("--to-latest", "--all-input-topics"),
    reset("--to-current", "--all-input-topics", "--dry-run"),
    reset("--to-offset", "2", "--input-topic", f"{LINES}:0", "--dry-run"),
    reset("--to-offset", "2", "--input-topic", f"{LINES}:0,1", "--execute"),
    reset("--shift-by", "-1", "--input-topic", LINES, "--execute"),
    reset("--shift-by", "100", "--input-topic", f"{LINES}:1", "--dry-run"),
    reset("--to-datetime", "2020-01-01T00:00:00.000", "--all-input-topics", "--execute"),
    reset("--by-duration", "PT0S", "--input-topic", LINES, "--dry-run"),
    reset("--to-earliest", "--input-topic", "none", "--dry-run"),
    reset("--to-latest", "--all-input-topics", "--execute", "--export"),
    reset("--to-earliest", "--all-input-topics", "--execute", "--delete-internal-topic", f"{APP}-none"),
    reset("--to-earliest", "--all-input-topics", "--dry-run", "--delete-all-internal-topics"),
    reset("--to-earliest"),
    of("--delete-offsets", "--input-topic", f"{LINES}:1"),
    of("--delete-offsets", "--input-topic", f"{LINES}:1"),
    of("--delete-offsets", "--input-topic", "none"),
    of("--delete-offsets", "--input-topic", LINES),
    of("--delete-offsets", "--all-input-topics"),
    of("--delete-offsets", "--all-input-topics", group="none"),
    reset("--to-earliest", "--all-input-topics", "--execute", "--delete-all-internal-topics"),
    ("org.apache.kafka.tools.TopicCommand", "--list", "--exclude-internal"),
    of("--delete"),
    of("--describe"),
    groups("--delete", "--all-groups"),
    groups("--list"),
    ("org.apache.kafka.tools.TopicCommand", "--list", "--exclude-internal"),
)
"""After its member has left."""


@pytest.fixture(scope="module")
def weir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("weir"), "events.topics=", *SETTINGS) as broker:
        prepare(broker.plain)
        yield broker


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), 1, *SETTINGS) as cluster:
        prepare(cluster.bootstrap())
        yield cluster


@pytest.fixture(scope="module")
def tools() -> Iterator[ToolMachine]:
    with ToolMachine() as machine:
        yield machine


def prepare(bootstrap: str) -> None:
    """Have a topic with three records in each of its partitions, and two groups that have read some."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for created in admin.create_topics([NewTopic(LINES, 3, 1)]).values():
        created.result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for partition in range(3):
        for _ in range(3):
            producer.produce(LINES, b"words", partition=partition)
    assert producer.flush(TIMEOUT_S) == 0
    port = int(bootstrap.rpartition(":")[2])
    trio.run(_prepare_groups, port)


async def _prepare_groups(port: int) -> None:
    """Have a member with all tasks in APP, and none in OTHER."""
    side = Side(port)
    await until_done(side, "FindCoordinator", {"key_type": 0, "coordinator_keys": [APP]}, 6)
    for group in (APP, OTHER):
        await until_done(side, "OffsetCommit", commit(group, (0, 1), (1, 3), topic=LINES), 8)
        await until_done(side, "StreamsGroupHeartbeat", joins(group, "a", count(group)), 1)
    await until_done(side, "StreamsGroupHeartbeat", leaves(OTHER), 1)


async def until_done(side: Side, api: str, body: Body, version: int) -> None:
    """Ask again while the broker's coordinator or the group's topics are not there."""
    for _ in range(600):
        answer = await side.ask(api, body, version)
        codes = [
            each["error_code"] for topic in answer.get("topics", ()) for each in topic.get("partitions", ())
        ]
        codes += [each["error_code"] for each in answer.get("coordinators", ())]
        if not any((*codes, answer.get("error_code"), answer.get("status"))):
            return
        await trio.sleep(0.1)
    raise AssertionError(answer)


def said(tools: ToolMachine, bootstrap: str, call: Call) -> list[str]:
    """What the tool prints of a broker, a line each, with its status at the end."""
    tool, *arguments = call
    server = [] if "version-mapping" in arguments else ["--bootstrap-server", bootstrap]
    printed = tools.run(tool, *server, *arguments)
    return [*printed.output, *printed.errors, f"status {printed.status}"]


NOISE: Final = re.compile(r"\tat |SLF4J|(Dynamic configs for group )?console-consumer-")


def comparable(lines: Sequence[str]) -> list[str]:
    """The lines without addresses, ids of brokers, stack traces and groups of console consumers, in order."""
    texts = (re.sub(r"127\.0\.0\.1:\d+( +\(\d+\))?", "BROKER", line) for line in lines)
    return sorted(" ".join(text.split()) for text in texts if not NOISE.match(text))


def differences(
    tools: ToolMachine, weir: BrokerProcess, kafka: KafkaCluster, calls: Sequence[Call]
) -> list[str]:
    """What the tools say of Weir and do not say of Kafka, and the other way round."""
    found = []
    for call in calls:
        of_weir, of_kafka = (comparable(said(tools, each, call)) for each in (weir.plain, kafka.bootstrap()))
        if call in DIFFERENT and of_weir == of_kafka:
            found.append(f"{' '.join(call)}\nis as Kafka's, but: {DIFFERENT[call]}")
        elif call not in DIFFERENT and of_weir != of_kafka:
            found.append("\n".join((" ".join(call), "Weir:", *of_weir, "Kafka:", *of_kafka)))
    return found


def test_the_tools_say_what_they_say_at_kafka(
    tools: ToolMachine, weir: BrokerProcess, kafka: KafkaCluster, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{LINES},0,2\n{LINES},1,1\n")
    from_file = reset("--from-file", str(plan), "--execute")
    found = differences(tools, weir, kafka, (*LIVE, *CONFIGURED))
    for each in (weir.plain, kafka.bootstrap()):
        trio.run(until_done, Side(int(each.rpartition(":")[2])), "StreamsGroupHeartbeat", leaves(APP), 1)
    found += differences(tools, weir, kafka, (from_file, *LEFT))
    assert not found, "\n\n".join(found)


RECORDED: Final = "recorded"
PROCESS: Final = {"process_id": "process", "instance_id": "i"}
HEARTBEATS: Final = (
    joins(RECORDED, "a", count(RECORDED)),
    beats(RECORDED),
    joins(RECORDED, "b", count(RECORDED), **PROCESS, user_endpoint={"host": "h", "port": 5}),
    owns(RECORDED, "a", 0, 1, 2),
    owns(RECORDED, "a", 0, 1) | {"rack_id": "r", "client_tags": [{"key": "zone", "value": "z"}]},
    beats(RECORDED),
    beats(RECORDED, "b"),
    beats(RECORDED, "b", member_epoch=-2, instance_id="i"),
    joins(RECORDED, "c", count(RECORDED), **PROCESS),
    leaves(RECORDED),
    beats(RECORDED, "c"),
    leaves(RECORDED, "c"),
)
OF_ONE_BROKER: Final = frozenset({"metadataHash", "assignmentTimestamp", "clientHost"})
"""Fields of records that are not compared: hashes are of ids of topics."""


async def write_records(port: int) -> None:
    """Have the coordinator write every kind of record of a streams group, and then its tombstones."""
    side = Side(port)
    created = [create(f"{RECORDED}-{name}", 3) for name in ("by-word-repartition", "words-changelog")]
    for each in created:
        await until_done(side, "CreateTopics", each, 4)
    # The coordinator knows the topics when it gives this member its tasks.
    await until_done(side, "StreamsGroupHeartbeat", joins("scout", "a", count(RECORDED)), 1)
    for body in HEARTBEATS:
        answer = await side.ask("StreamsGroupHeartbeat", body, 1)
        assert answer["error_code"] == 0, (body, answer)
        side.kept[f"{RECORDED} {body['member_id']}"] = answer["member_epoch"]
    await until_done(side, "DeleteGroups", {"groups_names": [RECORDED]}, 2)


def records_of(directories: Iterable[Path]) -> list[tuple[Any, Any]]:
    """The records of the group as kafka-dump-log decodes them, without what differs by broker."""
    found = []
    for directory in directories:
        (segment,) = directory.glob("*.log")
        dumped = run(DUMP, "--offsets-decoder", "--files", str(segment))
        assert "Could not decode" not in dumped
        for line in dumped.splitlines():
            if f'"{RECORDED}"' in line:
                key, _, value = line[line.index(" key: ") + 6 :].partition(" payload: ")
                decoded = None if value == "<DELETE>" else _without_own(json.loads(value))
                found.append((json.loads(key), decoded))
    return found


def _without_own(value: Any) -> Any:
    """A value without the fields of one broker; tasks and members in order."""
    if isinstance(value, dict):
        return {key: _without_own(each) for key, each in value.items() if key not in OF_ONE_BROKER}
    return sorted(map(_without_own, value), key=json.dumps) if isinstance(value, list) else value


def test_kafkas_own_reader_finds_the_records_that_kafka_writes(
    weir: BrokerProcess, kafka: KafkaCluster
) -> None:
    for each in (weir.plain, kafka.bootstrap()):
        trio.run(write_records, int(each.rpartition(":")[2]))
    directories = (weir.directory, kafka.nodes[1].properties.parent / "data-1")
    found, expected = (records_of(each.glob("__consumer_offsets-*")) for each in directories)
    assert {int(key["type"]) for key, _ in expected} == {17, 19, 20, 21, 22, 23}
    # Kafka removes the topology (23) after the group (17).
    assert found[-1][0]["type"] == "17" and expected[-1][0]["type"] == "23"
    assert found[:-2] == expected[:-2] and sorted(map(str, found[-2:])) == sorted(map(str, expected[-2:]))


def test_the_console_consumer_passes_the_records_of_streams_groups_by(weir: BrokerProcess) -> None:
    read = ("--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "12000", "--formatter")
    package = "org.apache.kafka.tools.consumer"
    # Kafka 4.4 has no formatter that prints them.
    assert f'"{RECORDED}"' not in ask(weir, CONSUMER, *read, f"{package}.GroupMetadataMessageFormatter")
    offsets = ask(weir, CONSUMER, *read, f"{package}.OffsetsMessageFormatter")
    assert f'"group":"{APP}"' in offsets and f'"topic":"{LINES}"' in offsets
