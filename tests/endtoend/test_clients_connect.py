"""Kafka Connect's distributed worker: a file into a topic, exactly once, and the topic into a file."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from tests.support import jvm_clients
from tests.support.broker_process import BrokerProcess
from tests.support.gateway_process import Way
from tests.support.jvm_clients import JavaProcess, classpath
from tests.support.kafka_tools import free_port

pytestmark = jvm_clients.pytestmark

TIMEOUT_S: Final = 30
TOPIC: Final = "lines"
GROUP: Final = "connect"
INTERNAL: Final = {"configs": 1, "offsets": 5, "status": 2}
"""Partitions of the topics that the worker creates for itself, whose names begin with its group's."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return classpath("connect", tmp_path_factory.mktemp("classes"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", "group.initial.rebalance.delay.ms=100") as process:
        yield process


class Worker(JavaProcess):
    """A worker of the group, and its REST API."""

    def __init__(self, path: str, directory: Path, broker: BrokerProcess | Way, group: str = GROUP) -> None:
        self.listener = f"http://127.0.0.1:{free_port()}"
        storage = {"config": "configs", "offset": "offsets", "status": "status"}
        settings = {
            "bootstrap.servers": broker.plain,
            "group.id": group,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "listeners": self.listener,
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "500",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "1000",
            "consumer.session.timeout.ms": "6000",
            "consumer.heartbeat.interval.ms": "1000",
            "consumer.auto.offset.reset": "earliest",
            **{f"{name}.storage.topic": f"{group}-{kind}" for name, kind in storage.items()},
            **{f"{name}.storage.replication.factor": "-1" for name in storage},
            "offset.storage.partitions": str(INTERNAL["offsets"]),
            "status.storage.partitions": str(INTERNAL["status"]),
        }
        file = directory / f"worker-{self.listener.rpartition(':')[2]}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        super().__init__(path, "org.apache.kafka.connect.cli.ConnectDistributed", str(file))
        try:
            self.until(lambda: self.tried("GET", "/connectors") is not None, "the REST API")
        except BaseException:
            self.kill()
            raise

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Retries what a rebalance refuses."""
        return self.until(lambda: self.tried(method, path, body), f"{method} {path}")[0]

    def tried(self, method: str, path: str, body: Any = None) -> tuple[Any] | None:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.listener}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                said = error.read().decode(errors="replace").replace("\n", " ")
            self.complaints.append(f"{method} {path}: {error.code} {said}\n")
            return None
        except OSError:
            return None
        return (json.loads(text) if text else None,)

    def until_state(self, connector: str, state: str, tasks: int = 1) -> None:
        def reached() -> bool:
            status = self.ask("GET", f"/connectors/{connector}/status")
            states = [each["state"] for each in (status["connector"], *status["tasks"])]
            assert "FAILED" not in states, status
            return states == [state] * (1 + tasks)

        self.until(reached, f"{connector} is {state}")


def create(worker: Worker, source: Path, sink: Path, topic: str = TOPIC, lines_at_once: int = 2_000) -> None:
    """Create the connectors; the source commits so many lines in a transaction."""
    made = {
        "source": {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(source),
            "topic": topic,
            "batch.size": str(lines_at_once),
            "exactly.once.support": "required",
            "transaction.boundary": "poll",
            "topic.creation.default.replication.factor": "-1",
            "topic.creation.default.partitions": "1",
        },
        "sink": {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "tasks.max": "1",
            "file": str(sink),
            "topics": topic,
        },
    }
    for name, settings in made.items():
        worker.ask("PUT", f"/connectors/{name}/config", settings)
        worker.until_state(name, "RUNNING")


def numbers(first: int, count: int) -> Sequence[str]:
    return [f"line {number}" for number in range(first, first + count)]


def append(file: Path, first: int, count: int) -> None:
    with file.open("a") as lines:
        lines.writelines(f"{line}\n" for line in numbers(first, count))


def lines_of(file: Path) -> Sequence[str]:
    return file.read_text().splitlines() if file.exists() else []


def read(broker: BrokerProcess | Way, topic: str = TOPIC) -> Sequence[str]:
    """The committed values of the topic."""
    return [value for _, value in records(broker, topic)]


def records(broker: BrokerProcess | Way, topic: str = TOPIC) -> Sequence[tuple[int, str]]:
    """Offsets and values of the committed records."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.plain,
            "log_level": 0,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, str]] = []
    while True:
        (message,) = consumer.consume(1, TIMEOUT_S)
        at, value = message.offset(), message.value()
        if message.error() is not None:
            break
        assert at is not None and isinstance(value, bytes)
        found.append((at, value.decode()))
    consumer.close()
    return found


def end(broker: BrokerProcess | Way, topic: str) -> int:
    """The end of the topic: a reader of its records would run after a source that writes on."""
    consumer = Consumer({"bootstrap.servers": broker.plain, "log_level": 0, "group.id": "reader"})
    _, found = consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)
    consumer.close()
    return int(found)


def configs(broker: BrokerProcess, topic: str) -> Mapping[str, str]:
    client = AdminClient({"bootstrap.servers": broker.plain, "log_level": 0})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = client.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {name: entry.value for name, entry in found.items()}


def partitions(broker: BrokerProcess, topic: str) -> int:
    client = AdminClient({"bootstrap.servers": broker.plain, "log_level": 0})
    return len(client.list_topics(topic).topics[topic].partitions)


def test_each_line_passes_once_over_restarts_and_failovers(
    path: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    source, sink = tmp_path / "source", tmp_path / "sink"
    append(source, 0, 2_000)
    with ExitStack() as ended:
        one = ended.enter_context(Worker(path, tmp_path, broker))
        for kind, count in INTERNAL.items():
            assert configs(broker, f"{GROUP}-{kind}")["cleanup.policy"] == "compact"
            assert partitions(broker, f"{GROUP}-{kind}") == count
        create(one, source, sink)
        one.until(lambda: len(lines_of(sink)) >= 2_000, "the lines")
        append(source, 2_000, 1_000)
        one.stop()
        append(source, 3_000, 1_000)
        two = ended.enter_context(Worker(path, tmp_path, broker))
        two.until(lambda: len(lines_of(sink)) >= 4_000, "the lines after a restart")
        assert lines_of(sink) == read(broker) == numbers(0, 4_000)
        three = ended.enter_context(Worker(path, tmp_path, broker))
        three.until_state("source", "RUNNING")
        append(source, 4_000, 1_000)
        two.kill()
        append(source, 5_000, 1_000)
        three.until(lambda: len(read(broker)) >= 6_000, "the lines after kill -9")
        assert read(broker) == numbers(0, 6_000)
        # A sink of files repeats what it has written since its last commit.
        three.until(lambda: set(lines_of(sink)) == set(numbers(0, 6_000)), "the lines of the sink")
        three.stop()


def copy_over_a_kill(
    path: str, directory: Path, broker: BrokerProcess | Way, name: str, transactions: int
) -> None:
    """Kill the only worker after some fifty of so many transactions of the source, and let another go on:
    each line is committed once.
    """
    source, sink = directory / "source", directory / "sink"
    # The connector reads 1,024 characters at once and keeps what is beyond a batch until the file grows.
    expected = [f"{line:700}" for line in numbers(0, transactions)]
    source.write_text(f"{expected[0]}\n")
    with Worker(path, directory, broker, name) as killed:
        create(killed, source, sink, name, lines_at_once=1)
        with source.open("a") as lines:
            lines.writelines(f"{line}\n" for line in expected[1:])
        killed.until(lambda: end(broker, name) >= 100, "some transactions")
        killed.kill()
    before = read(broker, name)
    assert before == expected[: len(before)] and len(before) < len(expected)
    with Worker(path, directory, broker, name) as worker:
        every = len(expected)
        worker.until(lambda: len(read(broker, name)) >= every, "all transactions", 3 * jvm_clients.SLOW_S)
        assert read(broker, name) == expected
        worker.until(lambda: set(lines_of(sink)) == set(expected), "the lines of the sink")
        worker.stop()


def test_a_worker_that_is_killed_while_it_copies_loses_and_repeats_nothing(
    path: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    copy_over_a_kill(path, tmp_path, broker, "copied", 3_000)


def test_a_kill_of_the_broker_loses_and_repeats_nothing(
    path: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    source, sink = tmp_path / "source", tmp_path / "sink"
    append(source, 0, 1_000)
    with Worker(path, tmp_path, broker) as worker:
        create(worker, source, sink)
        worker.until(lambda: len(lines_of(sink)) >= 1_000, "the lines")
        append(source, 1_000, 1_000)
        broker.kill()
        append(source, 2_000, 1_000)
        broker.start()
        append(source, 3_000, 1_000)
        worker.until(lambda: len(read(broker)) >= 4_000, "the lines after kill -9 of the broker")
        assert read(broker) == numbers(0, 4_000)
        worker.until(lambda: set(lines_of(sink)) == set(numbers(0, 4_000)), "the lines of the sink")
        worker.stop()


def test_offsets_are_returned_and_reset(path: str, broker: BrokerProcess, tmp_path: Path) -> None:
    source, sink = tmp_path / "source", tmp_path / "sink"
    append(source, 0, 500)
    with Worker(path, tmp_path, broker) as worker:
        create(worker, source, sink)
        worker.until(lambda: len(lines_of(sink)) >= 500, "the lines")
        position = {"position": source.stat().st_size}
        worker.until(lambda: [position] == offsets(worker, "source"), "the source's offset")
        behind = {"kafka_offset": records(broker)[-1][0] + 1}
        worker.until(lambda: [behind] == offsets(worker, "sink"), "the sink's offset")
        for name in ("source", "sink"):
            worker.ask("PUT", f"/connectors/{name}/stop")
            worker.until_state(name, "STOPPED", tasks=0)
            worker.ask("DELETE", f"/connectors/{name}/offsets")
            assert offsets(worker, name) == []
            worker.ask("PUT", f"/connectors/{name}/resume")
            worker.until_state(name, "RUNNING")
        # The source reads its file again, then the sink the whole topic.
        worker.until(lambda: len(read(broker)) >= 1_000, "the source's lines again")
        assert read(broker) == [*numbers(0, 500), *numbers(0, 500)]
        worker.until(lambda: lines_of(sink).count("line 499") >= 3, "the sink's lines again")
        worker.stop()


def offsets(worker: Worker, connector: str) -> Sequence[Any]:
    return [each["offset"] for each in worker.ask("GET", f"/connectors/{connector}/offsets")["offsets"]]
