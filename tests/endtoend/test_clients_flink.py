"""Flink's connector, exactly once: what tests/endtoend/jvm_clients/flink/Copy.java does with a broker."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support import jvm_clients
from tests.support.broker_process import BrokerProcess
from tests.support.gateway_process import Way
from tests.support.jvm_clients import JavaProcess, classpath

pytestmark = jvm_clients.pytestmark

TIMEOUT_S: Final = 30
PARTITIONS: Final = 4
NAME: Final = "flink"
OPENED: Final = tuple(
    argument
    for package in ("lang", "util", "time", "util.concurrent", "lang.reflect", "net")
    for argument in ("--add-opens", f"java.base/java.{package}=ALL-UNNAMED")
)
"""Flink's serializers look into the JDK's classes."""

each_naming = pytest.mark.parametrize("naming", ["INCREMENTING", "POOLING"])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return classpath("flink", tmp_path_factory.mktemp("classes"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", "group.initial.rebalance.delay.ms=100") as process:
        create(process)
        yield process


def create(broker: BrokerProcess | Way, name: str = NAME) -> None:
    """The topics of a job, whose names begin with its own."""
    client = AdminClient({"bootstrap.servers": broker.plain, "log_level": 0})
    topics = [NewTopic(f"{name}-{end}", PARTITIONS) for end in ("from", "to")]
    for created in client.create_topics(topics).values():
        created.result(TIMEOUT_S)


def produce(broker: BrokerProcess | Way, first: int, count: int, name: str = NAME) -> None:
    producer = Producer({"bootstrap.servers": broker.plain, "log_level": 0})
    for number in range(first, first + count):
        producer.produce(f"{name}-from", b"%d" % number, partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def read(broker: BrokerProcess | Way, isolation: str = "read_committed", name: str = NAME) -> Sequence[int]:
    """The numbers that the job has written, sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.plain,
            "log_level": 0,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(f"{name}-to", number, 0) for number in range(PARTITIONS)])
    found: list[int] = []
    ends = 0
    while ends < PARTITIONS:
        (message,) = consumer.consume(1, TIMEOUT_S)
        value = message.value()
        if message.error() is not None:
            ends += 1
        else:
            assert isinstance(value, bytes)
            found.append(int(value))
    consumer.close()
    return sorted(found)


def copy(
    path: str,
    broker: BrokerProcess | Way,
    directory: Path,
    naming: str,
    *,
    name: str = NAME,
    fails_after: int = 0,
    bounded: bool = False,
    restored: str = "",
) -> JavaProcess:
    settings = {
        "bootstrap": broker.plain,
        "name": name,
        "naming": naming,
        "fails.after": str(fails_after),
        "bounded": str(bounded).lower(),
        "parallelism.default": "2",
        "execution.checkpointing.interval": "500ms",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.dir": f"file://{directory}/checkpoints",
        "execution.checkpointing.savepoint-dir": f"file://{directory}/savepoints",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "100ms",
        "taskmanager.memory.network.min": "16mb",
        "taskmanager.memory.network.max": "16mb",
        "taskmanager.memory.managed.size": "16mb",
        "taskmanager.numberOfTaskSlots": "2",
        **({"execution.state-recovery.path": restored} if restored else {}),
    }
    return JavaProcess(path, "Copy", *(f"{key}={value}" for key, value in settings.items()), options=OPENED)


def latest_checkpoint(directory: Path) -> str:
    found = (directory / "checkpoints").glob("*/chk-*/_metadata")
    return f"file://{max(found, key=lambda each: each.stat().st_mtime).parent}"


@each_naming
def test_a_job_that_fails_in_the_middle_copies_each_record_once(
    path: str, broker: BrokerProcess, tmp_path: Path, naming: str
) -> None:
    produce(broker, 0, 8_000)
    with copy(path, broker, tmp_path, naming, fails_after=3_500, bounded=True) as job:
        (seen,) = job.said("done")
        assert int(seen) > 8_000, "the job has read some records again"
    assert read(broker) == list(range(8_000))
    assert len(read(broker, "read_uncommitted")) > 8_000, "some were in a transaction that was aborted"


@each_naming
def test_a_kill_of_the_broker_loses_and_repeats_nothing(
    path: str, broker: BrokerProcess, tmp_path: Path, naming: str
) -> None:
    produce(broker, 0, 8_000)
    with copy(path, broker, tmp_path, naming, bounded=True) as job:
        job.until(lambda: len(read(broker)) >= 1_000, "some records")
        broker.kill()
        broker.start()
        job.said("done")
    assert read(broker) == list(range(8_000))


@each_naming
def test_a_job_goes_on_from_a_savepoint_and_after_kill(
    path: str, broker: BrokerProcess, tmp_path: Path, naming: str
) -> None:
    produce(broker, 0, 4_000)
    with copy(path, broker, tmp_path, naming) as job:
        job.until(lambda: len(read(broker)) >= 1_000, "some records")
        savepoint = job.answer("savepoint")
        job.said("done")
    half = read(broker)
    assert len(half) == len(set(half))
    with copy(path, broker, tmp_path, naming, restored=savepoint) as job:
        produce(broker, 4_000, 6_000)
        job.until(lambda: len(read(broker)) >= 4_500, "records after the savepoint")
        job.kill()
    assert len(read(broker)) < 10_000
    with copy(path, broker, tmp_path, naming, restored=latest_checkpoint(tmp_path)) as job:
        job.until(lambda: len(read(broker)) >= 10_000, "all records")
        job.answer("savepoint")
        job.said("done")
    assert read(broker) == list(range(10_000))
