"""Hostile frames of clients: each is answered, or ends its own connection with one line."""

import contextlib
import logging
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import trio

from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.gateway.api_versions import READ, Forwardable, forwardable, judged
from broker.gateway.support import NOTES
from broker.metadata.actor import BROKER_ITSELF
from broker.network.selector import WARNINGS_OF_CLIENT
from broker.network.unauthenticated import LOGIN_FRAMES
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.metadata import MetadataRequest
from broker.security.plain import PLAIN_MODULE
from tests.gateway.test_upstream_faults import accepted
from tests.protocol.test_codec_hostile import HOSTILE, mutate
from tests.support.fake_upstream import FakeNode, fake_cluster
from tests.support.gateway_upstream import Upstream
from tests.support.hostile import LIMIT, NO_REQUESTS, framed, is_closed_soon, is_served, log_texts, request
from tests.support.random_messages import RandomMessages
from tests.support.running_gateway import RunningGateway, running_gateway

GATEWAY_LOGINS: Final = (
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
    f'listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN_MODULE} required user_alice="secret";',
    "gateway.authentication=gateway",
)
UPSTREAM_LOGINS: Final = (
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    "upstream.security.protocol=SASL_PLAINTEXT",
    "upstream.sasl.mechanism=PLAIN",
    f'upstream.sasl.jaas.config={PLAIN_MODULE} required username="weir" password="own";',
)


@pytest.fixture(autouse=True)
def _operators_eyes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


class Attacked(NamedTuple):
    """A gateway before one node; `own` connections of the node are the gateway's own."""

    gateway: RunningGateway
    node: FakeNode
    own: int

    async def settle(self) -> None:
        """Wait until every connection but that of the first client has closed, at both sides. The gateway
        has opened one at most meanwhile, that asks for numbers of partitions.
        """
        with trio.fail_after(5):
            await _until(lambda: len(self.gateway.channels()) <= 1)
            await _until(lambda: self.node.open_connections <= self.own + 2)


async def _until(condition: Any) -> None:
    while not condition():  # noqa: ASYNC110 - nothing announces these conditions
        await trio.sleep(0.005)


@asynccontextmanager
async def attacked(
    tmp_path: Path, *settings: str, users: dict[str, str] | None = None
) -> AsyncIterator[Attacked]:
    async with fake_cluster(1) as cluster:
        cluster.users = users or {}
        (node,) = cluster.live
        Upstream(node)
        node.answers.pop(ApiKey.METADATA)
        node.answers[ApiKey.PRODUCE] = accepted
        async with running_gateway(tmp_path, node.port, *settings) as gateway:
            await trio.testing.wait_all_tasks_blocked(0.02)
            yield Attacked(gateway, node, node.open_connections)


MALFORMED: Final = {
    **NO_REQUESTS,
    "an API of brokers among themselves": (request(4, 0), "API key 4 version 0 is not served"),
    "a version above the range": (request(3, 14, flexible=True), "API key 3 version 14 is not served"),
    "a version below the range": (request(19, 1), "API key 19 version 1 is not served"),
    "a version below zero": (request(3, -1), "API key 3 version 65535 is not served"),
    "a client id that lies": (
        framed(struct.pack(">hhih", 3, 1, 1, 500) + b"short"),
        "invalid client id: 500 bytes in a frame of 15",
    ),
    "a client id that is no text": (
        framed(struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe"),
        "invalid client id: expected UTF-8",
    ),
    "a Produce without acks": (request(0, 3), "a Produce without acks"),
    "an old Produce without acks": (request(0, 0), "a Produce without acks"),
    "an old Produce with half of acks": (request(0, 2, b"\0"), "a Produce without acks"),
    "an old Produce of a topic of ours": (
        request(0, 2, bytes(9) + b"\1\0\x08__weir_x"),
        "a request for topics that only gateways use",
    ),
    "an old Fetch of the metadata": (
        request(1, 3, b"\0\x0f__weir_metadata"),
        "a request for topics that only gateways use",
    ),
    "a Produce with half of acks": (request(0, 3, b"\xff\xff\0"), "a Produce without acks"),
    "a flexible Produce without acks": (request(0, 9, b"", flexible=True), "a Produce without acks"),
    "a flexible Produce without tags": (request(0, 9), "a Produce without acks"),
    "a transactional id longer than the frame": (
        request(0, 3, b"\x7f\xff" + b"x" * 100),
        "a Produce without acks",
    ),
    "a compact transactional id longer than the frame": (
        request(0, 9, b"\xff\xff\xff\xff\x07" + bytes(50), flexible=True),
        "a Produce without acks",
    ),
    "a transactional id with a varint of 10 bytes": (
        request(0, 9, b"\xff" * 10 + bytes(50), flexible=True),
        "a varint has more than five bytes",
    ),
    "header tags longer than the frame": (
        request(0, 9, b"\x01\x00\xff\xff\xff\xff\x07" + bytes(50)),
        "a tagged field exceeds the message",
    ),
    "header tags without number": (
        request(0, 9, b"\xff\xff\xff\xff\x07" + bytes(50)),
        "2147483647 tagged fields in one struct, the maximum is 1000",
    ),
    "an ApiVersions without its name": (
        request(18, 4, b"", flexible=True),
        "ApiVersionsRequest v4: index out of bounds on dimension 1",
    ),
}


async def test_each_connection_ends_with_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with attacked(tmp_path, f"socket.request.max.bytes={LIMIT}") as target:
        polite = await target.gateway.connect()
        assert await is_served(polite)
        for name, (sent, reason) in MALFORMED.items():
            caplog.clear()
            hostile = await target.gateway.connect()
            await hostile.stream.send_all(sent)
            assert await is_closed_soon(hostile), name
            assert log_texts(caplog) == [reason], name
            assert await is_served(polite)
            await target.settle()


async def test_requests_before_are_answered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All in one read, which the gateway forwards in one send."""
    parts = [codec.encode_request(3, 9)(MetadataRequest([]), number, "hostile") for number in range(3)]
    before = b"".join(bytes(part) for each in parts for part in each)
    async with attacked(tmp_path, f"socket.request.max.bytes={LIMIT}") as target:
        for name, (sent, reason) in MALFORMED.items():
            caplog.clear()
            hostile = await target.gateway.connect()
            assert await is_served(hostile)
            await hostile.stream.send_all(before + sent)
            with trio.move_on_after(5) as scope:
                for number in range(3):
                    correlation_id, answer = await hostile.receive(ApiKey.METADATA, 9)
                    assert correlation_id == number and len(answer.brokers) == 1, name
            assert not scope.cancelled_caught, name
            assert await is_closed_soon(hostile), name
            assert log_texts(caplog) == [reason], name
            await target.settle()


APIS: Final = sorted(READ | NOTES.keys())
"""What the gateway reads, changes or answers itself."""


def versions_of(key: ApiKey, versions: Forwardable = forwardable) -> tuple[int, int]:
    """The first and the last version in which clients use an API through the gateway."""
    offered, known = versions(key), codec.known_versions(key)
    assert offered is not None
    return max(offered[0], known[0]), min(offered[1], known[1])


def valid(messages: RandomMessages, key: ApiKey, version: int) -> bytes:
    """A valid request of up to 300 bytes, without its size."""
    while True:
        parts = codec.encode_request(key, version)(messages.request(key, version), 1, "hostile")
        frame = b"".join(bytes(part) for part in parts)[4:]
        if len(frame) <= 120:
            return frame


async def limit_mutations(target: Attacked) -> None:
    """From now on the gateway reads the requests that change topics."""
    rule = QuotaAlteration((("client-id", "hostile"),), (QuotaOp("controller_mutation_rate", 1e15),))
    await target.gateway.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)


async def attack(target: Attacked, sent: bytes) -> None:
    """Send on a connection of its own, and end it. It closes soon, whatever it is answered."""
    client = await target.gateway.connect()
    target.gateway.clients.remove(client)
    with trio.move_on_after(5) as scope, contextlib.suppress(EOFError, trio.BrokenResourceError):
        await client.stream.send_all(sent)
        await client.stream.send_eof()
        while True:
            await client.receive_frame()
    assert not scope.cancelled_caught, sent
    await trio.aclose_forcefully(client.stream)


def truncated(messages: RandomMessages) -> Iterator[bytes]:
    """Each API cut at every byte, with a size that says so, and at some with one that does not."""
    for key in APIS:
        frame = valid(messages, key, versions_of(key)[1])
        for end in range(8, len(frame)):
            yield framed(frame[:end])
        for end in range(0, len(frame), 13):
            yield framed(frame)[:end]


def with_hostile_lengths(messages: RandomMessages) -> Iterator[bytes]:
    """A length in place of any bytes of each API: negative, the largest, varints that are too long."""
    for key in APIS:
        frame = valid(messages, key, versions_of(key)[1])
        for at in range(8, len(frame) + 1, 5):
            hostile = messages.rng.choice(HOSTILE)
            yield framed(frame[:at] + hostile + frame[at + len(hostile) :])


def mutated(messages: RandomMessages) -> Iterator[bytes]:
    """Every version of each API with other bytes, and behind it garbage of which some are heads."""
    rng = messages.rng
    for key in APIS:
        first, last = versions_of(key)
        for version in range(first, last + 1):
            frame = valid(messages, key, version)
            yield framed(frame[:8] + mutate(frame[8:], rng))
            yield framed(frame[:8] + rng.randbytes(rng.randrange(60)))
            yield framed(frame) + messages.flipped(framed(valid(messages, key, version)))
            yield framed(frame) + rng.randbytes(rng.randrange(1, 60))


SENT: Final = {
    "truncated": truncated,
    "with hostile lengths": with_hostile_lengths,
    "mutated": mutated,
}


@pytest.mark.parametrize("what", SENT)
async def test_no_request_of_an_api_that_the_gateway_reads_harms_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    async with attacked(tmp_path) as target:
        await limit_mutations(target)
        polite = await target.gateway.connect()
        assert await is_served(polite)
        for number, sent in enumerate(SENT[what](RandomMessages(seed=14))):
            caplog.clear()
            await attack(target, sent)
            assert len(log_texts(caplog)) <= 1, sent
            if number % 50 == 0:
                assert await is_served(polite), sent
        assert await is_served(polite)
        await target.settle()


BEFORE_LOGIN: Final = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


@pytest.mark.parametrize("logins", [GATEWAY_LOGINS, UPSTREAM_LOGINS], ids=["gateway", "upstream"])
async def test_before_a_login_the_gateway_forwards_and_reads_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, logins: tuple[str, ...]
) -> None:
    users = {"weir": "own"} if logins is UPSTREAM_LOGINS else None
    messages = RandomMessages(seed=1)
    warnings = 0
    async with attacked(tmp_path, *logins, users=users) as target:
        for key in set(APIS) - set(BEFORE_LOGIN):
            caplog.clear()
            version = versions_of(key, judged if logins is GATEWAY_LOGINS else forwardable)[1]
            connections = target.node.connections
            frame = valid(messages, key, version)
            for sent in (framed(frame), framed(frame)[:14]):  # its head is enough
                hostile = await target.gateway.connect()
                await hostile.stream.send_all(sent)
                assert await is_closed_soon(hostile), key
            lines = log_texts(caplog)
            assert len(set(lines)) <= 1 and all(line.endswith(" before authentication") for line in lines)
            warnings += len(lines)
            assert target.node.connections == connections
        assert warnings >= WARNINGS_OF_CLIENT  # an operator sees no more of them in a minute
        await target.settle()


@pytest.mark.parametrize("logins", [GATEWAY_LOGINS, UPSTREAM_LOGINS], ids=["gateway", "upstream"])
async def test_no_login_that_is_none_harms_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, logins: tuple[str, ...]
) -> None:
    users = {"weir": "own"} if logins is UPSTREAM_LOGINS else None
    messages = RandomMessages(seed=2)
    fast = "connection.failed.authentication.delay.ms=0"
    async with attacked(tmp_path, *logins, fast, users=users) as target:
        for key in BEFORE_LOGIN:
            frame = valid(messages, key, versions_of(key)[1])
            damaged = [framed(frame[:end]) for end in range(8, len(frame))]
            damaged += [framed(frame[:8] + mutate(frame[8:], messages.rng)) for _ in range(30)]
            damaged += [framed(frame) + messages.rng.randbytes(size) for size in range(1, 20)]
            for sent in damaged:
                caplog.clear()
                await attack(target, sent)
                assert len(log_texts(caplog)) <= 1, sent
        await target.settle()


@pytest.mark.parametrize("frames", [LOGIN_FRAMES - 1, LOGIN_FRAMES, LOGIN_FRAMES + 1])
async def test_requests_that_are_forwarded_before_a_login_count(tmp_path: Path, frames: int) -> None:
    """The address has sent what it may, up to the requests of one login."""
    rate = "max.unauthenticated.frame.rate.per.ip=1"
    async with attacked(tmp_path, *UPSTREAM_LOGINS, rate, users={"weir": "own"}) as target:
        client = await target.gateway.connect()
        await client.ask(ApiVersionsRequest("suite", "1"), 4)
        gate = target.gateway.server.socket_server.gate.unauthenticated
        gate.add_frames("127.0.0.1", 1_000, target.gateway.server.clock.ms(), is_begun=True)
        is_open = True
        try:
            for _ in range(frames - 1):
                await client.ask(ApiVersionsRequest("suite", "1"), 4)
        except (EOFError, trio.BrokenResourceError):
            is_open = False
        assert is_open is (frames <= LOGIN_FRAMES)
