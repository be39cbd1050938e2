"""Requests of more than LARGE bytes and their responses are decoded and encoded in slices."""

from pathlib import Path
from typing import Any

import pytest
import trio

from broker.common import slices as common_slices
from broker.network.handling.handler_pool import LARGE
from broker.protocol import codec
from broker.protocol.emitter import SLICE
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.network.handling.test_sliced_requests import Looks
from tests.network.requests.test_request_time import limit
from tests.support.machine_speed import WITHIN_S
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

VERSION = 9
MODES = pytest.mark.parametrize("mode", ["kafka", "automq"])


def metadata_of(count: int, name: str = "missing-{}") -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name.format(at)) for at in range(count)], False)


async def cut_short(client: WireClient, message: Any, version: int) -> None:
    """Send a request without its last byte."""
    parts = codec.encode_request(message.API_KEY, version)(message, 1, client.client_id)
    frame = b"".join(map(bytes, parts))[4:-1]  # type: ignore[arg-type]
    await client.stream.send_all(len(frame).to_bytes(4, "big") + frame)


def metrics_of(broker: RunningBroker) -> Any:
    return broker.server.socket_server.metrics.by_name["Metadata"]


@MODES
@pytest.mark.parametrize("quota", [False, True], ids=["", "request-quota"])
async def test_a_large_request_is_answered_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, quota: bool
) -> None:
    monkeypatch.setattr(common_slices, "SLICE_S", 0.0)  # each step is a slice
    monkeypatch.setattr(common_slices, "FIRST_STEPS", 0)
    async with running_broker(tmp_path, f"socket.server.mode={mode}") as broker:
        client, other = await broker.connect(), await broker.connect()
        if quota:
            await limit(broker, "request_percentage", 1_000, client.client_id)
        looks = Looks()
        trio.lowlevel.add_instrument(looks)
        count = 20 * SLICE
        await client.send(metadata_of(count), VERSION)
        assert (await other.ask(ApiVersionsRequest(), 0)).error_code == 0
        _, answer = await client.receive(3, VERSION)
        trio.lowlevel.remove_instrument(looks)
        assert [topic.name for topic in answer.topics] == [f"missing-{at}" for at in range(count)]
        assert looks.count > count + 3 * 20, "a slice for each topic, 20 to decode, count errors and encode"
        assert len(broker.server.socket_server.handlers.sliced) == 0


@MODES
async def test_a_large_request_without_its_end_closes_the_connection(tmp_path: Path, mode: str) -> None:
    async with running_broker(tmp_path, f"socket.server.mode={mode}") as broker:
        client = await broker.connect()
        await cut_short(client, metadata_of(5 * SLICE), VERSION)
        assert await client.is_closed()
        assert sum(broker.server.socket_server.failures.counts.values()) == 0


@MODES
async def test_a_large_answer_to_a_small_request_is_written_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    written: list[str] = []
    encoder_of = codec.encode_response_in_slices

    def watched(key: int, version: int) -> Any:
        encode = encoder_of(key, version)

        def watched_encode(reply: Any, correlation_id: int) -> Any:
            written.append(type(reply).__name__)
            return encode(reply, correlation_id)

        return watched_encode

    monkeypatch.setattr(codec, "encode_response_in_slices", watched)
    async with running_broker(tmp_path, f"socket.server.mode={mode}") as broker:
        client = await broker.connect()
        topics = [CreatableTopic(f"events-{at}", 1, 1) for at in range(600)]
        await client.ask(CreateTopicsRequest(topics, 60_000, False), 5)
        written.clear()
        answer = await client.ask(MetadataRequest(None), VERSION)
        assert len(answer.topics) == 600
        assert written == ["MetadataResponse"]


@pytest.mark.parametrize(("over", "in_slices"), [(-1, False), (0, False), (1, True)])
async def test_from_which_size_on_a_request_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over: int, in_slices: bool
) -> None:
    decoded: list[int] = []
    decoder_of = codec.decode_request_in_slices

    def watched(key: int, version: int) -> Any:
        decode = decoder_of(key, version)

        def watched_decode(frame: Any, offset: int) -> Any:
            decoded.append(len(frame))
            return decode(frame, offset)

        return watched_decode

    monkeypatch.setattr(codec, "decode_request_in_slices", watched)
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        empty = len(b"".join(map(bytes, codec.encode_request(3, 8)(metadata_of(1, ""), 1, "tester")))) - 4  # type: ignore[arg-type]
        request = metadata_of(1, "x" * (LARGE + over - empty))
        await client.ask(request, 8)
        assert decoded == ([LARGE + over] if in_slices else [])


async def test_the_errors_of_a_large_answer_are_counted(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.ask(metadata_of(5 * SLICE), VERSION)
        assert metrics_of(broker).by_error()[3] == 5 * SLICE


async def test_a_client_that_goes_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client, other = await broker.connect(), await broker.connect()
        await client.send(metadata_of(50 * SLICE), VERSION)
        await other.ask(ApiVersionsRequest(), 0)
        await trio.aclose_forcefully(client.stream)
        sliced = broker.server.socket_server.handlers.sliced
        with trio.fail_after(WITHIN_S):
            while len(sliced):
                await trio.lowlevel.checkpoint()
        assert (await other.ask(metadata_of(1), VERSION)).topics[0].error_code == 3
        assert sum(broker.server.socket_server.failures.counts.values()) == 0
