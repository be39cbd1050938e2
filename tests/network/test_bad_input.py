"""Invalid bytes: the connection closes within a second with one log line, and the others continue."""

import logging
import random
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.common.limited_lines import WINDOW_MS
from broker.network.selector import WARNINGS_OF_CLIENT
from broker.protocol import codec
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.metadata import MetadataRequest
from tests.support.hostile import (
    LIMIT,
    NO_REQUESTS,
    compact_array,
    framed,
    is_closed_soon,
    is_served,
    log_texts,
    request,
)
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient


@pytest.fixture(autouse=True)
def _operators_eyes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, f"socket.request.max.bytes={LIMIT}") as running:
        yield running


@pytest.fixture
async def polite(broker: RunningBroker) -> WireClient:
    client = await broker.connect("polite")
    assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
    return client


CLOSED = {
    **NO_REQUESTS,
    "an unknown API": (request(9_999, 0), "API key 9999 version 0 is not served"),
    "an API key below zero": (request(-1, 0), "API key 65535 version 0 is not served"),
    "an API of brokers among themselves": (request(4, 0), "API key 4 version 0 is not served"),
    "a version above the range": (request(3, 14, flexible=True), "API key 3 version 14 is not served"),
    "a version below the range": (request(0, 2), "API key 0 version 2 is not served"),
    "a version below zero": (request(18, -1), "API key 18 version 65535 is not served"),
    "a client id that lies": (
        framed(struct.pack(">hhih", 18, 0, 1, 500) + b"short"),
        "invalid client id: 500 bytes in a frame of 15",
    ),
    "a client id that is no text": (
        framed(struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe"),
        "invalid client id: expected UTF-8",
    ),
    "a header without its tags": (
        framed(struct.pack(">hhih", 3, 9, 1, 0)),
        "truncated request header",
    ),
}


@pytest.mark.parametrize(("sent", "reason"), CLOSED.values(), ids=CLOSED)
async def test_the_connection_ends_with_one_line(
    broker: RunningBroker, polite: WireClient, caplog: pytest.LogCaptureFixture, sent: bytes, reason: str
) -> None:
    hostile = await broker.connect()
    await hostile.stream.send_all(sent)
    assert await is_closed_soon(hostile)
    assert log_texts(caplog) == [reason]
    assert await is_served(polite)


IMPOSSIBLE_BODIES = {
    "an array longer than the frame": request(3, 1, struct.pack(">i", 2**31 - 1)),
    "an array of fewer than none": request(3, 0, struct.pack(">i", -5)),
    "a compact array longer than the frame": request(3, 9, compact_array(2**31), flexible=True),
    "a varint without an end": request(3, 9, b"\xff" * 20, flexible=True),
    "header tags longer than the frame": request(3, 9, b"\x05\x01"),
    "tags longer than the frame": request(
        3, 9, b"\x01\x00\x00\x00\x01\x00" + b"\xff\xff\xff\xff\x07", flexible=True
    ),
    "a topic longer than the frame": request(3, 1, struct.pack(">ih", 1, 30_000) + b"events"),
    "a body cut off": request(3, 1, struct.pack(">ih", 2, 6) + b"events"),
    "no body at all": request(2, 1),
    "a topic that is no text": request(3, 1, struct.pack(">ih", 1, 2) + b"\xff\xfe"),
}


@pytest.mark.parametrize("sent", IMPOSSIBLE_BODIES.values(), ids=IMPOSSIBLE_BODIES)
async def test_a_body_that_cannot_be_read_ends_the_connection_with_one_line(
    broker: RunningBroker, polite: WireClient, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    hostile = await broker.connect()
    await hostile.stream.send_all(sent)
    assert await is_closed_soon(hostile)
    assert len(log_texts(caplog)) == 1
    assert await is_served(polite)


@pytest.mark.parametrize("version", [6, 99, 0x7FFF])
async def test_an_unknown_version_of_api_versions_is_answered_in_format_0_with_the_range(
    broker: RunningBroker, version: int
) -> None:
    client = await broker.connect()
    await client.stream.send_all(request(18, version, b"whatever such a version may hold"))
    correlation_id, answer = await client.receive(18, 0)
    assert correlation_id == 1
    assert answer.error_code == 35
    assert [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys] == [(18, 0, 5)]
    assert (await client.ask(ApiVersionsRequest("tester", "1"), 4)).error_code == 0


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("tester", ""), ("-tester", "1"), ("a b", "1"), ("x", "1\n")]
)
async def test_a_software_name_that_is_none_is_refused(
    broker: RunningBroker, name: str, version: str
) -> None:
    client = await broker.connect()
    assert (await client.ask(ApiVersionsRequest(name, version), 3)).error_code == 42
    assert await is_served(client)


@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT])
async def test_a_frame_up_to_the_limit_is_served(broker: RunningBroker, size: int) -> None:
    client = await broker.connect()
    body = struct.pack(">hhih", 18, 99, 7, 0)
    await client.stream.send_all(framed(body + bytes(size - len(body))))
    correlation_id, answer = await client.receive(18, 0)
    assert (correlation_id, answer.error_code) == (7, 35)


async def test_a_request_that_comes_byte_by_byte_is_served(broker: RunningBroker) -> None:
    client = await broker.connect()
    for byte in request(3, 1, struct.pack(">i", 0)) * 2:
        await client.stream.send_all(bytes([byte]))
        await trio.testing.wait_all_tasks_blocked()
    for _ in range(2):
        _, answer = await client.receive(3, 1)
        assert len(answer.brokers) == 1


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 20])
async def test_half_a_frame_and_then_the_end_is_no_news(
    broker: RunningBroker, polite: WireClient, caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    hostile = await broker.connect()
    await hostile.stream.send_all(request(3, 1, struct.pack(">i", 0))[:cut])
    await hostile.stream.send_eof()
    assert await is_closed_soon(hostile)
    assert log_texts(caplog) == []
    assert await is_served(polite)


async def test_flipped_bits_end_the_own_connection_at_most(
    broker: RunningBroker, polite: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests as clients send them, each with one to four flipped bits."""
    rng = random.Random(26)
    parts = [
        codec.encode_request(message.API_KEY, version)(message, 1, "fuzz")
        for message, version in (
            (MetadataRequest([]), 9),
            (ApiVersionsRequest("fuzz", "1"), 3),
            (create_topic("other"), 5),
            (produce_request(bytes(100)), 9),
        )
    ]
    golden = [b"".join(map(bytes, each)) for each in parts]
    for _ in range(200):
        flipped = bytearray(rng.choice(golden))
        for _ in range(rng.randint(1, 4)):
            flipped[rng.randrange(4, len(flipped))] ^= 1 << rng.randrange(8)
        hostile = await broker.connect()
        await hostile.stream.send_all(bytes(flipped))
        await hostile.stream.send_eof()
        broker.clients.remove(hostile)
        with trio.fail_after(WITHIN_S):
            while not await hostile.is_closed():
                pass
        await hostile.stream.aclose()
    assert len(log_texts(caplog)) <= 200
    assert await is_served(polite)
    assert len(list(broker.server.socket_server.channels())) == 1


@pytest.mark.parametrize(
    "frames", [WARNINGS_OF_CLIENT - 1, WARNINGS_OF_CLIENT, WARNINGS_OF_CLIENT + 1, WARNINGS_OF_CLIENT + 7]
)
async def test_an_address_gets_so_many_lines_a_minute(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, frames: int
) -> None:
    async def send(broker: RunningBroker) -> None:
        client = await broker.connect("hostile")
        await client.stream.send_all(request(9_999, 0))
        assert await client.is_closed()

    async with running_broker(tmp_path, "num.network.threads=1") as broker:
        caplog.clear()
        for _ in range(frames):
            await send(broker)
        assert len(log_texts(caplog)) == min(frames, WARNINGS_OF_CLIENT)
        mock_clock.jump(WINDOW_MS / 1_000)
        caplog.clear()
        await send(broker)
        (line,) = caplog.records
        assert getattr(line, "left_out", 0) == max(frames - WARNINGS_OF_CLIENT, 0)
