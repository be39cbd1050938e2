"""kafka-streams-groups, kafka-groups, kafka-features and kafka-configs say of a streams group at Weir what
they say at Kafka, in every action; and Kafka's own reader prints the group's records.
"""

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final, Self

import pytest
import trio
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.endtoend.answers.groups import commit
from tests.endtoend.answers.streams_groups import count, joins, leaves
from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_answers import Body, Side
from tests.support.kafka_cluster import KafkaCluster
from tests.support.kafka_tools import CONFIGS, JAVA, KAFKA_LIBS

pytestmark = kafka_tools.pytestmark

SOURCE: Final = Path(__file__).with_name("Tools.java")
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
    (FEATURES, "describe"),
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


class Tools:
    """The program Tools.java, which runs each call in the same Java machine."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [*JAVA, "-cp", f"{KAFKA_LIBS}/*", str(SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, bootstrap: str, call: Call) -> list[str]:
        """What the tool prints of a broker, a line each, with its status at the end."""
        tool, *arguments = call
        server = [] if "version-mapping" in arguments else ["--bootstrap-server", bootstrap]
        self._input.write("\t".join((tool, *server, *arguments)) + "\n")
        self._input.flush()
        lines = []
        while not (line := self._output.readline()).startswith("status "):
            assert line, f"the tools have ended: {call}"
            lines.append(line)
        return [*lines, line]

    @property
    def _input(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout


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
def tools() -> Iterator[Tools]:
    with Tools() as process:
        yield process


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
        codes = [each["error_code"] for topic in answer.get("topics", ()) for each in topic["partitions"]]
        codes += [each["error_code"] for each in answer.get("coordinators", ())]
        if not any((*codes, answer.get("error_code"), answer.get("status"))):
            return
        await trio.sleep(0.1)
    raise AssertionError(answer)


def comparable(lines: Sequence[str]) -> list[str]:
    """The lines without addresses, ids of brokers and stack traces, in order."""
    texts = (re.sub(r"127\.0\.0\.1:\d+ +\(\d+\)", "BROKER", line) for line in lines)
    return sorted(" ".join(text.split()) for text in texts if not text.startswith("\tat "))


def differences(tools: Tools, weir: BrokerProcess, kafka: KafkaCluster, calls: Sequence[Call]) -> list[str]:
    """What the tools say of Weir and do not say of Kafka, and the other way round."""
    found = []
    for call in calls:
        of_weir, of_kafka = (comparable(tools.run(each, call)) for each in (weir.plain, kafka.bootstrap()))
        if of_weir != of_kafka:
            found.append("\n".join((" ".join(call), "Weir:", *of_weir, "Kafka:", *of_kafka)))
    return found


def test_the_tools_say_what_they_say_at_kafka(tools: Tools, weir: BrokerProcess, kafka: KafkaCluster) -> None:
    found = differences(tools, weir, kafka, (*LIVE, *CONFIGURED))
    for each in (weir.plain, kafka.bootstrap()):
        trio.run(until_done, Side(int(each.rpartition(":")[2])), "StreamsGroupHeartbeat", leaves(APP), 1)
    found += differences(tools, weir, kafka, LEFT)
    assert not found, "\n\n".join(found)
