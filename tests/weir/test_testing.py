"""`weir.testing`: brokers that start, restart, are killed and end, and what they tell of their clients."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import anyio
import anyio.from_thread
import pytest
from confluent_kafka import Consumer, Producer

from weir.testing import DEFAULT, AsyncBroker, Broker, BrokerError, Record

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    import kafka

pytestmark = pytest.mark.endtoend

BACKENDS = ("asyncio", "trio")
LARGEST_SHOWN = 1 << 20
DIED = "the broker ended by itself: killed by SIGKILL"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where brokers of this test have their folders."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def produce(broker: Broker, topic: str, *values: bytes | None, **settings: Any) -> None:
    """Returns when all are acknowledged."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def setting(broker: Broker, key: str) -> Any:
    return next(row for row in rest(broker, f"broker-configs?search={key}") if row["name"] == key)["value"]


def rest(broker: Broker, path: str) -> Any:
    headers = {"Authorization": f"Bearer {broker.token}"}
    request = urllib.request.Request(f"{broker.console_url}api/v1/{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["items"]


def test_the_end_of_the_block_leaves_nothing_behind(folders: Path) -> None:
    with Broker() as broker:
        pid = broker.pid
        assert [folder / "stderr.log" for folder in folders.iterdir()] == [broker.log_file]
        socket.create_connection(("127.0.0.1", broker.port)).close()
    assert has_ended(pid)
    assert list(folders.iterdir()) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", broker.port))


def test_settings_are_a_mapping_and_keywords() -> None:
    settings = {"num.partitions": 3, "auto.create.topics.enable": True}
    with Broker(settings, num_partitions=2, auto_create_topics_enable=False, log_roll_ms=7) as broker:
        assert setting(broker, "num.partitions") == "2"
        assert setting(broker, "auto.create.topics.enable") == "false"
        assert setting(broker, "log.roll.ms") == "7"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"num.io.threads": 0}, "num.io.threads='0' is not allowed: a whole number from 1 to 256"),
        ({"num.partitons": 3}, "unknown key num.partitons; it is ignored (did you mean num.partitions?)"),
        ({"console.listener": ""}, "a Broker needs its console"),
        ({"listeners": "PLAINTEXT://192.0.2.1:0"}, "192.0.2.1"),
    ],
)
def test_a_start_that_fails_says_why(folders: Path, settings: dict[str, object], reason: str) -> None:
    with pytest.raises(BrokerError) as failed, Broker(settings):
        pass
    assert reason in str(failed.value)
    assert list(folders.iterdir()) == []


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(BrokerError) as failed, Broker(listeners=f"PLAINTEXT://127.0.0.1:{port}"):
            pass
    assert str(port) in str(failed.value)
    assert "in use" in str(failed.value)


def test_a_restart_keeps_records_and_ports() -> None:
    with Broker() as broker:
        broker.create_topic("kept", 2, retention_ms=-1)
        produce(broker, "kept", b"one", b"two")
        before = (broker.bootstrap_servers, broker.console_url, broker.records("kept"))
        broker.restart()
        assert (broker.bootstrap_servers, broker.console_url, broker.records("kept")) == before
        assert sorted(record.value or b"" for record in before[2]) == [b"one", b"two"]


def test_a_stopped_broker_keeps_its_port_from_others() -> None:
    with Broker() as broker:
        pid = broker.pid
        broker.stop()
        assert has_ended(pid)
        with pytest.raises(BrokerError, match="not running"):
            broker.throttled()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", broker.port))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", broker.port))
        broker.restart()
        assert broker.throttled() == []


def test_kill_loses_no_acknowledged_record(folders: Path) -> None:
    with Broker() as broker:
        broker.create_topic("acknowledged")
        acknowledged: list[bytes] = []
        # One record a request: the broker is killed in the middle of them.
        settings: dict[str, Any] = {"linger.ms": 0, "batch.num.messages": 1, "acks": "all"}
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, **settings})

        def on_delivery(error: object, message: Any) -> None:
            if error is None:
                acknowledged.append(message.value())

        for number in range(5_000):
            producer.produce("acknowledged", b"%d" % number, on_delivery=on_delivery)
        while len(acknowledged) < 100:
            producer.poll(1)
        broker.kill()
        producer.poll(0)
        at_kill = set(acknowledged)
        broker.restart()
        assert at_kill <= {record.value for record in broker.records("acknowledged")}
        assert producer.flush(60) == 0
        assert {record.value for record in broker.records("acknowledged")} == {
            b"%d" % number for number in range(5_000)
        }
        broker.kill()
    assert list(folders.iterdir()) == []


def kill_unseen(broker: Broker) -> None:
    os.kill(broker.pid, signal.SIGKILL)
    with pytest.raises(BrokerError, match=DIED):
        broker.throttled()


def test_a_broker_that_dies_is_named() -> None:
    with pytest.raises(BrokerError, match=DIED), Broker() as broker:
        kill_unseen(broker)


def test_the_error_of_a_block_whose_broker_died_has_a_note() -> None:
    def fails() -> None:
        with Broker() as broker:
            kill_unseen(broker)
            raise TimeoutError

    with pytest.raises(TimeoutError) as error:
        fails()
    (note,) = error.value.__notes__
    assert note.startswith(DIED)
    assert "Awaiting socket connections" in note


def test_a_stopped_process_can_be_stopped() -> None:
    with Broker() as broker:
        pid = broker.pid
        os.kill(pid, signal.SIGSTOP)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_broker_ends_with_the_tests(folders: Path) -> None:
    program = (
        "from weir.testing import Broker\nwith Broker() as broker: print(broker.pid, flush=True); input()"
    )
    environment = os.environ | {"TMPDIR": str(folders)}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as tests:
        assert tests.stdout is not None
        pid = os.pidfd_open(int(tests.stdout.readline()))
        tests.kill()
        assert len(list(folders.iterdir())) == 1
    poll = select.poll()
    poll.register(pid, select.POLLIN)
    assert poll.poll(60_000)
    os.close(pid)
    assert list(folders.iterdir()) == []


def test_two_brokers_have_nothing_in_common(broker: Broker) -> None:
    with Broker() as other:
        assert other.port != broker.port
        broker.create_topic("twice")
        other.create_topic("twice")
        produce(broker, "twice", b"here")
        assert [record.value for record in broker.records("twice")] == [b"here"]
        assert other.records("twice") == []


def test_records_are_whole(broker: Broker) -> None:
    """Also those of more than the API shows."""
    broker.create_topic("whole", 1, max_message_bytes=5_000_000)
    large = os.urandom(LARGEST_SHOWN + 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.max.bytes": 5_000_000})
    producer.produce("whole", None, b"tombstone", timestamp=1_767_225_600_000)
    producer.produce("whole", "ä".encode(), b"\xff\x00", headers=[("h", b"\xff"), ("ü", None), ("h", b"")])
    for value in (large[:-1], large):
        producer.produce("whole", value)
    assert producer.flush(60) == 0
    first, second, *rest = broker.records("whole")
    assert first == Record(0, 0, 1_767_225_600_000, b"tombstone", None, [])
    assert second[:2] == (0, 1)
    assert second[3:] == (b"\xff\x00", "ä".encode(), [("h", b"\xff"), ("ü", None), ("h", b"")])
    assert [record.value for record in rest] == [large[:-1], large]


@pytest.mark.parametrize("count", [0, 999, 1_000, 1_001])
def test_all_records_are_found(broker: Broker, count: int) -> None:
    topic = f"all-{count}"
    broker.create_topic(topic, 3)
    produce(broker, topic, *(b"%d" % number for number in range(count)))
    records = broker.records(topic)
    assert sorted(int(record.value or b"") for record in records) == list(range(count))
    assert records == sorted(records, key=lambda record: (record.partition, record.offset))


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda broker: broker.records("absent"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (lambda broker: broker.create_topic("a/b"), "INVALID_TOPIC_EXCEPTION"),
        (lambda broker: broker.create_topic("bad", retention_ms="long"), "Invalid value long"),
        (
            lambda broker: broker.set_quota(user="a", producer_byte=1),
            "Invalid configuration key producer_byte",
        ),
    ],
)
def test_a_refusal_is_explained(broker: Broker, ask: Any, reason: str) -> None:
    with pytest.raises(BrokerError, match=reason):
        ask(broker)


def test_a_deleted_topic_is_gone(broker: Broker) -> None:
    broker.create_topic("short")
    broker.delete_topic("short")
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        broker.records("short")


def test_a_throttled_client_is_seen_with_its_rule(broker: Broker) -> None:
    broker.create_topic("throttled")
    broker.set_quota(client_id="greedy", producer_byte_rate=1_000)
    produce(broker, "throttled", bytes(100_000), **{"client.id": "polite"})
    assert broker.throttled() == []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "greedy"})
    producer.produce("throttled", bytes(100_000))
    assert producer.flush(60) == 0
    while not (found := broker.throttled()):
        pass  # the response leaves before the broker mutes the connection
    (throttle,) = found
    assert (throttle.client_id, throttle.quota, throttle.rule) == (
        "greedy",
        "produce",
        {"client-id": "greedy"},
    )
    assert throttle.limit == 1_000
    assert throttle.observed is not None and throttle.observed > 1_000
    assert 0 < throttle.remaining_ms <= throttle.throttle_ms


def test_a_quota_has_an_entity(broker: Broker) -> None:
    broker.set_quota(user=DEFAULT, client_id="app", consumer_byte_rate=5, request_percentage=50)
    broker.set_quota(user=DEFAULT, client_id="app", consumer_byte_rate=None)
    broker.set_quota(ip=DEFAULT, connection_creation_rate=1_000)
    limits = {row["id"]: set(row["limits"]) for row in rest(broker, "client-quotas")}
    assert limits["user,client-id=app"] == {"request_percentage"}
    assert limits["ip"] == {"connection_creation_rate"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_async_methods_hold_up_no_task(backend: str) -> None:
    async def scenario() -> None:
        turns = 0

        async def work() -> None:
            await broker.create_topic("t")
            await broker.restart()
            await broker.set_quota(client_id="app", producer_byte_rate=1_000)
            assert await broker.throttled() == []
            assert await broker.records("t") == []
            await broker.delete_topic("t")
            await broker.kill()
            await broker.restart()
            await broker.stop()
            group.cancel_scope.cancel()

        async with Broker() as broker:
            assert isinstance(broker, AsyncBroker)
            assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
            async with anyio.create_task_group() as group:
                group.start_soon(work)
                while True:
                    await anyio.sleep(0.001)
                    turns += 1
        # Each of the nine calls would be one turn.
        assert turns > 100

    anyio.run(scenario, backend=backend)


class Announcing:
    """A setting's value that is read when the start begins, in a worker thread."""

    def __init__(self, begun: anyio.Event) -> None:
        self._begun = begun

    def __str__(self) -> str:
        anyio.from_thread.run_sync(self._begun.set)
        return "1"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cancelled_block_leaves_nothing_behind(folders: Path, backend: str) -> None:
    async def scenario() -> None:
        with anyio.CancelScope() as scope:
            async with Broker() as broker:
                pid = broker.pid
                scope.cancel()
                await anyio.sleep_forever()
        assert has_ended(pid)

    anyio.run(scenario, backend=backend)
    assert list(folders.iterdir()) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_start_that_is_cancelled_leaves_nothing_behind(folders: Path, backend: str) -> None:
    async def scenario() -> None:
        begun = anyio.Event()

        async def start() -> None:
            async with Broker(num_partitions=Announcing(begun)):
                await anyio.sleep_forever()

        async with anyio.create_task_group() as group:
            group.start_soon(start)
            await begun.wait()
            group.cancel_scope.cancel()

    anyio.run(scenario, backend=backend)
    assert list(folders.iterdir()) == []


def test_a_start_in_a_cancelled_task_of_asyncio_leaves_nothing_behind(folders: Path) -> None:
    async def scenario() -> None:
        begun = anyio.Event()

        async def start() -> None:
            async with Broker(num_partitions=Announcing(begun)):
                await asyncio.sleep(60)

        task = asyncio.create_task(start())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert list(folders.iterdir()) == []


def test_kafka_python(broker: Broker) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    producer.send("kafka-python", b"value", b"key").get(60)
    producer.close()
    consumer = kafka.KafkaConsumer(
        "kafka-python", bootstrap_servers=broker.bootstrap_servers, group_id="p", auto_offset_reset="earliest"
    )
    assert next(consumer).value == b"value"
    consumer.close()
    assert [(record.key, record.value) for record in broker.records("kafka-python")] == [(b"key", b"value")]


def test_confluent_kafka(broker: Broker) -> None:
    produce(broker, "confluent", b"value")
    servers = broker.bootstrap_servers
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "c", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    (message,) = consumer.consume(1, 60)
    assert message.value() == b"value"
    consumer.close()
    assert [record.value for record in broker.records("confluent")] == [b"value"]


def test_aiokafka() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            servers = broker.bootstrap_servers
            await broker.create_topic("aio")
            async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers) as producer:
                await producer.send_and_wait("aio", b"value")
            async with aiokafka.AIOKafkaConsumer(
                "aio", bootstrap_servers=servers, group_id="a", auto_offset_reset="earliest"
            ) as consumer:
                assert (await consumer.getone()).value == b"value"
            assert [record.value for record in await broker.records("aio")] == [b"value"]

    asyncio.run(asyncio.wait_for(scenario(), 60))
