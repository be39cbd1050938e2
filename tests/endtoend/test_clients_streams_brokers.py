"""Kafka Streams in both protocols, classic and streams (KIP-1071), before Weir and before Apache Kafka.

What the result topics have is the same before both: the exact totals of what was written.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

import pytest

from tests.support import jvm_clients, kafka_tools
from tests.support.broker_process import BrokerProcess
from tests.support.jvm_clients import JavaProcess, classpath
from tests.support.kafka_cluster import KafkaCluster
from tests.support.streams import (
    PARTITIONS,
    STREAMS_GROUPS,
    Orders,
    Results,
    Words,
    application,
)

pytestmark = [*jvm_clients.pytestmark, *kafka_tools.pytestmark]

LONG_S: Final = 60
"""For a failover, of which the session's timeout is 6 s."""
COMPACT: Final = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
PURGED: Final = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
    "segment.bytes": "52428800",
}
INTERNAL: Final = {
    "WordCount": {"by-word-repartition": (4, PURGED), "words-changelog": (4, COMPACT)},
    "Revenue": {
        "by-region-repartition": (4, PURGED),
        "customers-changelog": (4, COMPACT),
        "revenue-changelog": (4, COMPACT),
    },
}
"""The internal topics of each program: partitions, and what is set of the topic."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return classpath("streams", tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="module", params=("weir", "kafka"))
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "weir":
        with BrokerProcess(directory, *STREAMS_GROUPS) as broker:
            yield broker.plain
    else:
        with KafkaCluster(directory, 1, *STREAMS_GROUPS) as cluster:
            yield cluster.bootstrap()


@pytest.fixture(params=("classic", "streams"))
def protocol(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class Instances:
    """The running instances of one application."""

    def __init__(self, path: str, results: Results, directory: Path, *settings: str) -> None:
        self.running: dict[int, JavaProcess] = {}
        self._started = 0
        self._ended = ExitStack()
        self._start: Callable[[int], JavaProcess] = lambda number: application(
            path, results, directory / f"state-{number}", *settings
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self._ended.close()

    def start(self, *numbers: int) -> None:
        """Start them, and return when each is running."""
        for number in numbers:
            self.running[number] = self._ended.enter_context(self._start(number))
        for number in numbers:
            self.running[number].said("state RUNNING")

    def kill(self, number: int) -> None:
        self.running.pop(number).kill()

    def close(self, number: int) -> None:
        assert self.running.pop(number).close() == 0

    def close_all(self) -> None:
        for number in sorted(self.running):
            self.close(number)


def totals_over_a_kill(path: str, results: Results, directory: Path, protocol: str, count: int) -> None:
    """Of so many instances, one is killed: each total is there, once, and the internal topics are Kafka's."""
    results.write(1_000)
    with Instances(path, results, directory, f"group.protocol={protocol}") as instances:
        instances.start(*range(count))
        results.write(1_000)
        instances.kill(0)
        results.write(1_000)
        results.until_read(LONG_S)
        assert results.internal_topics() == INTERNAL[results.program]
        instances.close_all()


@pytest.mark.parametrize(("kind", "count"), [(Words, 2), (Words, 3), (Orders, 2)])
def test_totals_are_exact_when_an_instance_is_killed(
    path: str, bootstrap: str, protocol: str, kind: type[Words | Orders], count: int, tmp_path: Path
) -> None:
    results = kind(bootstrap, f"{kind.program.lower()}-{protocol}-{count}")
    totals_over_a_kill(path, results, tmp_path, protocol, count)


def standbys_are_near(instance: JavaProcess) -> bool:
    """Whether the instance has each partition of the store, at most 100 records behind its changelog."""
    partitions, lag = instance.answer("lag").split()
    return int(partitions) == PARTITIONS and int(lag) <= 100


def restored(instance: JavaProcess) -> list[int]:
    """The records that each partition was restored from, which became active."""
    return [int(line.split()[1]) for line in instance.lines if line.startswith("restored ")]


def test_a_standby_takes_over_without_the_changelog(path: str, bootstrap: str, tmp_path: Path) -> None:
    words = Words(bootstrap, "with-standbys")
    group = ("--entity-type", "groups", "--entity-name", words.name)
    setting = ("--alter", "--add-config", "streams.num.standby.replicas=1")
    kafka_tools.run(kafka_tools.CONFIGS, "--bootstrap-server", bootstrap, *group, *setting)
    words.write(2_000)
    with Instances(path, words, tmp_path, "group.protocol=streams") as instances:
        instances.start(0, 1)
        words.until_read(LONG_S)
        other = instances.running[1]
        other.until(lambda: standbys_are_near(other), "all tasks, active or standby")
        before = len(restored(other))
        instances.kill(0)
        words.write(100)
        words.until_read(LONG_S)
        assert len(restored(other)) > before and sum(restored(other)[before:]) < 1_000
        instances.close_all()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_totals_are_exact_over_a_rolling_restart(
    path: str, bootstrap: str, protocol: str, guarantee: str, tmp_path: Path
) -> None:
    words = Words(bootstrap, f"rolled-{protocol}-{guarantee.replace('_', '-')}")
    more = (f"group.protocol={protocol}", f"processing.guarantee={guarantee}")
    with Instances(path, words, tmp_path, *more) as instances:
        words.write(500)
        instances.start(0, 1, 2)
        for number in range(3):
            words.write(500)
            instances.close(number)
            words.write(500)
            instances.start(number)
        words.write(500)
        words.until_read(LONG_S)
        instances.close_all()
