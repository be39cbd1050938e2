"""Builds many requests as bytes, and reads the responses of a broker in AutoMQ's mode."""

import struct

import trio

from broker.network.automq.channel import PipelinedChannel
from broker.protocol import codec
from broker.protocol.codec import parse_response_header
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.hostile import framed
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import batch_of, produce_request
from tests.support.running import RunningBroker
from tests.support.wire import CLIENT_ID, WireClient

AUTOMQ = "socket.server.mode=automq"


def encoded(message: object, version: int, correlation_id: int, client_id: str = CLIENT_ID) -> bytes:
    parts = codec.encode_request(message.API_KEY, version)(message, correlation_id, client_id)  # type: ignore[attr-defined]
    return b"".join(map(bytes, parts))


def numbered(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    return framed(struct.pack(">hhih", api_key, version, correlation_id, -1) + body)


def waiting_fetch(correlation_id: int, topic: str = "events") -> bytes:
    """Wait for one byte, for a minute at most."""
    partition = FetchPartition(0, partition_max_bytes=1_000)
    fetch = FetchRequest(
        max_wait_ms=60_000, min_bytes=1, max_bytes=1_000, topics=[FetchTopic(topic, partitions=[partition])]
    )
    return encoded(fetch, 11, correlation_id)


def produced(correlation_id: int, acks: int = 1, topic: str = "events") -> bytes:
    return encoded(produce_request(batch_of(b"%d" % correlation_id), topic, acks=acks), 8, correlation_id)


def stored(broker: RunningBroker, topic: str = "events") -> int:
    log = broker.server.partitions.log(topic, 0)
    assert log is not None
    return log.high_watermark


def channel_of(broker: RunningBroker, client: WireClient) -> PipelinedChannel:
    port = client.stream.socket.getsockname()[1]
    (found,) = (each for each in broker.server.socket_server.channels() if each.port == port)
    assert isinstance(found, PipelinedChannel)
    return found


async def correlation_ids(client: WireClient, count: int) -> list[int]:
    with trio.fail_after(WITHIN_S):
        return [parse_response_header(await client.receive_frame(), 0)[0] for _ in range(count)]
