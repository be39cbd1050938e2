"""The real clients in AutoMQ's mode: many requests in flight on one connection, logins, idempotence, groups.

What each client can do is tried beside this, in Kafka's mode; here is what the mode could break.
"""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.endtoend import test_clients_aiokafka as aio
from tests.endtoend import test_clients_confluent as librdkafka
from tests.endtoend import test_clients_kafka_python as kafka_python
from tests.support.broker_process import USERS, BrokerProcess

pytestmark = pytest.mark.endtoend

SETTINGS = (
    "socket.server.mode=automq",
    "pipeline.high.watermark=4",
    "pipeline.low.watermark=2",
    "group.initial.rebalance.delay.ms=200",
)
VALUES = [b"%d " % number * 20 for number in range(3_000)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data"), *SETTINGS) as process:
        yield process
        assert not [line for line in process.log_lines if '"ERROR"' in line]


@pytest.mark.parametrize("in_flight", [1, 5])
def test_librdkafka_writes_idempotently_in_order_and_a_group_reads_it(
    broker: BrokerProcess, in_flight: int
) -> None:
    topic = f"librdkafka-{in_flight}"
    librdkafka.create(AdminClient({"bootstrap.servers": broker.plain}), topic)
    offsets = librdkafka.produce(
        broker,
        topic,
        VALUES,
        **{"enable.idempotence": True, "max.in.flight": in_flight, "batch.num.messages": 20, "linger.ms": 0},
    )
    assert offsets == list(range(len(VALUES)))
    reader = librdkafka.consumer(broker, topic, topic)
    assert librdkafka.read(reader, len(VALUES)) == VALUES
    reader.commit(asynchronous=False)
    reader.close()


def test_librdkafka_logs_in(broker: BrokerProcess) -> None:
    login = {
        "bootstrap.servers": broker.sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": USERS["alice"],
    }
    librdkafka.create(AdminClient({"bootstrap.servers": broker.plain}), "login")
    producer = Producer(login)
    for value in VALUES[:100]:
        producer.produce("login", value)
    assert producer.flush(10) == 0
    reader = Consumer({**login, "group.id": "login", "auto.offset.reset": "earliest"})
    reader.subscribe(["login"])
    assert librdkafka.read(reader, 100) == VALUES[:100]
    reader.close()


def test_kafka_python_writes_with_five_in_flight_and_a_group_shares_it(broker: BrokerProcess) -> None:
    admin = kafka_python.KafkaAdminClient(bootstrap_servers=broker.plain)
    kafka_python.create(admin, "kafka-python", 2)
    admin.close()
    settings = {"enable_idempotence": True, "max_in_flight_requests_per_connection": 5, "batch_size": 2_000}
    kafka_python.produce(broker, "kafka-python", VALUES, **settings)
    found: list[bytes] = []

    def member() -> None:
        reader = kafka_python.consumer(broker, "shared", "kafka-python")
        deadline = time.monotonic() + 20
        while len(found) < len(VALUES) and time.monotonic() < deadline:
            for records in reader.poll(200).values():
                found.extend(record.value for record in records)
                reader.commit()
        reader.close()

    members = [threading.Thread(target=member) for _ in range(2)]
    for each in members:
        each.start()
    for each in members:
        each.join()
    assert sorted(set(found)) == sorted(VALUES)


def test_aiokafka_writes_and_a_group_reads_it(broker: BrokerProcess) -> None:
    async def scenario() -> None:
        await aio.create(broker, "aiokafka")
        offsets = await aio.produce(broker, "aiokafka", VALUES, enable_idempotence=True, max_batch_size=2_000)
        assert offsets == list(range(len(VALUES)))
        reader = aio.consumer(broker, "aio", "aiokafka")
        await reader.start()
        assert await aio.read(reader, len(VALUES)) == VALUES
        await reader.commit()
        await reader.stop()

    aio.run(asyncio.wait_for(scenario(), 60))
