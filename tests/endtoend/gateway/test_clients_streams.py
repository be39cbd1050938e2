"""Kafka Streams in both protocols, directly and through a gateway: the exact totals of what was written."""

from pathlib import Path

import pytest

from tests.endtoend.test_clients_streams import RATE
from tests.endtoend.test_clients_streams_brokers import LONG_S, Instances, totals_over_a_kill
from tests.support import jvm_clients, kafka_tools
from tests.support.gateway_process import GatewayProcess, Way, set_rate
from tests.support.jvm_clients import classpath
from tests.support.kafka_cluster import KafkaCluster
from tests.support.streams import Orders, Words, application

pytestmark = [*jvm_clients.pytestmark, *kafka_tools.pytestmark]

each_protocol = pytest.mark.parametrize("protocol", ["classic", "streams"])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return classpath("streams", tmp_path_factory.mktemp("classes"))


@each_protocol
@pytest.mark.parametrize("kind", [Words, Orders])
def test_totals_are_exact_when_an_instance_is_killed(
    path: str, way: Way, protocol: str, kind: type[Words | Orders], tmp_path: Path
) -> None:
    results = kind(way.plain, way.topic(f"{kind.program.lower()}-{protocol}"))
    totals_over_a_kill(path, results, tmp_path, protocol, 2)


@each_protocol
def test_totals_are_exact_when_the_gateway_is_killed_and_when_it_stops(
    path: str, cluster: KafkaCluster, protocol: str, tmp_path: Path
) -> None:
    with GatewayProcess(tmp_path, cluster.bootstrap(), nodes=cluster.count) as gateway:
        words = Words(gateway.bootstrap, f"words-{protocol}-ended")
        words.write(1_000)
        with Instances(path, words, tmp_path, f"group.protocol={protocol}") as instances:
            instances.start(0, 1)
            words.write(500)
            gateway.kill()
            gateway.start()
            words.write(500)
            assert gateway.stop() == 0
            gateway.start()
            words.write(500)
            words.until_read(LONG_S)
            instances.close_all()


def test_a_quota_of_the_gateway_throttles_the_application_and_nothing_is_lost(
    path: str, cluster: KafkaCluster, tmp_path: Path
) -> None:
    with GatewayProcess(tmp_path, cluster.bootstrap(), nodes=cluster.count) as gateway:
        words = Words(gateway.bootstrap, "words-throttled")
        set_rate(gateway, f"{words.name}-StreamThread-1-producer", RATE)
        words.write(4_000)
        with application(path, words, tmp_path / "state") as instance:
            words.until_read(LONG_S)
            assert int(instance.answer("throttle")) > 0
            assert instance.close() == 0
