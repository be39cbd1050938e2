"""Hostile requests: two requests in one, endless bodies, path traversal, outdated streams."""

from collections.abc import AsyncGenerator
from typing import Final

import pytest
import trio

from tests.webui.conftest import OWN_HOST, Browserless, Clock
from tests.webui.fake_access import ADMIN
from tests.webui.fakes import FakeBroker
from tests.webui.raw_http import Served, rest_of, served, until
from webui.http import app
from webui.pages import PAGES
from webui.security.gate import LONGEST_HEAD

BEARER = b"Authorization: Bearer admin-token\r\n"
PATCH = b"PATCH /api/v1/client-quotas HTTP/1.1\r\nHost: localhost\r\n" + BEARER
JSON = b"Content-Type: application/json\r\n"
BODY = b'{"entries":[{"entity":{"user":"a"},"ops":[{"key":"producer_byte_rate","value":1}]}]}'
HIDDEN = b"DELETE /api/v1/tokens/vi HTTP/1.1\r\nHost: localhost\r\n" + BEARER + b"\r\n"


@pytest.fixture
async def server(broker: FakeBroker) -> AsyncGenerator[Served, None]:
    async with served(broker) as server:
        yield server


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5, 6\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: 0x5\r\n",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b" Transfer-Encoding: chunked\r\n",
    ],
)
async def test_a_request_of_two_lengths_hides_no_other(
    server: Served, broker: FakeBroker, framing: bytes
) -> None:
    stream = await server.open()
    await stream.send_all(PATCH + JSON + framing + b"\r\n0\r\n\r\n" + HIDDEN)
    await stream.send_eof()
    answer = await rest_of(stream)
    assert b"204" not in answer.partition(b"\r\n")[0]
    assert ADMIN in broker.token_rows and len(broker.token_rows) == 3 and broker.applied == []


async def test_a_line_end_in_an_address_or_a_header_makes_no_header(server: Served) -> None:
    own = b"weir-%d.localhost:%d" % (server.port, server.port)
    for host in (b"localhost", own):
        for target in (b"/?code=a%0d%0aSet-Cookie:%20weir-0=x", b"/%0d%0aX-Injected:%201"):
            stream = await server.open()
            end = b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
            await stream.send_all(b"GET " + target + end)
            lines = (await rest_of(stream)).partition(b"\r\n\r\n")[0].lower().splitlines()
            assert not [line for line in lines if line.strip().startswith((b"x-injected", b"set-cookie"))]


@pytest.mark.parametrize(
    "target",
    [
        b"/static/x/../../app.py",
        b"/static/x/%2e%2e/%2e%2e/app.py",
        b"/static/x/..%2f..%2fapp.py",
        b"/static/x/....//app.py",
        b"/static/x/css/base.css%00.py",
        b"/static/x//etc/passwd",
        b"/static/x/%252e%252e/app.py",
        b"//etc/passwd",
    ],
)
async def test_no_address_leads_out_of_the_package(server: Served, target: bytes) -> None:
    stream = await server.open()
    await stream.send_all(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answer = await rest_of(stream)
    assert answer.startswith(b"HTTP/1.1 404") and b"import" not in answer and b"root:" not in answer


@pytest.mark.parametrize(
    "host", [b"Host: evil.example\r\n", b"", b"Host: localhost\r\nHost: evil.example\r\n"]
)
async def test_an_address_that_names_a_host_is_not_believed_for_it(server: Served, host: bytes) -> None:
    stream = await server.open()
    line = b"GET http://localhost/api/v1/tokens HTTP/1.1\r\n"
    await stream.send_all(line + host + BEARER + b"Connection: close\r\n\r\n")
    assert b"200" not in (await rest_of(stream)).partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "query", ["next=//evil.example", "redirect=https://evil.example", "return_to=/\\evil.example"]
)
async def test_signing_in_leads_to_a_page_of_the_console_and_nowhere_else(
    http: Browserless, broker: FakeBroker, clock: Clock, query: str
) -> None:
    def link(path: str) -> str:
        return f"{path}?code={broker.links.make(clock.ms)}"

    for host in (OWN_HOST, "127.0.0.1:8080"):
        for path in ("//evil.example/", "/\\evil.example", "/%2f%2fevil.example"):
            answer = await http.get(link(path), token=None, Sec_Fetch_Site="none", Host=host)
            assert answer.status_code in (404, 405) and "Location" not in answer.headers
    for page in PAGES:
        answer = await http.get(f"{link(page.path)}&{query}", token=None, Sec_Fetch_Site="none")
        assert answer.headers["Location"] == page.path
        moved = await http.get(f"{page.path}?{query}", token=None, Host="127.0.0.1:8080")
        assert moved.headers["Location"].startswith(f"http://{OWN_HOST}{page.path}?")


async def test_a_body_that_never_ends_is_hung_up_on(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten seconds by default, while all other clients are served."""
    monkeypatch.setattr(app, "BODY_TIMEOUT_S", 0.3)
    async with served(broker) as server:
        slow = [await server.open() for _ in range(36)]  # 32 have their turn at once, then one each second
        for stream in slow:
            await stream.send_all(PATCH + JSON + b"Content-Length: %d\r\n\r\n{" % len(BODY))
        assert (await rest_of(await server.ask("/healthz", b"Connection: close\r\n"))).endswith(b"ok\n")
        for stream in slow:
            assert (await until(stream, b"\r\n")).startswith(b"HTTP/1.1 408")
            await trio.aclose_forcefully(stream)
    assert broker.applied == []


HEAD: Final = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
OF_HEAD: Final = len(b"/healthzHostlocalhostConnectionclose")


@pytest.mark.parametrize(
    "frame",
    [
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 4_000,
        b"GET /" + b"a" * 17_000,
        HEAD + b"X: y\r\n" * 8_200 + b"\r\n",
        HEAD + b"X:" + b"y" * (LONGEST_HEAD - OF_HEAD) + b"\r\n\r\n",
    ],
    ids=["without an end", "address", "many", "one byte more"],
)
async def test_headers_have_16_kib_and_no_byte_more(server: Served, frame: bytes) -> None:
    stream = await server.open()
    await stream.send_all(frame)
    assert (await rest_of(stream)).startswith(b"HTTP/1.1 431")


async def test_headers_have_16_kib_whole(server: Served) -> None:
    stream = await server.open()
    await stream.send_all(HEAD + b"X:" + b"y" * (LONGEST_HEAD - OF_HEAD - 1) + b"\r\n\r\n")
    assert (await rest_of(stream)).startswith(b"HTTP/1.1 200")


async def test_a_stream_ends_when_its_bearer_token_is_revoked(server: Served, broker: FakeBroker) -> None:
    stream = await server.ask("/api/v1/events", BEARER)
    assert b"event: signed-out" not in await until(stream, b"event: overview")
    broker.token_rows = [row for row in broker.token_rows if row != ADMIN]
    broker.version += 1
    assert b"event: signed-out" in await until(stream, b"event: signed-out")
    await trio.aclose_forcefully(stream)
    refused = await rest_of(await server.ask("/api/v1/events", BEARER + b"Connection: close\r\n"))
    assert refused.startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("scheme", [b"h2c", b"websocket"])
async def test_a_connection_cannot_be_upgraded_past_the_gate(server: Served, scheme: bytes) -> None:
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\nUpgrade: " + scheme
    stream = await server.ask("/api/v1/tokens", upgrade + b"\r\n")
    assert (await until(stream, b"\r\n")).startswith((b"HTTP/1.1 401", b"HTTP/1.1 400"))
    await trio.aclose_forcefully(stream)


async def test_the_preface_of_http_2_opens_nothing(server: Served) -> None:
    stream = await server.open()
    await stream.send_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    await stream.send_eof()
    assert (await rest_of(stream)).startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("name", [b"%FF", b"a%FE", b"%C3"])
async def test_a_name_that_is_not_utf_8_is_no_other_name(server: Served, name: bytes) -> None:
    stream = await server.open()
    line = b"GET /api/v1/tokens/" + name + b" HTTP/1.1\r\nHost: localhost\r\n"
    await stream.send_all(line + BEARER + b"Connection: close\r\n\r\n")
    assert (await rest_of(stream)).startswith(b"HTTP/1.1 400")
