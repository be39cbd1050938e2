"""Valid frames that cannot be served: Kafka's error code, and an unchanged log."""

import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio
from crc32c import crc32c

from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.heartbeat import HeartbeatRequest
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.produce import ProduceRequest
from broker.records.build import NewRecord, build_batch
from broker.records.header import CRC_AT, MAGIC_AT
from tests.support.hostile import is_closed_soon, is_served, log_texts
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

LARGEST = 10_000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, f"message.max.bytes={LARGEST}") as running:
        yield running


@pytest.fixture
async def client(broker: RunningBroker) -> WireClient:
    client = await broker.connect()
    assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
    return client


async def produced(client: WireClient, request: ProduceRequest) -> tuple[int, int]:
    """(error code, base offset)"""
    answer = await client.ask(request, 9)
    ((partition,),) = [topic.partition_responses for topic in answer.responses]
    return partition.error_code, partition.base_offset


def end_of(broker: RunningBroker) -> int:
    log = broker.server.partitions.log("events", 0)
    assert log is not None
    return log.high_watermark


def changed(at: int, value: int) -> Callable[[], bytearray]:
    def make() -> bytearray:
        batch = batch_of(b"one", b"two")
        batch[at] = value
        return batch

    return make


def batch_of_size(size: int) -> bytearray:
    batch = batch_of(bytes(size - 100))
    return batch_of(bytes(2 * size - 100 - len(batch)))


def with_count(count: int) -> bytearray:
    batch = batch_of(b"one", b"two")
    struct.pack_into(">i", batch, 57, count)
    return signed(batch)


def with_attributes(attributes: int) -> bytearray:
    batch = batch_of(b"one", b"two")
    struct.pack_into(">h", batch, 21, attributes)
    return signed(batch)


def signed(batch: bytearray) -> bytearray:
    struct.pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[21:])))
    return batch


BAD_BATCHES: dict[str, tuple[Callable[[], bytes | bytearray], int]] = {
    "a wrong checksum": (changed(CRC_AT, 0x55), 2),
    "a byte that was flipped on the way": (changed(70, 0xFF), 2),
    "the format before": (changed(MAGIC_AT, 1), 87),
    "the first format": (changed(MAGIC_AT, 0), 87),
    "a format to come": (changed(MAGIC_AT, 3), 2),
    "a length below zero": (changed(8, 0xFF), 2),
    "nothing": (lambda: b"", 87),
    "less than a header": (lambda: batch_of(b"one")[:60], 87),
    "a batch cut off": (lambda: batch_of(b"one")[:-1], 87),
    "two batches": (lambda: batch_of(b"one") + batch_of(b"two"), 87),
    "more records than offsets": (lambda: with_count(3), 87),
    "no records": (lambda: with_count(0), 87),
    "fewer than none": (lambda: with_count(-1), 87),
    "an unknown codec": (lambda: with_attributes(5), 87),
    "a control record": (lambda: with_attributes(0x20), 87),
    "a batch of 10,001 bytes": (lambda: batch_of_size(LARGEST + 1), 10),
}


@pytest.mark.parametrize(("make", "code"), BAD_BATCHES.values(), ids=BAD_BATCHES)
async def test_a_batch_that_is_refused_leaves_the_log_as_it_was(
    broker: RunningBroker, client: WireClient, make: Callable[[], bytes | bytearray], code: int
) -> None:
    assert await produced(client, produce_request(make())) == (code, -1)
    assert end_of(broker) == 0
    assert await produced(client, produce_request(batch_of(b"good"))) == (0, 0)


@pytest.mark.parametrize("size", [LARGEST - 1, LARGEST])
async def test_a_batch_up_to_the_limit_is_taken(client: WireClient, size: int) -> None:
    batch = batch_of_size(size)
    assert len(batch) == size
    assert await produced(client, produce_request(batch)) == (0, 0)


@pytest.mark.parametrize(
    ("topic", "partition", "acks", "code"),
    [
        ("nowhere", 0, 1, 3),
        ("events", 1, 1, 3),
        ("events", -1, 1, 3),
        ("events", 2**31 - 1, 1, 3),
        ("../../etc", 0, 1, 3),
        ("", 0, 1, 3),
        ("events", 0, 2, 21),
        ("events", 0, -2, 21),
    ],
)
async def test_a_place_that_is_none_has_its_code(
    broker: RunningBroker, client: WireClient, topic: str, partition: int, acks: int, code: int
) -> None:
    request = produce_request(batch_of(b"lost"), topic, partition, acks)
    assert await produced(client, request) == (code, -1)
    assert end_of(broker) == 0


async def test_an_error_without_an_answer_ends_the_connection_with_one_line(
    broker: RunningBroker, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    silent = await broker.connect()
    await silent.send(produce_request(batch_of(b"good"), acks=0), 9)
    await silent.send(produce_request(batch_of(b"lost"), "nowhere", acks=0), 9)
    assert await is_closed_soon(silent)
    assert log_texts(caplog) == ["acks=0 and UNKNOWN_TOPIC_OR_PARTITION"]
    assert end_of(broker) == 1
    assert await is_served(client)


async def test_sequences_are_taken_once_and_in_order(broker: RunningBroker, client: WireClient) -> None:
    producer_id = (await client.ask(InitProducerIdRequest(None, 0), 4)).producer_id

    def numbered(sequence: int, epoch: int = 0) -> ProduceRequest:
        records = [NewRecord(None, b"%d" % sequence, 1_000)] * 2
        batch = build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        return produce_request(bytearray(batch))

    assert await produced(client, numbered(0)) == (0, 0)
    assert await produced(client, numbered(2)) == (0, 2)
    assert await produced(client, numbered(2)) == (0, 2)  # the same again: its own offset again
    assert await produced(client, numbered(0)) == (0, 0)
    assert await produced(client, numbered(6)) == (45, -1)
    assert await produced(client, numbered(3)) == (45, -1)
    assert await produced(client, numbered(4, epoch=1)) == (45, -1)
    assert await produced(client, numbered(0, epoch=1)) == (0, 4)
    assert await produced(client, numbered(2, epoch=0)) == (47, -1)
    assert end_of(broker) == 6


async def test_good_and_bad_partitions_of_one_request_are_distinguished(
    broker: RunningBroker, client: WireClient
) -> None:
    request = produce_request(batch_of(b"good"))
    for records, partition in (
        (changed(CRC_AT, 0)(), 0),
        (batch_of(b"lost"), 7),
        (batch_of(b"also good"), 0),
    ):
        request.topic_data += produce_request(records, partition=partition).topic_data
    answer = await client.ask(request, 9)
    reported = [topic.partition_responses[0] for topic in answer.responses]
    assert [(each.error_code, each.base_offset) for each in reported] == [(0, 0), (2, -1), (3, -1), (0, 1)]
    assert end_of(broker) == 2


def fetch(offset: int = 0, topic: str = "events", partition: int = 0, **fields: int) -> FetchRequest:
    fetched = FetchPartition(
        partition, fields.pop("epoch", -1), offset, partition_max_bytes=fields.pop("most", 1_000)
    )
    return FetchRequest(
        topics=[FetchTopic(topic, partitions=[fetched])],
        **({"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1_000} | fields),
    )


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (fetch(2), 1),
        (fetch(-1), 1),
        (fetch(-(2**63)), 1),
        (fetch(2**63 - 1), 1),
        (fetch(topic="nowhere"), 3),
        (fetch(topic="../events"), 3),
        (fetch(partition=1), 3),
        (fetch(partition=-1), 3),
        (fetch(epoch=7), 75),
    ],
)
async def test_a_fetch_from_nowhere_is_answered_at_once(
    client: WireClient, request_: FetchRequest, code: int
) -> None:
    await client.ask(produce_request(batch_of(b"one")), 9)
    request_.max_wait_ms = 3_600_000
    with trio.fail_after(WITHIN_S):
        answer = await client.ask(request_, 11)
    assert answer.responses[0].partitions[0].error_code == code


@pytest.mark.parametrize(
    "limits",
    [{"most": -1}, {"most": 0}, {"max_bytes": 0}, {"max_bytes": -5}, {"min_bytes": -1}, {"max_wait_ms": -1}],
)
async def test_limits_below_reason_still_give_the_first_batch(
    client: WireClient, limits: dict[str, int]
) -> None:
    batch = batch_of(b"one")
    await client.ask(produce_request(batch), 9)
    answer = await client.ask(fetch(**limits), 11)
    assert len(answer.responses[0].partitions[0].records) == len(batch)


@pytest.mark.parametrize(
    ("session_id", "epoch", "code"), [(4_711, 1, 70), (-1, 1, 70), (0, 1, 70), (4_711, -7, 70)]
)
async def test_a_fetch_session_that_never_was_is_reported(
    client: WireClient, session_id: int, epoch: int, code: int
) -> None:
    request = fetch()
    request.session_id, request.session_epoch = session_id, epoch
    answer = await client.ask(request, 11)
    assert (answer.error_code, answer.responses) == (code, [])


async def test_an_epoch_that_is_not_next_is_reported_and_the_session_goes_on(client: WireClient) -> None:
    request = fetch()
    request.session_epoch = 0
    opened = await client.ask(request, 11)
    assert opened.session_id != 0
    for epoch, code in ((2, 71), (1, 0), (1, 71), (2, 0)):
        again = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1_000,
            session_id=opened.session_id,
            session_epoch=epoch,
            topics=[],
        )
        assert (await client.ask(again, 11)).error_code == code


@pytest.mark.parametrize("name", ["", ".", "..", "../events", "a/b", "a b", "a\nb", "ü", "\0", "x" * 250])
async def test_a_name_that_could_be_a_path_is_never_a_topic(
    broker: RunningBroker, client: WireClient, name: str
) -> None:
    answer = await client.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1)], 1_000), 5)
    assert answer.topics[0].error_code == 17
    assert set(broker.server.control.image.topics) == {"events"}


@pytest.mark.parametrize(
    ("count", "code"), [(0, 37), (-2, 37), (-(2**31), 37), (10_001, 44), (2**31 - 1, 44)]
)
async def test_a_number_of_partitions_beyond_reason_is_refused(
    client: WireClient, count: int, code: int
) -> None:
    answer = await client.ask(CreateTopicsRequest([CreatableTopic("more", count, 1)], 1_000), 5)
    assert answer.topics[0].error_code == code


async def test_members_and_generations_that_never_were_have_their_codes(client: WireClient) -> None:
    await client.ask(create_topic("__consumer_offsets"), 5)
    assert (await client.ask(HeartbeatRequest("nobody", 1, "me"), 4)).error_code == 25
    protocols = [JoinGroupRequestProtocol("range", b"")]
    join = JoinGroupRequest("", 10_000, 10_000, "", None, "consumer", protocols)
    assert (await client.ask(join, 5)).error_code == 24
    join.group_id, join.member_id = "group", "never-seen"
    assert (await client.ask(join, 5)).error_code == 25
    join.member_id, join.session_timeout_ms = "", 1
    assert (await client.ask(join, 5)).error_code == 26


@pytest.mark.parametrize("version", [10, 11])
async def test_metadata_by_id_before_it_had_a_meaning_is_an_invalid_request(
    broker: RunningBroker, client: WireClient, version: int
) -> None:
    topic_id = broker.server.control.image.topics["events"].topic_id
    for topic in (MetadataRequestTopic(topic_id, None), MetadataRequestTopic(topic_id, "events")):
        answer = await client.ask(MetadataRequest([topic]), version)
        assert [(each.error_code, each.name) for each in answer.topics] == [(42, topic.name or "")]
    answer = await client.ask(MetadataRequest([MetadataRequestTopic(topic_id, None)]), 12)
    assert [(each.error_code, each.name) for each in answer.topics] == [(0, "events")]
