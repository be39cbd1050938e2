"""Upstream connections that end or break: why, for the operator, and what the client still gets."""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from broker.gateway.channel import BLOCKED
from broker.gateway.upstream_receive import CLOSED, CLOSED_WITHIN, UpstreamReceive
from broker.network.connection.read_ahead_channel import ENDED
from broker.network.server_metrics import totals_of
from broker.protocol.api_key import ApiKey
from tests.gateway.test_fault_table import Signs
from tests.gateway.test_upstream_faults import accepted
from tests.gateway.test_upstream_tls import encrypted_gateway
from tests.support.fake_upstream import FakeNode, fake_cluster
from tests.support.hostile import is_closed_soon, until
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request
from tests.support.replacing import replace_method
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import WireClient

RESET: Final = "the upstream connection failed: Connection reset by peer"
SPLICED: Final = "gateway.splice.min.bytes=65536"
COPIED: Final = "gateway.splice.min.bytes=0"
REQUEST: Final = produce_request(batch_of(b"x")), PRODUCE_VERSION

LARGE: Final = 20_000_000
"""More than the kernel keeps for a client that does not read."""


@asynccontextmanager
async def before(tmp_path: Path, *settings: str) -> AsyncIterator[tuple[FakeNode, RunningGateway, Signs]]:
    async with fake_cluster(1) as cluster:
        (node,) = cluster.live
        node.answers[ApiKey.PRODUCE] = accepted
        async with running_gateway(tmp_path, node.port, *settings) as gateway:
            yield node, gateway, observed(gateway)


def observed(gateway: RunningGateway) -> Signs:
    signs = Signs()
    gateway.server.socket_server.observers.append(signs)
    return signs


async def ends(client: WireClient) -> int:
    """Read to the end of a connection, and return the number of bytes."""
    received = 0
    with trio.fail_after(WITHIN_S), suppress(trio.BrokenResourceError):
        while more := await client.stream.receive_some(1_000_000):
            received += len(more)
    return received


def large_response(_version: int, correlation_id: int) -> bytes:
    return struct.pack(">ii", LARGE, correlation_id) + bytes(LARGE - 4)


def half_a_large_response(_version: int, correlation_id: int) -> bytes:
    return struct.pack(">ii", LARGE, correlation_id) + bytes(1_000_000)


@pytest.mark.parametrize("setting", [SPLICED, COPIED])
async def test_a_reset_while_a_client_does_not_read_keeps_no_one_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """The client gets what has arrived, when it reads."""
    events = 0
    handle = UpstreamReceive.on_event

    def counted(self: UpstreamReceive, mask: int) -> None:
        nonlocal events
        events += 1
        handle(self, mask)

    replace_method(monkeypatch, UpstreamReceive, "on_event", counted)
    async with before(tmp_path, setting) as (node, gateway, signs):
        client = await gateway.connect()
        node.raw[ApiKey.PRODUCE] = large_response
        await client.send(*REQUEST)
        (channel,) = gateway.server.socket_server.channels()
        await until(lambda: channel.send is not None)
        others = await gateway.connect()
        del node.raw[ApiKey.PRODUCE]
        events = 0
        node.reset_connections()
        for _ in range(20):
            assert (await others.ask(*REQUEST)).responses
        # Each request of the others is an event of its own, and the loop had a turn for it.
        assert events <= 20 + 3
        assert signs.reasons == set() and not channel.closed
        assert await ends(client) > 100_000
        await until(lambda: channel.closed)
        assert signs.reasons == {RESET} or signs.reasons == {CLOSED}


@pytest.mark.parametrize("setting", [SPLICED, COPIED])
async def test_a_connection_that_neither_side_takes_from_ends_when_the_client_reads(
    tmp_path: Path, setting: str
) -> None:
    """What the upstream broker did not take of its requests is not waited for."""
    async with before(tmp_path, setting) as (node, gateway, _):
        client = await gateway.connect()
        node.raw[ApiKey.PRODUCE] = large_response
        await client.send(*REQUEST)
        (channel,) = gateway.server.socket_server.channels()
        await until(lambda: channel.send is not None)
        node.freeze()
        large = produce_request(batch_of(bytes(900_000))), PRODUCE_VERSION
        with trio.move_on_after(WITHIN_S):
            while not channel.flags & BLOCKED:
                with trio.move_on_after(0.05):
                    await client.send(*large)
        assert channel.flags & BLOCKED and channel.send is not None
        node.reset_connections()
        await until(lambda: bool(channel.flags & ENDED))
        assert await ends(client) > 100_000
        await until(lambda: channel.closed)


@pytest.mark.parametrize("setting", [SPLICED, COPIED])
@pytest.mark.parametrize("is_reset", [True, False])
async def test_the_end_of_an_upstream_connection_is_told_from_the_clients(
    tmp_path: Path, setting: str, is_reset: bool
) -> None:
    """Between two responses, and within one."""
    async with before(tmp_path, setting) as (node, gateway, signs):
        for answer in (None, half_a_large_response):
            client = await gateway.connect()
            assert (await client.ask(*REQUEST)).responses
            signs.reasons.clear()
            if answer is not None:
                node.raw[ApiKey.PRODUCE] = answer
                await client.send(*REQUEST)
                await client.stream.receive_some(1)
            (node.reset_connections if is_reset else node.drop_connections)()
            await ends(client)
            expected = RESET if is_reset else CLOSED if answer is None else CLOSED_WITHIN
            assert signs.reasons == {expected}
            node.raw.clear()


async def test_a_request_to_a_broken_upstream_connection_is_no_fault_of_the_client(tmp_path: Path) -> None:
    async with before(tmp_path) as (_, gateway, signs):
        client = await gateway.connect()
        assert (await client.ask(*REQUEST)).responses
        (channel,) = gateway.server.socket_server.channels()
        upstream = channel.client.upstream
        assert upstream is not None
        upstream.sock.shutdown(1)
        await client.send(*REQUEST)
        assert await is_closed_soon(client)
        (reason,) = signs.reasons
        assert reason in (CLOSED, "the upstream connection failed: Broken pipe")


def failed_logins(gateway: RunningGateway) -> float:
    server = gateway.server.socket_server
    return sum(totals_of(each, gateway.server.clock.ns()).failed_logins for each in server.processors())


@pytest.mark.parametrize("how", ["without a word", "garbage"])
async def test_broken_tls_of_an_upstream_broker_is_no_failed_login_of_the_client(
    tmp_path: Path, how: str
) -> None:
    async with encrypted_gateway(tmp_path) as (node, gateway):
        node.answers[ApiKey.PRODUCE] = accepted
        signs = observed(gateway)
        client = await gateway.connect()
        assert (await client.ask(*REQUEST)).responses
        if how == "garbage":
            for stream in node.streams:
                await stream.socket.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        else:
            node.drop_connections()
        assert await is_closed_soon(client)
        (reason,) = signs.reasons
        expected: Any = CLOSED if how == "without a word" else "the upstream connection failed: TLS failed"
        assert reason.startswith(expected)
        assert failed_logins(gateway) == 0
