"""`proxy.protocol` on a broker's listeners: whose limits, ACLs and rows a connection has, and what closes it.

The balancer is 127.0.0.1, which is trusted; 127.0.0.2 is not. tests/common has the headers themselves.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from broker.common import proxy_headers
from broker.common.errors import ErrorCode
from broker.common.proxy_protocol import Client, HeaderRefusal
from broker.controller.commands import BROKER_ITSELF, CreateAcls
from broker.monitoring.events.activity import ConnectionEvents
from broker.network.acceptor.proxied import ProxiedConnections
from broker.network.connection.channel import Channel
from broker.network.failures import FailedStep
from broker.network.processor import Accepted
from broker.protocol import codec
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.metadata import MetadataRequest
from broker.quotas.connections import BURST_MS, IP_RATE, PER_IP, PROXY_HEADER
from broker.quotas.unauthenticated import CONNECTIONS
from broker.security.acl.acl import Operation
from broker.views.metadata import AuditFilter
from tests.controller.world import AUTHORIZER
from tests.network.test_login import MODULE, log_in
from tests.security.acl.acls import allow
from tests.support.certificates import certificates, tls_settings
from tests.support.connections import (
    CONTROLLER,
    EXTERNAL,
    LOOPBACK,
    TWO_SERVERS,
    gate_of,
    passes,
    set_ip_rate,
    settle,
    two_listeners,
)
from tests.support.hostile import is_closed_soon, is_served
from tests.support.produce import create_topic
from tests.support.prometheus import parse
from tests.support.proxy_protocol import CLIENT, head, local, v1, v2, with_checksum
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import OPENED, WireClient

ELSEWHERE = "127.0.0.2"
OTHER = ("192.0.2.8", 40_001)
KEY = "listener.name.external.proxy.protocol"


def behind(directory: Path, mode: str, *overrides: str) -> AbstractAsyncContextManager[RunningBroker]:
    """A broker whose listener EXTERNAL trusts 127.0.0.1; PLAINTEXT has no balancer."""
    trusted = f"{KEY}.trusted.addresses={LOOPBACK}"
    return two_listeners(directory, f"{KEY}={mode}", trusted, *overrides)


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with behind(tmp_path, "require") as running:
        yield running


@pytest.fixture
async def accepting(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with behind(tmp_path, "accept") as running:
        yield running


async def through(
    broker: RunningBroker, header: bytes = b"", source: str = LOOPBACK, listener: str = EXTERNAL
) -> WireClient:
    """A connection from an address, with these first bytes."""
    port = gate_port(broker, listener)
    stream = await trio.open_tcp_stream(LOOPBACK, port, local_address=source)
    OPENED.append(stream)
    client = WireClient(stream, "tester")
    broker.clients.append(client)
    if header:
        await stream.send_all(header)
    await settle()
    return client


def gate_port(broker: RunningBroker, listener: str = EXTERNAL) -> int:
    (found,) = (each for each in broker.server.socket_server.listeners if each.name == listener)
    return found.acceptor.address[1]


def channels(broker: RunningBroker) -> list[Channel]:
    return list(broker.server.socket_server.channels())


def rejected(broker: RunningBroker) -> dict[str, int]:
    return gate_of(broker).quota.rejected


def counts(broker: RunningBroker) -> tuple[int, dict[str, int]]:
    connections = broker.server.connections
    return connections.total, dict(connections.counts)


# Whose a connection is


@pytest.mark.parametrize("mode", ["accept", "require"])
@pytest.mark.parametrize("header", [v1(), v2(), with_checksum()], ids=["v1", "v2", "checksum"])
async def test_a_header_names_the_client(
    tmp_path: Path, mock_clock: MockClock, mode: str, header: bytes
) -> None:
    async with behind(tmp_path, mode) as broker:
        client = await through(broker, header)
        assert await is_served(client)
        (channel,) = channels(broker)
        assert (channel.address, channel.port, channel.proxy) == (*CLIENT, LOOPBACK)
        assert f"-{CLIENT[0]}:{CLIENT[1]}-" in channel.id
        assert counts(broker) == (1, {CLIENT[0]: 1})
        await client.stream.aclose()
        await settle()
        assert counts(broker) == (0, {})
        assert rejected(broker) == {}


async def test_the_first_request_may_follow_in_the_same_packet(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    parts = codec.encode_request(MetadataRequest.API_KEY, 9)(MetadataRequest([]), 1, "tester")
    client = await through(broker, v2() + b"".join(bytes(part) for part in parts))
    _, answer = await client.receive(MetadataRequest.API_KEY, 9)
    assert len(answer.brokers) == 1


@pytest.mark.parametrize(
    "header",
    [local(), b"PROXY UNKNOWN\r\n", head(216, family=0x31) + bytes(216), head(0, family=0)],
    ids=["LOCAL", "UNKNOWN", "AF_UNIX", "unspecified"],
)
async def test_without_an_address_a_connection_keeps_the_balancers(
    broker: RunningBroker, header: bytes, mock_clock: MockClock
) -> None:
    assert await is_served(await through(broker, header))
    (channel,) = channels(broker)
    assert (channel.address, channel.proxy, channel.is_balancers) == (LOOPBACK, LOOPBACK, True)
    assert counts(broker) == (1, {})


async def test_with_accept_a_balancers_connection_may_come_without(
    accepting: RunningBroker, mock_clock: MockClock
) -> None:
    assert await is_served(await through(accepting))
    (channel,) = channels(accepting)
    assert (channel.address, channel.proxy) == (LOOPBACK, LOOPBACK)


async def test_with_accept_other_addresses_are_served_as_without_a_balancer(
    accepting: RunningBroker, mock_clock: MockClock
) -> None:
    assert await is_served(await through(accepting, source=ELSEWHERE))
    (channel,) = channels(accepting)
    assert (channel.address, channel.proxy, channel.is_balancers) == (ELSEWHERE, "", False)
    assert counts(accepting) == (1, {ELSEWHERE: 1})


async def test_another_listener_takes_no_header(broker: RunningBroker, mock_clock: MockClock) -> None:
    assert await is_served(await through(broker, listener="PLAINTEXT"))
    assert await is_closed_soon(await through(broker, v2(), listener="PLAINTEXT"))


async def test_the_common_key_is_that_of_all_listeners(tmp_path: Path, mock_clock: MockClock) -> None:
    settings = ("proxy.protocol=require", f"proxy.protocol.trusted.addresses={LOOPBACK}")
    async with two_listeners(tmp_path, *settings) as broker:
        for listener in ("PLAINTEXT", EXTERNAL):
            assert await is_served(await through(broker, v2(), listener=listener))


async def test_the_rows_of_connections_name_the_balancer(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await is_served(await through(broker, v2()))
    await is_served(await through(broker, local()))
    rows = {row.address: row.proxy for row in broker.server.views.live.each_connection()}
    assert rows == {CLIENT[0]: LOOPBACK, LOOPBACK: LOOPBACK}


async def test_the_log_names_the_balancer(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    caplog.set_level(logging.DEBUG)
    await through(broker, v2())
    beginning = f"Accepted connection from {CLIENT[0]}:{CLIENT[1]} through {LOOPBACK} on "
    assert sum(each.getMessage().startswith(beginning) for each in caplog.records) == 1


# What closes one


REFUSALS = {
    HeaderRefusal.MISSING: b"\0\0\0\x14\0\x12\0\x03",
    HeaderRefusal.MALFORMED: b"PROXY TCP4 nowhere\r\n",
    HeaderRefusal.TOO_LONG: b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n",
    HeaderRefusal.CHECKSUM: with_checksum(wrong=1),
}


@pytest.mark.parametrize(("reason", "sent"), REFUSALS.items(), ids=REFUSALS)
async def test_a_refused_header_closes_its_connection_and_is_counted_by_its_reason(
    broker: RunningBroker, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, reason: str, sent: bytes
) -> None:
    caplog.set_level(logging.INFO)
    events = ConnectionEvents(100)
    broker.server.socket_server.observers.append(events)
    assert await is_closed_soon(await through(broker, sent))
    rule = f"{PROXY_HEADER}.{reason}"
    assert rejected(broker) == {rule: 1} and counts(broker) == (0, {})
    (event,) = events.drain(0)
    assert event.key == LOOPBACK.encode()
    assert b'"event":"refused"' in event.value and f'"reason":"{rule}"'.encode() in event.value
    await passes(mock_clock, BURST_MS / 1_000)
    (line,) = [each for each in caplog.records if each.getMessage().startswith("Rejected connection")]
    assert line.__dict__["rule"] == rule and "PROXY header" in line.getMessage()
    assert await is_served(await through(broker, v2())), "the next one"


async def test_a_header_that_is_cut_is_counted_and_a_connection_without_a_byte_is_not(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    for sent in (b"", v2()[:20]):
        client = await through(broker, sent)
        await client.stream.send_eof()
        assert await is_closed_soon(client)
    assert rejected(broker) == {f"{PROXY_HEADER}.{HeaderRefusal.CUT}": 1} and counts(broker) == (0, {})


async def test_with_require_nothing_from_elsewhere_is_read(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await through(broker, source=ELSEWHERE)
    assert await is_closed_soon(client)
    assert rejected(broker) == {f"{PROXY_HEADER}.{HeaderRefusal.UNTRUSTED}": 1}
    assert counts(broker) == (0, {})
    assert channels(broker) == []


@pytest.mark.parametrize("sent", [v1(), v2()])
async def test_with_accept_a_header_from_elsewhere_closes(
    accepting: RunningBroker, sent: bytes, mock_clock: MockClock
) -> None:
    assert await is_closed_soon(await through(accepting, sent, ELSEWHERE))
    assert rejected(accepting) == {f"{PROXY_HEADER}.{HeaderRefusal.UNTRUSTED}": 1}
    assert counts(accepting) == (0, {})


@pytest.mark.parametrize("mode", ["accept", "require"])
async def test_a_slow_header_closes_at_the_deadline_and_holds_up_no_other(
    tmp_path: Path, mock_clock: MockClock, mode: str
) -> None:
    async with behind(tmp_path, mode, "connection.authentication.timeout.ms=3000") as broker:
        slow = await through(broker, v2()[:20])
        assert counts(broker) == (1, {}), "it counts for the broker"
        assert await is_served(await through(broker, v2())), "others are served meanwhile"
        await passes(mock_clock, 2.999)
        assert rejected(broker) == {}
        await passes(mock_clock, 0.001)
        assert await is_closed_soon(slow)
        assert rejected(broker) == {f"{PROXY_HEADER}.{HeaderRefusal.TIMEOUT}": 1}
        assert counts(broker) == (1, {CLIENT[0]: 1})


@pytest.mark.parametrize(("most", "closed"), [(1, 2), (2, 1), (3, 0)])
async def test_beyond_so_many_outstanding_headers_the_first_closes(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, most: int, closed: int
) -> None:
    async with behind(tmp_path, "require") as broker:
        headers = gate_of(broker).proxy_headers
        assert headers is not None and headers._most == proxy_headers.MAX_OUTSTANDING
        monkeypatch.setattr(headers, "_most", most)
        clients = [await through(broker) for _ in range(3)]
        expected = {f"{PROXY_HEADER}.{HeaderRefusal.TOO_MANY}": closed} if closed else {}
        assert rejected(broker) == expected and counts(broker) == (3 - closed, {})
        for each in clients[:closed]:
            assert await is_closed_soon(each)
        await clients[2].stream.send_all(v2())
        assert await is_served(clients[2])


async def test_a_stop_closes_connections_whose_header_is_outstanding(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with behind(tmp_path, "require") as broker:
        client = await through(broker, v2()[:10])
        broker.clients.clear()
    assert await client.is_closed()
    assert counts(broker) == (0, {})


async def test_the_metrics_page_counts_by_reason(broker: RunningBroker, mock_clock: MockClock) -> None:
    await through(broker, with_checksum(wrong=1))
    page = parse(broker.server.prometheus.page())
    rejected = page["kafka_server_socket_server_metrics_rejected_connections_total"]
    assert rejected.value(listener=EXTERNAL, rule="proxy.protocol.checksum") == 1


# Limits


async def test_an_addresss_maximum_is_its_clients(tmp_path: Path, mock_clock: MockClock) -> None:
    async with behind(tmp_path, "require", "max.connections.per.ip=2") as broker:
        kept = [await through(broker, v2((CLIENT[0], port))) for port in (1, 2)]
        assert await is_closed_soon(await through(broker, v2((CLIENT[0], 3))))
        assert rejected(broker) == {PER_IP: 1}
        assert await is_served(await through(broker, v2(OTHER))), "another client has its own"
        assert counts(broker) == (3, {CLIENT[0]: 2, OTHER[0]: 1})
        await kept[0].stream.aclose()
        await settle()
        assert await is_served(await through(broker, v2((CLIENT[0], 4))))


async def test_a_balancers_own_address_has_no_maximum(tmp_path: Path, mock_clock: MockClock) -> None:
    async with behind(tmp_path, "accept", "max.connections.per.ip=1") as broker:
        for header in (local(), local(), b""):
            assert await is_served(await through(broker, header))
        assert counts(broker) == (3, {})
        assert await is_served(await through(broker, source=ELSEWHERE))
        assert await is_closed_soon(await through(broker, source=ELSEWHERE)), "others have"


async def test_an_addresss_rate_is_its_clients(broker: RunningBroker, mock_clock: MockClock) -> None:
    await set_ip_rate(broker, 2)
    gate = gate_of(broker)
    clients = [await through(broker, v2((CLIENT[0], port))) for port in range(1, 4)]
    assert ([each.address for each in channels(broker)], len(gate.throttled_sockets)) == ([CLIENT[0]] * 2, 1)
    assert counts(broker) == (2, {CLIENT[0]: 2}), "a throttled connection does not count"
    for _ in range(5):
        assert await is_served(await through(broker, local())), "the balancer has no rate"
    await passes(mock_clock, 0.5)
    assert await is_served(clients[2]), "its header has been read"
    assert counts(broker)[1] == {CLIENT[0]: 3} and rejected(broker) == {}


async def test_a_throttled_connection_from_elsewhere_is_read_after_its_wait(
    accepting: RunningBroker, mock_clock: MockClock
) -> None:
    await set_ip_rate(accepting, 1)
    assert await is_served(await through(accepting, source=ELSEWHERE))
    polite = await through(accepting, source=ELSEWHERE)
    assert len(gate_of(accepting).throttled_sockets) == 1
    await passes(mock_clock, 1)
    assert await is_served(polite)
    forged = await through(accepting, v2(), ELSEWHERE)
    await passes(mock_clock, 1)
    assert await is_closed_soon(forged)
    assert rejected(accepting) == {f"{PROXY_HEADER}.{HeaderRefusal.UNTRUSTED}": 1}


async def test_connections_whose_waits_end_together_hold_up_no_other() -> None:
    class Started(list[object]):
        def start_soon(self, _task: object, *args: object, name: object = None) -> None:
            self.extend(args)

    nothing: Any = None
    started = Started()
    proxied = ProxiedConnections(nothing, nothing, nothing, started, "proxy-header")
    accepted = Accepted(nothing, OTHER)
    with trio.testing.assert_checkpoints():
        await proxied.serve_throttled(accepted)
    assert started == [accepted]


async def test_with_kafkas_mode_a_client_over_its_rate_is_closed_after_its_wait(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with behind(tmp_path, "require", "ip.throttle.mode=kafka") as broker:
        await set_ip_rate(broker, 1)
        first, second = [await through(broker, v2((CLIENT[0], port))) for port in (1, 2)]
        await passes(mock_clock, 1)
        assert await is_served(first) and await is_closed_soon(second)
        assert rejected(broker) == {IP_RATE: 1} and counts(broker)[1] == {CLIENT[0]: 1}


async def test_an_outstanding_header_takes_a_slot_of_the_listener(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Unread connections cannot be more than `max.connections`; the acceptor waits as for any other."""
    async with behind(tmp_path, "require", "listener.name.external.max.connections=2") as broker:
        first, second, third = [await through(broker, v2()[:10]) for _ in range(3)]
        await third.stream.send_all(v2()[10:])
        await settle()
        assert (counts(broker), channels(broker)) == ((2, {}), [])
        await first.stream.aclose()
        assert await is_served(third)
        await second.stream.send_all(v2(OTHER)[10:])
        assert await is_served(second)
        assert counts(broker) == (2, {CLIENT[0]: 1, OTHER[0]: 1})


async def test_a_client_over_its_maximum_frees_the_slot(tmp_path: Path, mock_clock: MockClock) -> None:
    own = ("listener.name.external.max.connections=2", "max.connections.per.ip=1")
    async with behind(tmp_path, "require", *own) as broker:
        assert await is_served(await through(broker, v2()))
        refused = await through(broker, v2((CLIENT[0], 1)))
        waiting = await through(broker, v2(OTHER))
        assert await is_closed_soon(refused) and await is_served(waiting)
        assert counts(broker) == (2, {CLIENT[0]: 1, OTHER[0]: 1})


async def test_the_limits_before_a_login_are_its_clients(tmp_path: Path, mock_clock: MockClock) -> None:
    settings = (
        f"listeners=SASL_PLAINTEXT://{LOOPBACK}:0",
        f'listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} user_alice="secret";',
        "sasl.enabled.mechanisms=PLAIN",
        "proxy.protocol=require",
        f"proxy.protocol.trusted.addresses={LOOPBACK}",
        "max.unauthenticated.connections.per.ip=1",
    )
    async with running_broker(tmp_path, *settings) as broker:
        listener = "SASL_PLAINTEXT"
        for _ in range(3):
            await through(broker, local(), listener=listener)
        assert len(channels(broker)) == 3, "a balancer's checks have no such limit"
        first = await through(broker, v2(), listener=listener)
        other = await through(broker, v2(OTHER), listener=listener)
        second = await through(broker, v2((CLIENT[0], 1)), listener=listener)
        assert await is_closed_soon(first)
        assert gate_of(broker, listener).quota.rejected == {CONNECTIONS: 1}
        for each in (other, second):
            assert await log_in(each, b"secret") == 0
            assert await is_served(each)


# TLS, other listeners, ACLs


@pytest.mark.parametrize("header", [v1(), v2()], ids=["v1", "v2"])
async def test_tls_begins_behind_the_header(tmp_path: Path, header: bytes) -> None:
    settings = (*tls_settings(), "proxy.protocol=require", f"proxy.protocol.trusted.addresses={LOOPBACK}")
    async with running_broker(tmp_path, *settings) as broker:
        stream = await trio.open_tcp_stream(LOOPBACK, broker.port)
        OPENED.append(stream)
        await stream.send_all(header)
        context = certificates().client_context()
        tls = trio.SSLStream(stream, context, server_hostname="localhost", https_compatible=True)
        await tls.do_handshake()
        client = WireClient(tls, "tester")
        assert await is_served(client)
        (channel,) = channels(broker)
        assert channel.address == CLIENT[0] and channel.tls is not None
        await trio.aclose_forcefully(stream)


async def test_tls_without_the_header_is_refused_where_it_is_required(tmp_path: Path) -> None:
    settings = (*tls_settings(), "proxy.protocol=require", f"proxy.protocol.trusted.addresses={LOOPBACK}")
    async with running_broker(tmp_path, *settings) as broker:
        with pytest.raises(trio.BrokenResourceError):
            await broker.connect_tls(certificates().client_context())
        (listener,) = broker.server.socket_server.listeners
        assert listener.acceptor.gate.quota.rejected == {f"{PROXY_HEADER}.{HeaderRefusal.MISSING}": 1}


async def test_acls_and_the_audit_trail_have_the_clients_address(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    anonymous = "User:ANONYMOUS"
    acls = tuple(
        allow(operation, "events", principal=anonymous, host=CLIENT[0])
        for operation in (Operation.CREATE, Operation.WRITE)
    )
    async with behind(tmp_path, "require", AUTHORIZER) as broker:
        outcomes = await broker.server.control.apply(CreateAcls(acls), BROKER_ITSELF)
        assert all(each.ok for each in outcomes)
        for client, code in ((CLIENT, ErrorCode.NONE), (OTHER, ErrorCode.TOPIC_AUTHORIZATION_FAILED)):
            stream = await through(broker, v2(client))
            assert (await stream.ask(create_topic(), 5)).topics[0].error_code == code
        assert (await (await through(broker, local())).ask(create_topic(), 5)).topics[0].error_code == (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED
        ), "a balancer has the rights of its own address"
        trail = await broker.server.views.metadata.audit(AuditFilter(kind="topic"))
        assert {each.address for each in trail} == {CLIENT[0]}


async def test_a_controllers_listener_has_headers_too(tmp_path: Path, mock_clock: MockClock) -> None:
    settings = (
        "listener.name.controller.proxy.protocol=require",
        f"listener.name.controller.proxy.protocol.trusted.addresses={LOOPBACK}",
    )
    async with running_broker(tmp_path, *TWO_SERVERS, *settings) as broker:
        client = await through(broker, v2(), listener=CONTROLLER)
        await client.ask(ApiVersionsRequest("tester", "1"), 3)
        (channel,) = channels(broker)
        assert (channel.address, channel.listener) == (CLIENT[0], CONTROLLER)


async def test_several_turns_of_the_accepting_loop_share_no_header(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """As many as a burst has, whose headers arrive in the order of their last digits."""
    clients = [await through(broker, v2((CLIENT[0], port))[:27]) for port in range(256, 276)]
    assert channels(broker) == []
    for port, client in reversed(list(zip(range(256, 276), clients, strict=True))):
        await client.stream.send_all(v2((CLIENT[0], port))[27:])
    await settle()
    assert sorted(each.port for each in channels(broker)) == list(range(256, 276))
    for client in clients:
        assert await is_served(client)


# What goes wrong in the acceptor itself


class Broken(ConnectionEvents):
    """An observer with an error in it."""

    def refused(self, listener: str, address: str, rule: str, bound: float) -> None:
        raise MemoryError

    def delayed(self, listener: str, address: str, throttle_ms: int, bound: float) -> None:
        raise MemoryError


@pytest.mark.parametrize("sent", [v2()[:20], with_checksum(wrong=1)], ids=["at its end", "at once"])
async def test_an_error_while_a_header_is_refused_is_reported(
    broker: RunningBroker, sent: bytes, mock_clock: MockClock
) -> None:
    broker.server.socket_server.observers.append(Broken(1))
    client = await through(broker, sent)
    await client.stream.send_eof()
    assert await is_closed_soon(client)
    assert broker.server.failures.counts[FailedStep.ACCEPT] == 1 and counts(broker) == (0, {})
    assert await is_served(await through(broker, v2())), "the next one"


@pytest.mark.parametrize("limit", ["maximum", "rate"])
async def test_an_error_while_a_client_is_refused_does_not_release_its_slot_twice(
    tmp_path: Path, mock_clock: MockClock, limit: str
) -> None:
    settings = ("max.connections.per.ip=1",) if limit == "maximum" else ()
    async with behind(tmp_path, "require", *settings) as broker:
        if limit == "rate":
            await set_ip_rate(broker, 1)
        assert await is_served(await through(broker, v2()))
        broker.server.socket_server.observers.append(Broken(1))
        assert await is_closed_soon(await through(broker, v2((CLIENT[0], 1))))
        assert broker.server.failures.counts[FailedStep.ACCEPT] == 1
        assert (counts(broker), gate_of(broker).quota.count) == ((1, {CLIENT[0]: 1}), 1)


@pytest.mark.parametrize("mode", ["accept", "require"])
async def test_a_header_that_is_read_while_its_listener_ends_is_closed_without_an_error(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    async with behind(tmp_path, mode) as broker:
        (listener,) = (each for each in broker.server.socket_server.listeners if each.name == EXTERNAL)
        headers = gate_of(broker).proxy_headers
        assert headers is not None
        read = headers.read

        async def then_ends(sock: trio.socket.SocketType, *, is_trusted: bool) -> Client | None:
            client = await read(sock, is_trusted=is_trusted)
            listener.end()
            return client

        monkeypatch.setattr(headers, "read", then_ends)
        client = await through(broker, v2())
        assert await is_closed_soon(client)
        assert broker.server.failures.counts[FailedStep.ACCEPT] == 0
        assert counts(broker) == (0, {})
