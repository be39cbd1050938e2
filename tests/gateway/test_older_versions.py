"""Versions that only older brokers serve, and brokers of several releases behind one gateway.

The codec does not have the first versions of Produce and Fetch: their frames are written by hand here.
11,000 bytes under a quota of 1,000 B/s are repaid after one more second.
"""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.gateway.channel import GatewayChannel
from broker.gateway.forwarder import SCRATCH_BYTES, SMALL_BYTES
from broker.network.connection.read_ahead_channel import THROTTLED
from broker.protocol.api_key import ApiKey
from broker.protocol.codec import known_versions
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.metadata import MetadataRequest
from broker.quotas.entity import Entity
from tests.gateway.test_gateway_quotas import has_response, settled
from tests.support.fake_upstream import FakeNode, fake_cluster
from tests.support.hostile import framed, is_closed_soon, request
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import WireClient

GREEDY = b"greedy"
NEWER = 95
"""A key that Kafka has not assigned."""

METADATA, SHARES = "__weir_metadata", "__weir_shares"


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def produce(version: int, *topics: str, acks: int = 1, size: int = 0) -> bytes:
    """A Produce before version 3, which has no transactional id. With `size`, the frame has so many bytes
    without its size, all that are missing in the records of the last topic.
    """
    head = struct.pack(">hhih", ApiKey.PRODUCE, version, 1, len(GREEDY)) + GREEDY
    body = struct.pack(">hii", acks, 30_000, len(topics))
    for number, topic in enumerate(topics, 1):
        body += string(topic) + struct.pack(">ii", 1, 0)
        left = size - len(head) - len(body) - 4 if number == len(topics) else 0
        # A record may say what it likes.
        records = b"__weir_metadata".ljust(max(left, 15), b"x")
        body += struct.pack(">i", len(records)) + records
    frame = head + body
    assert size in (0, len(frame))
    return framed(frame)


def produced(version: int, throttle_ms: int = 0) -> bytes:
    body = struct.pack(">i", 1) + string("events") + struct.pack(">iihq", 1, 0, 0, 7)
    body += struct.pack(">q", -1) if version >= 2 else b""
    return body + (struct.pack(">i", throttle_ms) if version >= 1 else b"")


def fetch(version: int, *topics: str, replica_id: int = -1, partitions: int = 1) -> bytes:
    """A Fetch before version 4, which has no isolation level."""
    body = struct.pack(">iii", replica_id, 0, 1) + (struct.pack(">i", 1 << 20) if version >= 3 else b"")
    body += struct.pack(">i", len(topics))
    for topic in topics:
        body += string(topic) + struct.pack(">i", partitions)
        body += b"".join(struct.pack(">iqi", number, 0, 1 << 20) for number in range(partitions))
    head = struct.pack(">hhih", ApiKey.FETCH, version, 1, len(GREEDY)) + GREEDY
    return framed(head + body)


def fetched(version: int, throttle_ms: int = 0, size: int = 100) -> bytes:
    """The body of a response that has `size` bytes with its correlation id."""
    body = struct.pack(">i", throttle_ms) if version >= 1 else b""
    body += struct.pack(">i", 1) + string("events") + struct.pack(">iihq", 1, 0, 0, 7)
    left = size - 4 - len(body) - 4
    return body + struct.pack(">i", left) + b"r" * left


class Upstream:
    """An old broker, and the frames of clients that have arrived at it, without their sizes."""

    def __init__(self, node: FakeNode) -> None:
        self.node = node
        self.frames: list[bytes] = []
        self.answer = b""
        node.whole = {ApiKey.PRODUCE: self.respond, ApiKey.FETCH: self.respond, NEWER: self.respond}

    def respond(self, frame: bytes) -> bytes:
        self.frames.append(frame)
        key, _, correlation_id, length = struct.unpack_from(">hhih", frame)
        has_acks = key != ApiKey.PRODUCE or frame[10 + length : 12 + length] != b"\0\0"
        return framed(struct.pack(">i", correlation_id) + self.answer) if has_acks else b""


@asynccontextmanager
async def scene(
    tmp_path: Path, *overrides: str
) -> AsyncIterator[tuple[RunningGateway, Upstream, WireClient]]:
    async with (
        fake_cluster(1) as cluster,
        running_gateway(tmp_path, cluster.live[0].port, *overrides) as gateway,
    ):
        upstream = Upstream(cluster.live[0])
        yield gateway, upstream, await gateway.connect("greedy")


async def ask(client: WireClient, frame: bytes) -> bytes:
    """The response behind its correlation id."""
    await client.stream.send_all(frame)
    answer = await client.receive_frame()
    assert answer[:4] == frame[8:12]
    return answer[4:]


def channel_of(gateway: RunningGateway, client: WireClient) -> GatewayChannel:
    port = client.stream.socket.getsockname()[1]
    (channel,) = [each for each in gateway.server.socket_server.channels() if each.port == port]
    assert isinstance(channel, GatewayChannel)
    return channel


async def metadata(client: WireClient) -> None:
    await client.send(MetadataRequest([]), 9)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("acks", [1, -1])
async def test_an_old_produce_is_forwarded_byte_for_byte(tmp_path: Path, version: int, acks: int) -> None:
    async with scene(tmp_path) as (gateway, upstream, client):
        upstream.answer = produced(version)
        sent = [
            *[produce(version, "events", acks=acks)] * 4,  # the third is a usual read
            produce(version, "events", "other", acks=acks),
            *(produce(version, "events", acks=acks, size=SMALL_BYTES + more) for more in (-1, 0, 1)),
            produce(version, "events", acks=acks, size=SCRATCH_BYTES * 3),
        ]
        for frame in sent:
            assert await ask(client, frame) == upstream.answer
        assert upstream.frames == [frame[4:] for frame in sent]
        assert channel_of(gateway, client).requests == len(sent)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_old_produce_without_acks_expects_no_response(tmp_path: Path, version: int) -> None:
    async with scene(tmp_path) as (_, upstream, client):
        upstream.answer = produced(version)
        for _ in range(3):
            await client.stream.send_all(produce(version, "events", acks=0))
            assert await ask(client, produce(version, "events")) == upstream.answer
        assert len(upstream.frames) == 6


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_an_old_fetch_is_forwarded_byte_for_byte(tmp_path: Path, version: int) -> None:
    async with scene(tmp_path) as (_, upstream, client):
        sent = [
            *[fetch(version, "events")] * 4,
            fetch(version, "events", "weir_metadata", "__weir_requests"),
            fetch(version, "events", partitions=SCRATCH_BYTES // 16),
        ]
        for frame in sent:
            for size in (100, SCRATCH_BYTES * 3):
                upstream.answer = fetched(version, size=size)
                assert await ask(client, frame) == upstream.answer
        assert upstream.frames == [frame[4:] for frame in sent for _ in range(2)]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(("size", "throttle_ms"), [(9_999, 0), (10_000, 0), (10_001, 1), (11_000, 1_000)])
async def test_an_old_produce_is_charged_its_bytes(
    tmp_path: Path, mock_clock: MockClock, version: int, size: int, throttle_ms: int
) -> None:
    """Version 0 has no field for the throttle time: only the mute holds its client."""
    async with scene(tmp_path) as (gateway, upstream, client):
        gateway.server.quotas.apply(Entity(client_id="greedy"), "producer_byte_rate", 1_000)
        upstream.answer = produced(version)
        assert await ask(client, produce(version, "events", size=size)) == produced(version, throttle_ms)
        channel = channel_of(gateway, client)
        assert channel.throttles == bool(throttle_ms)
        judged = gateway.server.quotas.throttle_compliance.next_deadline() is not None
        assert judged is (throttle_ms > 1 and version > 0)  # a millisecond is too short for it
        await metadata(client)
        if throttle_ms:
            mock_clock.jump((throttle_ms - 1) / 1_000)
            await settled()
            assert channel.flags & THROTTLED and not has_response(client)
            mock_clock.jump(0.001)
        await client.receive(ApiKey.METADATA, 9)
        assert not channel.flags


@pytest.mark.parametrize("version", [0, 1, 2, 3])
@pytest.mark.parametrize(("size", "throttle_ms"), [(9_999, 0), (10_000, 0), (10_001, 1), (11_000, 1_000)])
async def test_an_old_fetch_is_charged_the_bytes_of_its_response(
    tmp_path: Path, mock_clock: MockClock, version: int, size: int, throttle_ms: int
) -> None:
    async with scene(tmp_path) as (gateway, upstream, client):
        gateway.server.quotas.apply(Entity(client_id="greedy"), "consumer_byte_rate", 1_000)
        upstream.answer = fetched(version, size=size)
        assert await ask(client, fetch(version, "events")) == fetched(version, throttle_ms, size)
        channel = channel_of(gateway, client)
        judged = gateway.server.quotas.throttle_compliance.next_deadline() is not None
        assert judged is (throttle_ms > 1 and version > 0)  # a millisecond is too short for it
        await metadata(client)
        if throttle_ms:
            mock_clock.jump((throttle_ms - 1) / 1_000)
            await settled()
            assert channel.flags & THROTTLED and not has_response(client)
            mock_clock.jump(0.001)
        await client.receive(ApiKey.METADATA, 9)
        assert not channel.flags


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("topics", [(METADATA,), ("events", METADATA), ("__weir_x", "events")])
@pytest.mark.parametrize("usual", [False, True])
async def test_an_old_produce_to_a_topic_of_ours_closes_its_connection(
    tmp_path: Path, version: int, topics: tuple[str, ...], usual: bool
) -> None:
    async with scene(tmp_path) as (gateway, upstream, client):
        upstream.answer = produced(version)
        for _ in range(3 if usual else 0):
            await ask(client, produce(version, "events"))
        for size in (0, SCRATCH_BYTES * 2):
            with suppress(trio.BrokenResourceError):
                await client.stream.send_all(produce(version, *topics, size=size))
            assert await is_closed_soon(client)
            assert all(frame == produce(version, "events")[4:] for frame in upstream.frames)
            client = await gateway.connect("greedy")


@pytest.mark.parametrize("version", [0, 1, 2, 3])
@pytest.mark.parametrize("topic", [METADATA, SHARES])
async def test_an_old_fetch_of_the_metadata_closes_its_connection(
    tmp_path: Path, version: int, topic: str
) -> None:
    async with scene(tmp_path) as (_, upstream, client):
        upstream.answer = fetched(version)
        for _ in range(3):
            await ask(client, fetch(version, "events"))
        await client.stream.send_all(fetch(version, "events", topic))
        assert await is_closed_soon(client)
        assert len(upstream.frames) == 3


@pytest.mark.parametrize("version", [0, 1, 2, 3])
@pytest.mark.parametrize("replica_id", [0, 7, 0x7FFF_FFFF])
async def test_an_old_fetch_of_a_replica_is_refused_where_the_gateway_logs_in(
    tmp_path: Path, version: int, replica_id: int
) -> None:
    async with scene(tmp_path, "gateway.authentication=gateway") as (_, upstream, client):
        upstream.answer = fetched(version)
        for _ in range(3):
            assert await ask(client, fetch(version, "events")) == upstream.answer
        await client.stream.send_all(fetch(version, "events", replica_id=replica_id))
        assert await is_closed_soon(client)
        assert len(upstream.frames) == 3


OLDER = {
    ApiKey.LIST_OFFSETS: 0,
    ApiKey.OFFSET_COMMIT: 0,
    ApiKey.OFFSET_FETCH: 0,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 0,
    ApiKey.DESCRIBE_ACLS: 0,
    ApiKey.DESCRIBE_LOG_DIRS: 0,
}
"""What every client may use, in a version that the codec does not have."""


@pytest.mark.parametrize("authentication", ["gateway", "upstream"])
@pytest.mark.parametrize("key", OLDER)
async def test_an_older_version_is_forwarded_whoever_logs_clients_in(
    tmp_path: Path, key: ApiKey, authentication: str
) -> None:
    assert OLDER[key] < known_versions(key)[0]
    async with scene(tmp_path, f"gateway.authentication={authentication}") as (_, upstream, client):
        upstream.node.whole[key] = upstream.respond
        upstream.answer = b"whatever the broker says"
        frame = request(key, OLDER[key], b"whatever the client says")
        assert await ask(client, frame) == upstream.answer
        assert upstream.frames == [frame[4:]]


CHANGES = [ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_ACLS, ApiKey.ALTER_REPLICA_LOG_DIRS]


@pytest.mark.parametrize("key", CHANGES)
async def test_an_older_version_of_a_change_that_needs_a_role_is_closed(tmp_path: Path, key: ApiKey) -> None:
    async with scene(tmp_path, "gateway.authentication=gateway") as (_, upstream, client):
        upstream.node.whole[key] = upstream.respond
        await client.stream.send_all(request(key, 0, bytes(20)))
        assert await is_closed_soon(client)
        assert not upstream.frames


async def test_an_api_that_the_gateway_does_not_know_is_forwarded_where_the_broker_announces_it(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path) as (_, upstream, client):
        upstream.node.versions[NEWER] = (3, 7)
        upstream.answer = b"an answer of any form" * 1_000
        for version in (3, 4, 5):
            answer = await client.ask(ApiVersionsRequest("suite", "1"), version)
            assert [(e.min_version, e.max_version) for e in answer.api_keys if e.api_key == NEWER] == [(3, 7)]
        frame = request(NEWER, 7, b"a question of any form" * 1_000, flexible=True)
        assert await ask(client, frame) == upstream.answer
        assert upstream.frames == [frame[4:]]


async def test_an_api_that_the_gateway_does_not_know_stays_closed_where_it_logs_clients_in(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, "gateway.authentication=gateway") as (_, upstream, client):
        upstream.node.versions[NEWER] = (3, 7)
        answer = await client.ask(ApiVersionsRequest("suite", "1"), 4)
        assert NEWER not in {each.api_key for each in answer.api_keys}
        await client.stream.send_all(request(NEWER, 7))
        assert await is_closed_soon(client)
        assert not upstream.frames


@pytest.mark.parametrize("version", range(6))
async def test_each_port_announces_what_the_broker_behind_it_serves(tmp_path: Path, version: int) -> None:
    """Brokers of two releases during an upgrade: at a bootstrap port, those of the broker that answers."""
    async with (
        fake_cluster(2) as cluster,
        running_gateway(tmp_path, cluster.live[0].port) as gateway,
    ):
        old, new = cluster.live
        old.versions |= {ApiKey.PRODUCE: (0, 11), ApiKey.FETCH: (0, 17)}
        new.versions |= {ApiKey.PRODUCE: (3, 13), ApiKey.FETCH: (4, 18), NEWER: (0, 1)}
        served = {
            old: {ApiKey.PRODUCE: (0, 11), ApiKey.FETCH: (0, 15)},
            new: {ApiKey.PRODUCE: (3, 13), ApiKey.FETCH: (4, 15), NEWER: (0, 1)},
        }

        async def announced(port: int) -> dict[int, tuple[int, int]]:
            client = await gateway.connect(port=port)
            answer = await client.ask(ApiVersionsRequest("suite", "1"), version)
            found = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
            return {key: found[key] for key in (ApiKey.PRODUCE, ApiKey.FETCH, NEWER) if key in found}

        with trio.fail_after(20):
            while len(gateway.server.cluster.nodes) < 2:  # noqa: ASYNC110 - nothing announces it
                await trio.sleep(0.01)
        for _ in range(2):
            for node in (old, new):
                assert await announced(gateway.first_port + node.node_id) == served[node]
        seen = [await announced(gateway.port) for _ in range(4)]
        assert all(each in served.values() for each in seen)
        assert served[old] in seen and served[new] in seen
