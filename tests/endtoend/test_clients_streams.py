"""Kafka Streams, exactly once: what tests/endtoend/jvm_clients/streams/WordCount.java does with a broker."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.support import jvm_clients
from tests.support.broker_process import BrokerProcess, within
from tests.support.jvm_clients import classpath
from tests.support.streams import PARTITIONS, TIMEOUT_S, WORDS, Words, application, store

pytestmark = jvm_clients.pytestmark

CHANGELOG: Final = "counter-words-changelog"
REPARTITION: Final = "counter-by-word-repartition"
PRODUCER: Final = "counter-StreamThread-1-producer"
RATE: Final = 40_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return classpath("streams", tmp_path_factory.mktemp("classes"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(
        tmp_path / "broker", "group.initial.rebalance.delay.ms=100", "log.cleaner.backoff.ms=500"
    ) as process:
        yield process


def test_counts_are_exact_over_restarts_and_rebalances(
    path: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    words = Words(broker.plain)
    words.write(1_000)
    with application(path, words, tmp_path / "one") as one:
        one.said("state RUNNING")
        words.until_read()
        assert store(one) == words.counted
        assert words.configs(CHANGELOG)["cleanup.policy"] == "compact"
        assert words.configs(REPARTITION)["cleanup.policy"] == "delete"
        within(TIMEOUT_S, lambda: words.earliest(REPARTITION) >= 5_000, "the records are purged")
        assert one.close() == 0
    words.write(1_000)
    with ExitStack() as ended:
        # Without its own files, the application has the counts of the changelog.
        two = ended.enter_context(application(path, words, tmp_path / "two"))
        words.until_read()
        assert sum(map(int, two.said("restored", PARTITIONS))) == 5_000
        three = ended.enter_context(application(path, words, tmp_path / "three"))
        words.write(1_000)
        three.until(lambda: bool(store(three)), "a share of the partitions")
        words.until_read()
        assert store(two, three) == words.counted
        words.write(2_000)
        two.kill()
        words.write(1_000)
        words.until_read()
        three.until(lambda: store(three) == words.counted, "all partitions")
        assert three.close() == 0
    assert words.read() == words.expected


def test_counts_are_exact_after_kill_of_the_broker(path: str, broker: BrokerProcess, tmp_path: Path) -> None:
    words = Words(broker.plain)
    words.write(1_000)
    with application(path, words, tmp_path / "one") as one:
        one.until(lambda: len(words.read()) == len(WORDS), "some counts")
        words.write(4_000)
        broker.kill()  # the application has just begun with these
        broker.start()
        words.write(500)
        words.until_read()
        assert store(one) == words.counted
        assert one.close() == 0


def test_the_store_comes_back_from_a_compacted_changelog(
    path: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    words = Words(broker.plain)
    often = ("topic.segment.ms=1000", "topic.min.cleanable.dirty.ratio=0.01")
    words.write(1_000)
    with application(path, words, tmp_path / "one", *often) as one:
        words.until_read()
        for _ in range(3):
            time.sleep(1.1)
            words.write(20)
        words.until_read()
        within(60, lambda: len(words.records(CHANGELOG)) < 4_000, "the changelog is compacted", 1)
        assert one.close() == 0
    with application(path, words, tmp_path / "two", *often) as two:
        two.said("restored", PARTITIONS)
        assert len(WORDS) <= sum(map(int, two.said("restored", PARTITIONS))) < 4_000
        assert store(two) == words.counted
        words.write(500)
        words.until_read()
        assert store(two) == words.counted
        assert two.close() == 0


def test_a_quota_throttles_the_application_and_nothing_is_lost(
    path: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    op = {"key": "producer_byte_rate", "value": RATE}
    entry = {"entity": {"client-id": PRODUCER}, "ops": [op]}
    broker.ask("PATCH", "/api/v1/client-quotas", {"entries": [entry]})
    words = Words(broker.plain)
    words.write(4_000)
    with application(path, words, tmp_path / "one") as one:
        within(TIMEOUT_S, lambda: broker.throttled(PRODUCER), "the producer is throttled")
        words.until_read()
        assert int(one.answer("throttle")) > 0
        assert store(one) == words.counted
        assert one.close() == 0
