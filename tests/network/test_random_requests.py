"""Every API in every version with random fields and flipped bits: no handler fails."""

import contextlib
from pathlib import Path

import pytest
import trio

from broker.protocol import codec
from broker.protocol.api_key import response_header_version
from broker.protocol.codec import parse_response_header
from tests.support.hostile import is_served
from tests.support.produce import create_topic
from tests.support.random_messages import RandomMessages
from tests.support.running import RunningBroker, running_broker

ROUNDS = 6
"""Requests of each version of each API, all seeds together."""


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_no_handler_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int) -> None:
    """Each on a connection of its own, which gets an answer of its version, or ends."""
    messages = RandomMessages(seed)
    async with running_broker(tmp_path, "group.initial.rebalance.delay.ms=0") as broker:
        polite = await broker.connect()
        for topic in ("events", "__consumer_offsets"):
            await polite.ask(create_topic(topic), 5)
        messages.ids += [topic.topic_id for topic in broker.server.control.image.topics.values()]
        for api in broker.server.registry:
            for version in range(api.min_version, api.max_version + 1):
                message = messages.request(api.key, version)
                parts = codec.encode_request(api.key, version)(message, 1, "random")
                frame = b"".join(map(bytes, parts))
                got = await answer(broker, frame)
                if got is not None:
                    _, body = parse_response_header(got, response_header_version(api.key, version))
                    codec.decode_response(api.key, version)(got, body)
                await answer(broker, messages.flipped(frame))
                failed = [record for record in caplog.records if record.exc_info]
                assert not failed, f"{message} led to {failed[0].exc_info}"
        assert await is_served(polite)


async def answer(broker: RunningBroker, frame: bytes) -> bytes | None:
    """What comes of a frame; None where nothing does: some requests have no answer, and some wait."""
    client = await broker.connect()
    broker.clients.remove(client)
    await client.stream.send_all(frame)
    await client.stream.send_eof()
    got = None
    with trio.move_on_after(0.1), contextlib.suppress(EOFError, trio.BrokenResourceError):
        got = await client.receive_frame()
    await trio.aclose_forcefully(client.stream)
    return got
