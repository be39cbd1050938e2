"""The console over TLS on a loopback port: its responses, and the cost of peers that stall."""

import contextlib
import ssl
from collections.abc import AsyncGenerator

import pytest
import trio

from broker.config.sections.console import ConsoleTls
from broker.security.tls import server_context
from tests.support.certificates import certificates
from tests.support.machine_speed import WITHIN_S
from tests.webui.fakes import FakeBroker
from tests.webui.raw_http import Served, rest_of, served, until
from tests.webui.rows import throttled
from webui.fair_queue import FLOOD_WAIT_S, MAX_AT_ONCE, FairQueue
from webui.http import encryption, http_server
from webui.http.app import monotonic_ms

GET = b"GET %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%b\r\n"
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


def context() -> ssl.SSLContext:
    return server_context(ConsoleTls(keystore_location=str(certificates().server.store)))


@pytest.fixture
async def server(broker: FakeBroker) -> AsyncGenerator[Served, None]:
    own = context()
    async with served(broker, tls=lambda: own) as server:
        yield server


async def open_tls(
    server: Served, trust: ssl.SSLContext | None = None, source: str = "127.0.0.1"
) -> trio.SSLStream[trio.SocketStream]:
    trusted = trust or certificates().client_context()
    raw = await server.open(source=source)
    stream = trio.SSLStream(raw, trusted, server_hostname="localhost", https_compatible=True)
    try:
        with trio.fail_after(WITHIN_S):
            await stream.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(raw)
        raise
    return stream


async def ask(server: Served, path: bytes, headers: bytes = b"", source: str = "127.0.0.1") -> bytes:
    stream = await open_tls(server, source=source)
    await stream.send_all(GET % (path, headers))
    return await rest_of(stream)  # type: ignore[arg-type]


async def test_a_page_comes_encrypted_with_hsts_and_a_cookie_that_stays_so(
    server: Served, broker: FakeBroker
) -> None:
    code = broker.links.make(monotonic_ms())
    answer = await ask(server, b"/?code=" + code.encode())
    assert answer.startswith(b"HTTP/1.1 303")
    head = answer.lower()
    assert b"strict-transport-security: max-age=31536000" in head
    assert b"set-cookie: __host-weir-%d=" % server.port in head and b"; secure;" in head
    page = await ask(server, b"/healthz")
    assert page.endswith(b"ok\n")


@pytest.mark.parametrize(
    ("version", "name"), [(ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")]
)
async def test_both_versions_are_spoken(server: Served, version: ssl.TLSVersion, name: str) -> None:
    trust = certificates().client_context()
    trust.minimum_version = trust.maximum_version = version
    stream = await open_tls(server, trust)
    assert stream.version() == name
    await stream.aclose()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_older_versions_are_not(server: Served) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(trio.BrokenResourceError):
        await open_tls(server, old)
    assert (await ask(server, b"/healthz")).endswith(b"ok\n")


async def test_live_events_arrive_encrypted_and_the_shutdown_ends_them(
    server: Served, broker: FakeBroker
) -> None:
    stream = await open_tls(server)
    await stream.send_all(
        b"GET /api/v1/events?topics=throttled HTTP/1.1\r\nHost: localhost\r\n"
        b"Authorization: Bearer admin-token\r\n\r\n"
    )
    await until(stream, b'data: {"items":[],"total":0}')  # type: ignore[arg-type]
    broker.throttled_rows = [throttled("greedy")]
    assert b'"greedy"' in await until(stream, b'"total":1}')  # type: ignore[arg-type]
    server.shutdown.set()
    assert (await rest_of(stream)).endswith(b"0\r\n\r\n")  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [b"", b"x" * 60_000], ids=["none", "unread"])
async def test_a_client_without_tls_is_refused_with_the_reason(server: Served, body: bytes) -> None:
    stream = await server.open()
    await stream.send_all(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n" + body)
    received = await until(stream, b"https://")
    assert received.startswith(b"HTTP/1.1 400 ") and b"Set-Cookie" not in received
    await stream.send_eof()
    await rest_of(stream)


@pytest.mark.parametrize(
    "sent", [b"", b"\x16", CLIENT_HELLO, b"GET"], ids=["nothing", "byte", "half", "http"]
)
async def test_an_abandoned_handshake_is_closed_in_time(
    server: Served, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(encryption, "HANDSHAKE_S", 0.2)
    stream = await server.open()
    if sent:
        await stream.send_all(sent)
    before = trio.current_time()
    await rest_of(stream)
    assert trio.current_time() - before < 5


async def test_of_too_many_handshakes_the_eldest_is_evicted(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encryption, "MAX_AT_ONCE", 3)
    await ask(server, b"/healthz")  # connections wait in the backlog until the console is loaded
    stalled = []
    for _ in range(3):
        stalled.append(await server.open())
        await stalled[-1].send_all(CLIENT_HELLO)
        await trio.sleep(0.02)
    # The fourth is accepted, and the first is cancelled for it.
    assert (await ask(server, b"/healthz")).endswith(b"ok\n")
    await rest_of(stalled[0])
    for one in stalled[1:]:
        with trio.move_on_after(0.05) as limit:
            await one.receive_some()
        assert limit.cancelled_caught
        await one.aclose()


@pytest.mark.slow
async def test_two_hundred_half_handshakes_delay_no_client_of_another_address(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encryption, "HANDSHAKE_S", 4 * WITHIN_S)
    await ask(server, b"/healthz")  # connections wait in the backlog until the console is loaded
    halves = []
    for _ in range(200):
        halves.append(await server.open())
        await halves[-1].send_all(CLIENT_HELLO)
    with trio.fail_after(WITHIN_S):
        assert (await ask(server, b"/healthz", source="127.0.0.2")).endswith(b"ok\n")
    for half in halves:
        await trio.aclose_forcefully(half)


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01\xff\xff" + b"\x01\xff\xff\xff" + bytes(100), b"\x16\x03\x01\x00\x05hello", b"\x16" * 500],
    ids=["16 MB announced", "no hello", "noise"],
)
async def test_bytes_that_are_no_handshake_close_their_connection_only(
    server: Served, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    stream = await server.open()
    await stream.send_all(sent)
    await stream.send_eof()
    await rest_of(stream)
    assert (await ask(server, b"/healthz")).endswith(b"ok\n")
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_peer_that_does_not_read_is_given_up(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "STALLED_AFTER_S", 0.2)
    stream = await open_tls(server)
    ask_again = b"GET /static/x/css/common.css HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with trio.move_on_after(10) as limit:
        try:
            while True:
                await stream.send_all(ask_again)
        except trio.BrokenResourceError:
            pass
    assert not limit.cancelled_caught
    await trio.aclose_forcefully(stream)


async def test_a_handshake_waits_for_a_turn_of_its_address_and_is_refused_without_one() -> None:
    lines = FairQueue()
    waiting = [lines.turn("handshake 127.0.0.1") for _ in range(MAX_AT_ONCE + round(FLOOD_WAIT_S))]
    begin = encryption.Encryption(context, lines).begin
    async with trio.open_nursery() as nursery:
        for address, is_begun in (("127.0.0.1", False), ("127.0.0.2", True)):
            listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
            port = listener.socket.getsockname()[1]

            async def client(port: int = port) -> None:
                raw = await trio.open_tcp_stream("127.0.0.1", port)
                tls = trio.SSLStream(raw, certificates().client_context(), server_hostname="localhost")
                with contextlib.suppress(trio.BrokenResourceError):
                    await tls.do_handshake()
                await trio.aclose_forcefully(tls)

            nursery.start_soon(client)
            stream = await listener.accept()
            assert (await begin(stream, address) is not None) == is_begun
            await trio.aclose_forcefully(stream)
            await listener.aclose()
    for turn in waiting:
        turn.done()
    assert len(lines) == 0


async def test_stalled_handshakes_of_one_address_push_out_none_of_another(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encryption, "MAX_AT_ONCE", 3)
    await ask(server, b"/healthz")
    other = await server.open(source="127.0.0.2")
    await other.send_all(CLIENT_HELLO)
    await trio.sleep(0.02)
    stalled = [await server.open() for _ in range(10)]
    for one in stalled:
        await one.send_all(CLIENT_HELLO)
    await trio.sleep(0.05)
    with trio.move_on_after(0.05) as limit:
        await other.receive_some()
    assert limit.cancelled_caught
    for one in (other, *stalled):
        await trio.aclose_forcefully(one)
