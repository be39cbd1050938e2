"""MirrorMaker 2, exactly once, from Weir to Kafka, directly and through a gateway."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endtoend.test_clients_mirrormaker import (
    CONFIGS,
    PARTITIONS,
    SETTINGS,
    TOPIC,
    committed,
    configs,
    create,
    mirror_maker,
    produce,
    read,
    take,
    topics,
)
from tests.support import jvm_clients, kafka_tools
from tests.support.broker_process import BrokerProcess
from tests.support.gateway_process import Way
from tests.support.jvm_clients import classpath

pytestmark = [*jvm_clients.pytestmark, *kafka_tools.pytestmark]


@pytest.fixture
def east(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "east", *SETTINGS) as process:
        yield process


def test_all_that_a_cluster_has_is_mirrored_once(
    east: BrokerProcess, way: Way, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Without ACLs: the cluster has no authorizer."""
    path = classpath("connect", tmp_path_factory.mktemp("classes"))
    source = way.topic("east")
    mirrored = f"{source}.{TOPIC}"
    acls = "sync.topic.acls.enabled=false"
    create(east)
    produce(east, 0, 3_000)
    expected = read(east, TOPIC)
    with mirror_maker(path, tmp_path, east, way, acls, source=source) as mirror:
        mirror.until(lambda: topics(way).get(mirrored) == PARTITIONS, "the topic")
        mirror.until(lambda: read(way, mirrored) == expected, "the records")
        mirror.until(lambda: configs(way, mirrored).items() >= CONFIGS.items(), "the configs")
        assert len(set(take(east, TOPIC, 3_000))) == 3_000
        mirror.until(lambda: min(committed(way, mirrored).values()) >= 1_000, "the offsets")
        produce(east, 3_000, 600)
        mirror.kill()
    with mirror_maker(path, tmp_path, east, way, acls, source=source) as mirror:
        produce(east, 3_600, 600)
        expected = read(east, TOPIC)
        mirror.until(lambda: read(way, mirrored) == expected, "the records after kill -9")
        mirror.stop()
    assert read(way, mirrored) == expected
    # The group goes on at the cluster after the last record that it has read at Weir.
    assert sorted(take(way, mirrored, 1_200)) == sorted(b"key %d" % number for number in range(3_000, 4_200))
