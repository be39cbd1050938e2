"""Kafka's Java producer, while the gateway that it uses is stopped and another one is there."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final

import pytest

from benchmarks.install import KAFKA_LIBS
from tests.support import kafka_tools
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.moving_load import LogEnd
from tests.support.real_clients import Confluent, Target, create

pytestmark = kafka_tools.pytestmark

SOURCE: Final = Path(__file__).with_name("Producing.java")
PARTITIONS: Final = 3
STOPS: Final = 3
PER_SECOND: Final = 150
ENDED_WITHIN_S: Final = 150


@pytest.fixture
def gateways(
    cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[GatewayProcess]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                GatewayProcess(tmp_path_factory.mktemp("gateway"), cluster.bootstrap(), nodes=cluster.count)
            )
            for _ in range(2)
        ]


class Producing:
    """The program. `end` lets it send what it has, and returns what it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def wait_until_ready(self) -> None:
        assert self._output.readline() == "ready\n"

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def end(self) -> Any:
        output, _ = self._process.communicate("end\n", ENDED_WITHIN_S)
        return json.loads(output)


@contextmanager
def producing(bootstrap: str, topic: str, per_second: int, *settings: str) -> Iterator[Producing]:
    command = [*kafka_tools.JAVA, "-cp", f"{KAFKA_LIBS}/*", str(SOURCE), bootstrap, topic, str(PARTITIONS)]
    with subprocess.Popen(
        [*command, str(per_second), *settings],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            found = Producing(process)
            found.wait_until_ready()
            yield found
        finally:
            process.kill()


def move(cluster: KafkaCluster, gateways: list[GatewayProcess], topic: str, *settings: str) -> Any:
    """Stop each gateway in turn and start it again; the program's output, and the values in the log."""
    create(Target(cluster.bootstrap()), topic, PARTITIONS)
    both = ",".join(each.bootstrap for each in gateways)
    with producing(both, topic, PER_SECOND, *settings) as program:
        for at in range(STOPS):
            gateway = gateways[at % 2]
            assert gateway.stop() == 0
            gateway.start()
        output = program.end()
    end = LogEnd(cluster.bootstrap(), topic, PARTITIONS)
    values = Confluent().read(Target(cluster.bootstrap()), topic, end.records(), partitions=PARTITIONS)
    return output, sorted(int(each) for each in values)


def test_the_default_producer_sends_everything_once(
    cluster: KafkaCluster, gateways: list[GatewayProcess]
) -> None:
    output, values = move(cluster, gateways, "drain-default")
    assert output["failed"] == {}
    assert values == output["acknowledged"]


def test_without_retries_what_is_not_acknowledged_was_not_forwarded(
    cluster: KafkaCluster, gateways: list[GatewayProcess]
) -> None:
    """The client hands requests to a connection before it sees that the gateway has closed it."""
    output, values = move(
        cluster, gateways, "drain-retries", "retries=0", "enable.idempotence=false", "acks=all"
    )
    print(len(values), len(output["failed"]))
    assert values == output["acknowledged"]
    assert all("Disconnected from node" in each for each in output["failed"].values())
