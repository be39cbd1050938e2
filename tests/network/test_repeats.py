"""Requests that are known by heart are answered as the full handlers would, whatever else the broker knows.

Produce and Fetch find a known request by its bytes around what differs. These requests are made to be taken
for another one.
"""

import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from broker.protocol import codec
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.hostile import framed, is_closed_soon, is_served
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

FETCH_VERSION = 12


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        yield running


@pytest.fixture
async def client(broker: RunningBroker) -> WireClient:
    client = await broker.connect()
    for topic in ("a", "aa"):
        assert (await client.ask(create_topic(topic), 5)).topics[0].error_code == 0
        await client.ask(produce_request(batch_of(*(b"%d" % n for n in range(300))), topic), 9)
        await client.ask(produce_request(batch_of(*(b"%d" % n for n in range(300))), topic), 9)
    return client


def fetch(topic: str, offset: int, epoch: int = 0) -> FetchRequest:
    partition = FetchPartition(0, epoch, offset, partition_max_bytes=1_000_000)
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1_000_000, topics=[FetchTopic(topic, partitions=[partition])]
    )


async def first_offset(client: WireClient, topic: str, offset: int) -> int:
    """The base offset of the first batch of an answer."""
    answer = await client.ask(fetch(topic, offset), FETCH_VERSION)
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == 0
    (base_offset,) = struct.unpack_from(">q", partition.records)
    return int(base_offset)


async def test_a_connection_that_fetches_two_topics_in_turn_gets_each_from_its_offset(
    client: WireClient,
) -> None:
    """Names of one and two letters put the offset one byte apart, where 512 may be read as 2."""
    for offset in (300, 512, 256, 0):
        for topic in ("aa", "a", "aa", "aa", "a", "a"):
            expected = 300 if offset >= 300 else 0
            assert await first_offset(client, topic, offset) == expected


def encoded(message: object, version: int) -> bytes:
    parts = codec.encode_request(message.API_KEY, version)(message, 1, "tester")  # type: ignore[attr-defined]
    return b"".join(map(bytes, parts))[4:]


@pytest.mark.parametrize("version", [8, 9])
async def test_a_beginning_that_ends_the_frame_is_told_from_the_known_one(
    broker: RunningBroker, client: WireClient, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    """Another connection's known beginning, shorter than the one this connection is known for."""
    long = await broker.connect()
    await long.ask(create_topic("a-topic-with-a-long-name"), 5)
    await long.ask(produce_request(batch_of(b"x"), "a-topic-with-a-long-name"), version)
    await client.ask(produce_request(batch_of(b"x"), "a"), version)
    whole = encoded(produce_request(batch_of(b"x"), "a"), version)
    for behind in (0, 1, 2, 3, 4):
        beginning = whole[: whole.index(b"a", 20) + 1 + (5 if version >= 9 else 8) + behind]
        await long.stream.send_all(framed(beginning))
        assert await is_closed_soon(long)
        long = await broker.connect()
        await long.ask(produce_request(batch_of(b"x"), "a-topic-with-a-long-name"), version)
    assert not [each for each in caplog.records if each.exc_info]
    assert await is_served(client)


@pytest.mark.parametrize("length", [b"\xff" * 5, b"\x80" * 40, b"\x00", b"\xff\xff\xff\xff\x07", b"\x7f"])
async def test_a_length_of_records_that_lies_ends_the_connection(
    broker: RunningBroker, client: WireClient, caplog: pytest.LogCaptureFixture, length: bytes
) -> None:
    hostile = await broker.connect()
    await hostile.ask(produce_request(batch_of(b"x"), "a"), 9)
    await hostile.ask(produce_request(batch_of(b"x"), "a"), 9)
    whole = encoded(produce_request(batch_of(b"x"), "a"), 9)
    records = whole.index(bytes(batch_of(b"x")))
    await hostile.stream.send_all(framed(whole[: records - 1] + length + whole[records:]))
    with trio.fail_after(1):
        if length == b"\x00":  # null records are a thing that can be said
            _, answer = await hostile.receive(0, 9)
            assert answer.responses[0].partition_responses[0].error_code == 87
        else:
            assert await hostile.is_closed()
    assert not [each for each in caplog.records if each.exc_info]
    assert await is_served(client)


async def test_a_fetch_full_of_zeros_is_not_searched_for_its_offset(
    broker: RunningBroker, client: WireClient
) -> None:
    """Offset 0 is eight bytes that stand everywhere in such a request."""
    hostile = await broker.connect()
    body = encoded(fetch("a", 0), FETCH_VERSION)[:-1]
    tag = b"\x01\x63" + b"\xc0\x84\x3d" + bytes(1_000_000)
    await hostile.stream.send_all(framed(body + tag))
    with trio.fail_after(1):
        _, answer = await hostile.receive(1, FETCH_VERSION)
    assert answer.responses[0].partitions[0].error_code == 0
    assert await is_served(client)


async def test_bytes_behind_a_produce_are_never_taken_for_records(client: WireClient) -> None:
    """They are passed over, as Kafka does."""
    for tail in (b"\0", b"\0\0\0", b"\0" * 9):
        for _ in range(2):
            whole = encoded(produce_request(batch_of(b"x"), "a"), 9)
            await client.stream.send_all(framed(whole + tail))
            _, answer = await client.receive(0, 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
