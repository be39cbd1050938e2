"""A rolling restart of two gateways before a real cluster: no error reaches an application, and no record is
lost or comes twice.
"""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import pytest
from confluent_kafka import Consumer, Producer

from benchmarks.install import KAFKA_LIBS
from tests.endtoend.gateway.test_drain_java import producing
from tests.support import kafka_tools
from tests.support.broker_process import within
from tests.support.client_programs import go_program, needs
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.moving_load import LogEnd
from tests.support.real_clients import Target, create, librdkafka

pytestmark = kafka_tools.pytestmark

CONSUMER: Final = Path(__file__).with_name("Consuming.java")
PARTITIONS: Final = 3
DRAIN_S: Final = 6
PER_SECOND: Final = 150
READY_WITHIN_S: Final = 60
ENDED_WITHIN_S: Final = 90


@pytest.fixture(scope="module")
def gateways(
    cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[GatewayProcess]]:
    """Two that know each other, as they share their limits."""
    with ExitStack() as stack:
        found = []
        for number in (1, 2):
            process = GatewayProcess(
                tmp_path_factory.mktemp("gateway"),
                cluster.bootstrap(),
                "quota.scope=cluster",
                f"node.id={number}",
                f"gateway.drain.timeout.ms={DRAIN_S * 1_000}",
                nodes=cluster.count,
            )
            found.append(stack.enter_context(process))
        yield found


def both(gateways: list[GatewayProcess]) -> str:
    return ",".join(each.bootstrap for each in gateways)


def know_each_other(gateways: list[GatewayProcess]) -> bool:
    """Whether both show the same two gateways, and none that has stopped."""
    rows = [each.ask("GET", "/api/v1/gateways")["items"] for each in gateways]
    ids = [sorted(row["gateway_id"] for row in found) for found in rows]
    return ids[0] == ids[1] and len(ids[0]) == 2 and all(row["traffic"] for found in rows for row in found)


def roll(gateways: list[GatewayProcess]) -> None:
    """Restart both, one after the other."""
    for gateway in gateways:
        within(30, lambda: know_each_other(gateways), "both gateways know each other")
        began = time.monotonic()
        assert gateway.stop() == 0
        print(f"the stop took {time.monotonic() - began:.1f} s")
        gateway.start()


class JavaConsumer:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def wait_until_ready(self) -> None:
        assert self._output.readline() == "ready\n"

    def end(self, count: int) -> Any:
        output, _ = self._process.communicate(f"{count}\n", ENDED_WITHIN_S)
        return json.loads(output)


@contextmanager
def java_consumer(bootstrap: str, topic: str, *settings: str) -> Iterator[JavaConsumer]:
    command = [*kafka_tools.JAVA, "-cp", f"{KAFKA_LIBS}/*", str(CONSUMER), bootstrap, topic, *settings]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield JavaConsumer(process)
        finally:
            process.kill()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafkas_java_clients(cluster: KafkaCluster, gateways: list[GatewayProcess], protocol: str) -> None:
    topic = f"roll-java-{protocol}"
    create(Target(cluster.bootstrap()), topic, PARTITIONS)
    with (
        producing(both(gateways), topic, PER_SECOND) as producer,
        java_consumer(both(gateways), topic, f"group.protocol={protocol}") as consumer,
    ):
        consumer.wait_until_ready()
        roll(gateways)
        sent = producer.end()
        found = consumer.end(len(sent["acknowledged"]))
    assert sent["failed"] == {}
    assert found["errors"] == []
    assert sorted(found["read"]) == sent["acknowledged"]


class Rdkafka:
    """A producer and a consumer of librdkafka, in threads of their own. `refused` has the errors of delivery
    reports, `errors` those that the consumer returned, and `events` what the error callbacks were told, which
    librdkafka says is for information.
    """

    def __init__(self, bootstrap: str, topic: str, **settings: Any) -> None:
        self.acknowledged: list[int] = []
        self.read: list[int] = []
        self.refused: list[str] = []
        self.errors: list[str] = []
        self.events: list[str] = []
        self._topic = topic
        note: dict[str, Any] = {"error_cb": lambda error: self.events.append(str(error)), "log_level": 0}
        target = Target(bootstrap)
        self._producer = Producer(librdkafka(target, **note, **settings))
        group = {"group.id": f"{topic}-group", "auto.offset.reset": "earliest"}
        self._consumer = Consumer(librdkafka(target, **note, **group))
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._produce, self._consume)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._consumer.close()

    def end(self) -> None:
        """Send nothing more, and read what is left."""
        self._ended.set()
        for thread in self._threads:
            thread.join(ENDED_WITHIN_S)
            assert not thread.is_alive()

    def _produce(self) -> None:
        number = 0
        while not self._ended.is_set():
            self._producer.produce(
                self._topic, str(number), partition=number % PARTITIONS, callback=self._delivered(number)
            )
            number += 1
            self._producer.poll(0)
            time.sleep(1 / PER_SECOND)
        assert self._producer.flush(ENDED_WITHIN_S) == 0

    def _delivered(self, number: int) -> Callable[[Any, Any], None]:
        def report(error: Any, _message: Any) -> None:
            if error is None:
                self.acknowledged.append(number)
            else:
                self.refused.append(str(error))

        return report

    def _consume(self) -> None:
        self._consumer.subscribe([self._topic])
        deadline = None
        while True:
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is not None:
                self.errors.append(str(message.error()))
            elif message is not None:
                self.read.append(int(message.value() or b""))
            if self._ended.is_set() and not self._threads[0].is_alive():
                deadline = deadline or time.monotonic() + READY_WITHIN_S
                if set(self.acknowledged) <= set(self.read) or time.monotonic() > deadline:
                    return


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "default"])
def test_librdkafka(cluster: KafkaCluster, gateways: list[GatewayProcess], idempotent: bool) -> None:
    topic = f"roll-rdkafka-{idempotent}".lower()
    create(Target(cluster.bootstrap()), topic, PARTITIONS)
    settings = {"enable.idempotence": True} if idempotent else {}
    with Rdkafka(both(gateways), topic, **settings) as clients:
        within(READY_WITHIN_S, lambda: bool(clients.read), "records are read")
        roll(gateways)
        clients.end()
    records = LogEnd(cluster.bootstrap(), topic, PARTITIONS).records()
    twice = len(clients.read) - len(set(clients.read))
    print(f"{records} in the log, {len(clients.acknowledged)} acknowledged, {twice} read twice")
    print(clients.events)
    # librdkafka leaves with all its connections, and sends again what is in flight: the gateway waits until
    # nothing is (docs/gateway.md).
    assert records == len(clients.acknowledged)
    assert clients.refused == []
    assert clients.errors == []
    assert sorted(set(clients.read)) == sorted(clients.acknowledged)
    assert len(clients.read) == records


@needs("go", "Go")
def test_franz_go(cluster: KafkaCluster, gateways: list[GatewayProcess], tmp_path: Path) -> None:
    program = go_program("franz", tmp_path)
    with subprocess.Popen(
        [*program.command, "roll", both(gateways)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            roll(gateways)
            output, _ = process.communicate("", ENDED_WITHIN_S)
        finally:
            process.kill()
    found = json.loads(output)
    records = LogEnd(cluster.bootstrap(), "roll", PARTITIONS).records()
    print(f"{found['acknowledged']} acknowledged, {found['twice']} read twice: {found['errors']}")
    assert found["failed"] == found["errors"] == []
    assert records == found["acknowledged"] == found["read"] > PER_SECOND
    assert not found["twice"]
