"""The console behind balancers and HTTP proxies: whose requests, guesses and limits are counted."""

import logging
from ipaddress import ip_network

import pytest
import trio
import trio.testing

from broker.common.proxy_protocol import HeaderRefusal
from tests.support.certificates import certificates
from tests.support.proxy_protocol import CLIENT, local, v1, v2, with_checksum
from tests.webui.fakes import FakeBroker
from tests.webui.http.test_encryption import context
from tests.webui.raw_http import Served, rest_of, served

LOOPBACK, ELSEWHERE = "127.0.0.1", "127.0.0.2"
TRUSTED = (ip_network(LOOPBACK),)
GET = b"GET %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%b\r\n"
WRONG = b"Authorization: Bearer wrong-%d\r\n"


async def ask(
    server: Served, before: bytes, headers: bytes = b"", path: bytes = b"/healthz", source: str = LOOPBACK
) -> bytes:
    """The response to a request behind these bytes; empty if the console closes the connection."""
    stream = await server.open(source)
    try:
        await stream.send_all(before + GET % (path, headers))
        return await rest_of(stream)
    except trio.BrokenResourceError:
        return b""


def behind(mode: str) -> dict[str, object]:
    return {"proxy_mode": mode, "proxy_protocol_trusted_addresses": TRUSTED}


@pytest.mark.parametrize("mode", ["accept", "require"])
@pytest.mark.parametrize("header", [v1(), v2(), local()], ids=["v1", "v2", "LOCAL"])
async def test_a_header_is_read_before_the_request(broker: FakeBroker, mode: str, header: bytes) -> None:
    async with served(broker, **behind(mode)) as server:
        assert (await ask(server, header)).endswith(b"ok\n")


@pytest.mark.parametrize(
    ("mode", "before", "source", "is_served"),
    [
        ("none", b"", LOOPBACK, True),
        ("accept", b"", LOOPBACK, True),
        ("accept", b"", ELSEWHERE, True),
        ("accept", v2(), ELSEWHERE, False),
        ("accept", v1(), ELSEWHERE, False),
        ("accept", with_checksum(wrong=1), LOOPBACK, False),
        ("require", b"", LOOPBACK, False),
        ("require", b"", ELSEWHERE, False),
        ("require", v2(), ELSEWHERE, False),
    ],
)
async def test_who_may_send_a_header_and_who_must(
    broker: FakeBroker, mode: str, before: bytes, source: str, is_served: bool
) -> None:
    async with served(broker, **(behind(mode) if mode != "none" else {})) as server:
        assert (await ask(server, before, source=source)).endswith(b"ok\n") is is_served


async def test_put_is_no_header(broker: FakeBroker) -> None:
    async with served(broker, **behind("accept")) as server:
        stream = await server.open()
        await stream.send_all(b"P")
        await trio.testing.wait_all_tasks_blocked(0.01)
        await stream.send_all(b"UT /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await rest_of(stream)).startswith(b"HTTP/1.1 405")


@pytest.mark.parametrize(("reason", "before"), [
    (HeaderRefusal.CHECKSUM, with_checksum(wrong=1)),
    (HeaderRefusal.MALFORMED, b"PROXY TCP4 nowhere\r\n"),
    (HeaderRefusal.MISSING, b""),
])  # fmt: skip
async def test_a_refused_header_is_counted_and_one_line_with_its_reason(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture, reason: HeaderRefusal, before: bytes
) -> None:
    caplog.set_level(logging.INFO)
    async with served(broker, **behind("require")) as server:
        assert await ask(server, before) == b""
    words = f"console closed connections for their PROXY header: {reason}"
    (line,) = [each for each in caplog.records if each.getMessage() == words]
    assert (line.__dict__["address"], line.__dict__["refused"]) == (LOOPBACK, 1)
    assert broker.refused_headers == {**dict.fromkeys(HeaderRefusal, 0), reason: 1}


async def test_without_headers_none_is_counted(broker: FakeBroker) -> None:
    async with served(broker) as server:
        assert await ask(server, v1()) != b""
    assert broker.refused_headers == {}


async def test_tls_begins_behind_the_header(broker: FakeBroker) -> None:
    own = context()
    async with served(broker, tls=lambda: own, **behind("require")) as server:
        raw = await server.open()
        await raw.send_all(v2())
        stream = trio.SSLStream(
            raw, certificates().client_context(), server_hostname="localhost", https_compatible=True
        )
        await stream.send_all(GET % (b"/healthz", b""))
        assert (await rest_of(stream)).endswith(b"ok\n")  # type: ignore[arg-type]


async def test_guesses_are_its_clients(broker: FakeBroker) -> None:
    """Wrong tokens of one client behind a balancer lock out no other."""
    async with served(broker, **behind("require")) as server:
        path = b"/api/v1/overview"
        for number in range(8):
            answer = await ask(server, v2(), WRONG % number, path)
        assert answer.startswith(b"HTTP/1.1 429")
        other = await ask(server, v2(("192.0.2.8", 1)), WRONG % 100, path)
        assert other.startswith(b"HTTP/1.1 401")


async def test_the_limit_of_connections_is_its_clients_and_not_the_balancers(broker: FakeBroker) -> None:
    async with served(broker, max_connections_per_ip=1, **behind("require")) as server:
        kept = []
        for header in (local(), local(), v2(), v2(("192.0.2.8", 1))):
            stream = await server.open()
            await stream.send_all(header)
            kept.append(stream)
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert (await ask(server, v2())).endswith(b"ok\n"), "in place of its idle one"
        assert await rest_of(kept[2]) == b""
        for at in (0, 1, 3):
            await kept[at].send_all(GET % (b"/healthz", b""))
            assert (await rest_of(kept[at])).endswith(b"ok\n")


# X-Forwarded-For


async def test_the_header_of_a_trusted_proxy_alone_is_believed(broker: FakeBroker) -> None:
    path = b"/api/v1/overview"
    forwarded = b"X-Forwarded-For: 192.0.2.%d\r\n"
    for trusted, status in ((TRUSTED, b"HTTP/1.1 401"), ((), b"HTTP/1.1 429")):
        async with served(broker, forwarded_for_trusted_addresses=trusted) as server:
            for number in range(8):
                await ask(server, b"", forwarded % 7 + WRONG % number, path)
            answer = await ask(server, b"", forwarded % 8 + WRONG % 100, path)
            assert answer.startswith(status)


async def test_a_proxy_has_no_limit_of_connections(broker: FakeBroker) -> None:
    for trusted, closed in ((TRUSTED, False), ((), True)):
        async with served(
            broker, max_connections_per_ip=1, forwarded_for_trusted_addresses=trusted
        ) as server:
            first = await server.open()
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert (await ask(server, b"")).endswith(b"ok\n")
            if closed:
                assert await rest_of(first) == b""
            else:
                await first.send_all(GET % (b"/healthz", b""))
                assert (await rest_of(first)).endswith(b"ok\n")


async def test_the_audit_trail_has_the_clients_address(broker: FakeBroker) -> None:
    body = b'{"entries": [{"entity": {"user": "a"}, "ops": [{"key": "producer_byte_rate", "value": 1}]}]}'
    head = b"Authorization: Bearer admin-token\r\nX-Forwarded-For: 192.0.2.7\r\n"
    more = head + b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    for settings, before, expected in (
        ({"forwarded_for_trusted_addresses": TRUSTED}, b"", CLIENT[0]),
        ({}, b"", LOOPBACK),
        (behind("require"), v2(("192.0.2.8", 1)), "192.0.2.8"),
    ):
        async with served(broker, **settings) as server:
            stream = await server.open()
            request = b"PATCH /api/v1/client-quotas HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            await stream.send_all(before + request + more + b"\r\n" + body)
            assert (await rest_of(stream)).startswith(b"HTTP/1.1 2")
        assert broker.trail[-1].address == expected
