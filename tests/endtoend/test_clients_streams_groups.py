"""Kafka Streams with group.protocol=streams (KIP-1071): two instances, of which one is killed."""

from pathlib import Path

import pytest

from tests.support import jvm_clients
from tests.support.broker_process import BrokerProcess
from tests.support.jvm_clients import classpath
from tests.support.streams import STREAMS_GROUPS, Words, application, store

pytestmark = jvm_clients.pytestmark


def test_counts_are_exact_when_one_of_two_instances_is_killed(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = classpath("streams", tmp_path_factory.mktemp("classes"))
    with BrokerProcess(tmp_path / "broker", *STREAMS_GROUPS) as broker:
        words = Words(broker.plain)
        words.write(500)
        one, two = (
            application(path, words, tmp_path / name, "group.protocol=streams") for name in ("one", "two")
        )
        with one, two:
            for each in (one, two):
                each.until(lambda each=each: bool(store(each)), "a share of the tasks")
            words.write(500)
            one.kill()
            words.write(500)
            words.until_read()
            two.until(lambda: store(two) == words.counted, "all tasks")
            assert two.close() == 0
