"""aiokafka, unmodified: topics, every compression and acks, idempotence, consumer groups through rebalances
and crashes, logins.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from tests.support.broker_process import USERS, BrokerProcess

pytestmark = pytest.mark.endtoend

TIMEOUT = 15


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data"), "group.initial.rebalance.delay.ms=200") as process:
        yield process


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """On an asyncio loop of the test's own."""
    asyncio.run(asyncio.wait_for(scenario, 4 * TIMEOUT))


async def within(seconds: float, look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.02)


async def administered(broker: BrokerProcess, work: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.plain)
    await admin.start()
    try:
        return await work(admin)
    finally:
        await admin.close()


async def create(broker: BrokerProcess, name: str, partitions: int = 1) -> None:
    response = await administered(broker, lambda admin: admin.create_topics([NewTopic(name, partitions, 1)]))
    assert [error for _, error, *_ in response.topic_errors] == [0], response


async def produce(broker: BrokerProcess, topic: str, values: Sequence[bytes], **settings: Any) -> list[int]:
    """The offsets that the broker acknowledged; none with acks=0."""
    producer = AIOKafkaProducer(bootstrap_servers=broker.plain, linger_ms=5, **settings)
    await producer.start()
    try:
        futures = [await producer.send(topic, value) for value in values]
        acknowledged = await asyncio.gather(*futures)
    finally:
        await producer.stop()
    return [each.offset for each in acknowledged if each is not None]


def consumer(broker: BrokerProcess, group: str | None, *topics: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        *topics,
        bootstrap_servers=broker.plain,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
        metadata_max_age_ms=1_000,
    )


async def read(source: AIOKafkaConsumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    deadline = time.monotonic() + TIMEOUT
    while len(values) < count and time.monotonic() < deadline:
        found = await source.getmany(timeout_ms=200, max_records=count - len(values))
        values += [record.value for records in found.values() for record in records]
    return values


def test_topics_are_made_described_changed_and_deleted(broker: BrokerProcess) -> None:
    async def scenario(admin: AIOKafkaAdminClient) -> None:
        made = await admin.create_topics([NewTopic("life", 2, 1)])
        again = await admin.create_topics([NewTopic("life", 2, 1)])
        assert [each.topic_errors[0][1] for each in (made, again)] == [0, 36]
        await admin.create_partitions({"life": NewPartitions(3)})
        (topic,) = await admin.describe_topics(["life"])
        assert (topic["error_code"], len(topic["partitions"])) == (0, 3)
        await admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, "life", {"retention.ms": "5000"})]
        )
        (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "life")])
        values = {config[0]: config[1] for config in response.resources[0][4]}
        assert (values["retention.ms"], values["cleanup.policy"]) == ("5000", "delete")
        await admin.delete_topics(["life"])
        assert "life" not in await admin.list_topics()
        cluster = await admin.describe_cluster()
        assert [node["node_id"] for node in cluster["brokers"]] == [1]

    run(administered(broker, scenario))


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_sent(
    broker: BrokerProcess, codec: str | None, acks: int | str
) -> None:
    topic = f"{codec}-{acks}"
    values = [f"{number} ".encode() * 50 for number in range(300)]

    async def scenario() -> None:
        await create(broker, topic)
        offsets = await produce(broker, topic, values, compression_type=codec, acks=acks)
        assert offsets == ([] if acks == 0 else list(range(300)))
        reader = consumer(broker, None)
        await reader.start()
        reader.assign([TopicPartition(topic, 0)])
        assert await read(reader, 300) == values
        await reader.stop()

    run(scenario())


def test_an_idempotent_producer_is_taken(broker: BrokerProcess) -> None:
    async def scenario() -> None:
        await create(broker, "idempotent")
        values = [str(number).encode() for number in range(2_000)]
        settings: dict[str, Any] = {"enable_idempotence": True, "max_batch_size": 2_000}
        assert await produce(broker, "idempotent", values, **settings) == list(range(2_000))
        assert await produce(broker, "idempotent", [b"another"], **settings) == [2_000]

    run(scenario())


def test_offsets_are_found_by_time(broker: BrokerProcess) -> None:
    async def scenario() -> None:
        await create(broker, "timed")
        now = int(time.time() * 1000)
        producer = AIOKafkaProducer(bootstrap_servers=broker.plain)
        await producer.start()
        for age in (3_000, 2_000, 1_000):
            await producer.send_and_wait("timed", b"x", timestamp_ms=now - age)
        await producer.stop()
        partition = TopicPartition("timed", 0)
        reader = consumer(broker, None)
        await reader.start()
        found = [(await reader.offsets_for_times({partition: now - age}))[partition] for age in (2_500, 500)]
        assert [each and each.offset for each in found] == [1, None]
        assert await reader.end_offsets([partition]) == {partition: 3}
        await reader.stop()

    run(scenario())


def test_members_share_the_partitions_and_take_over_from_each_other(broker: BrokerProcess) -> None:
    members: list[AIOKafkaConsumer] = []

    def shares() -> list[int]:
        return [len(each.assignment()) for each in members]

    async def scenario() -> None:
        await create(broker, "shared", 6)
        for count in (1, 2, 3):
            members.append(consumer(broker, "sharing", "shared"))
            await members[-1].start()
            await within(TIMEOUT, lambda: shares() == [6 // len(members)] * len(members), f"{count} share")
        (described,) = await administered(broker, lambda admin: admin.describe_consumer_groups(["sharing"]))
        _, _, state, _, protocol, joined, *_ = described.groups[0]
        assert (state, protocol, len(joined)) == ("Stable", "roundrobin", 3)
        await members.pop().stop()
        await within(TIMEOUT, lambda: shares() == [3, 3], "who leaves is replaced")
        for each in members:
            await each.stop()
        groups = await administered(broker, lambda admin: admin.list_consumer_groups())
        assert ("sharing", "consumer") in groups

    run(scenario())


def test_a_user_logs_in_and_a_stranger_does_not(broker: BrokerProcess) -> None:
    async def login(user: str, password: str) -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.sasl,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username=user,
            sasl_plain_password=password,
        )
        try:
            await producer.start()
            return int((await producer.send_and_wait("of-users", b"x")).offset)
        finally:
            await producer.stop()

    async def scenario() -> None:
        assert await login("bob", USERS["bob"]) == 0
        for user, password in (("bob", "wrong"), ("nobody", USERS["bob"])):
            with pytest.raises(KafkaError):
                await login(user, password)

    run(scenario())


def test_records_offsets_and_members_survive_a_crash(tmp_path: Path) -> None:
    async def scenario() -> None:
        await create(broker, "kept", 2)
        await produce(broker, "kept", [b"%d" % number for number in range(1_000)], compression_type="gzip")
        reader = consumer(broker, "keepers", "kept")
        await reader.start()
        first = await read(reader, 400)
        await reader.commit()
        broker.kill()
        broker.start()
        rest = await read(reader, 600)
        assert sorted(map(int, first + rest)) == list(range(1_000))
        await reader.commit()
        await reader.stop()
        broker.kill()
        broker.start()
        another = consumer(broker, "keepers", "kept")
        await another.start()
        await produce(broker, "kept", [b"1000"])
        assert await read(another, 1) == [b"1000"]
        await another.stop()

    with BrokerProcess(tmp_path, "group.initial.rebalance.delay.ms=200") as broker:
        run(scenario())
