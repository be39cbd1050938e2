"""Guesses at secrets over real connections: each route counts a guess before it compares the secret."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

import pytest
import trio
import trio.testing

from broker.controller.rows.broker import TokenRow
from tests.webui.fake_access import EDITOR
from tests.webui.fakes import FakeBroker
from tests.webui.raw_http import Served, rest_of, served, until
from webui.fair_queue import MAX_AT_ONCE
from webui.http import app, http_server
from webui.security import backoff
from webui.security.backoff import FREE_GUESSES

LOGIN: Final = (
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
)
CLOSE: Final = b"Connection: close\r\n"
ATTACKS: Final = 600


class Comparing(FakeBroker):
    """`compared` lists the secrets that were compared with the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.compared: list[str] = []

    def identify(self, secret: str) -> TokenRow | None:
        self.compared.append(secret)
        return super().identify(secret)


class Stopped:
    """Replacement of the module time, so that waits do not end while a slow machine sends its requests."""

    time_ns = staticmethod(time.time_ns)

    @staticmethod
    def monotonic_ns() -> int:
        return 10**15


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "time", Stopped)
    # Unfinished requests stay in progress until the test closes them.
    monkeypatch.setattr(app, "BODY_TIMEOUT_S", 600)
    monkeypatch.setattr(http_server, "STALLED_AFTER_S", 600.0)


@pytest.fixture
def broker() -> Comparing:
    broker = Comparing()
    broker.passwords["vi"] = "correct horse battery"
    return broker


@pytest.fixture
async def server(broker: Comparing) -> AsyncGenerator[Served, None]:
    async with served(broker) as server:
        yield server


def bearer(secret: str) -> bytes:
    return f"Authorization: Bearer {secret}\r\n".encode()


async def by_bearer(server: Served, secret: str) -> bytes:
    return await rest_of(await server.ask("/api/v1/tasks", bearer(secret) + CLOSE))


async def by_stream(server: Served, secret: str) -> bytes:
    stream = await server.ask("/api/v1/events?topics=tasks", bearer(secret))
    async with stream:
        return await until(stream, b"\r\n\r\n")


async def by_link(server: Served, secret: str) -> bytes:
    stream = await server.open()
    host = f"Host: weir-{server.port}.localhost:{server.port}\r\n".encode()
    await stream.send_all(b"GET /?code=%b HTTP/1.1\r\n" % secret.encode() + host + CLOSE + b"\r\n")
    return await rest_of(stream)


async def posted(server: Served, body: str) -> bytes:
    stream = await server.open()
    await stream.send_all(LOGIN + b"Content-Length: %d\r\n\r\n" % len(body) + body.encode())
    return await rest_of(stream)


async def by_form(server: Served, secret: str) -> bytes:
    return await posted(server, f'{{"token": "{secret}"}}')


async def by_password(server: Served, secret: str) -> bytes:
    secret = "correct horse battery" if secret == "viewer-token" else secret
    return await posted(server, f'{{"name": "vi", "password": "{secret}"}}')


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


Way = Callable[[Served, str], Awaitable[bytes]]
WAYS: Final[list[Way]] = [by_bearer, by_stream, by_link, by_form, by_password]


@pytest.mark.parametrize("way", WAYS)
async def test_the_sixth_guess_waits_in_every_place_that_takes_a_secret(server: Served, way: Way) -> None:
    answers = [status(await way(server, f"guess{index}")) for index in range(FREE_GUESSES + 1)]
    assert answers == [401] * FREE_GUESSES + [429]
    for other in WAYS:
        assert status(await other(server, "viewer-token")) == 429


@pytest.mark.parametrize("way", WAYS)
async def test_forty_guesses_alternating_with_a_valid_token_are_forty_guesses(
    server: Served, way: Way
) -> None:
    answers = []
    for index in range(40):
        assert status(await by_bearer(server, "viewer-token")) == 200
        answers.append(status(await way(server, f"guess{index}")))
    assert answers == [401] * FREE_GUESSES + [429] * (40 - FREE_GUESSES)


async def test_six_hundred_unfinished_requests_get_no_guess_through_a_lock(
    server: Served, broker: Comparing, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As many requests in progress make a request in the queue of its address wait, whatever the rate is, and
    # none in the queue of a token: without the rule under test the wait would reveal the right token.
    monkeypatch.setattr(backoff, "FREE_GUESSES", MAX_AT_ONCE)
    begun = trio.Semaphore(0)
    begin = backoff.GuessBackoff.begin

    def note(self: backoff.GuessBackoff, address: str, now_ms: int) -> backoff.Guess:
        begun.release()
        return begin(self, address, now_ms)

    monkeypatch.setattr(backoff.GuessBackoff, "begin", note)
    logins = [await unfinished_login(server) for _ in range(MAX_AT_ONCE)]
    for _ in logins:
        await begun.acquire()
    for index in range(ATTACKS):
        stream = await server.ask("/api/v1/tasks", bearer(f"guess{index}"))
        await trio.aclose_forcefully(stream)
    await trio.testing.wait_all_tasks_blocked(0.05)
    right = await server.ask("/api/v1/tasks", bearer("admin-token"))
    with trio.move_on_after(0.5) as quickly:
        await right.receive_some()
    assert quickly.cancelled_caught
    assert broker.compared == []
    await close(*logins, right)


async def close(*streams: trio.SocketStream) -> None:
    for stream in streams:
        await trio.aclose_forcefully(stream)


async def unfinished_login(server: Served) -> trio.SocketStream:
    """An unauthenticated request that waits for its turn or body, and so stays in the queue."""
    stream = await server.open()
    await stream.send_all(LOGIN + b"Content-Length: 20\r\n\r\n{")
    return stream


async def test_six_hundred_unfinished_requests_are_five_guesses(server: Served, broker: Comparing) -> None:
    for index in range(ATTACKS):
        stream = await server.ask("/api/v1/tasks", bearer(f"guess{index}"))
        await trio.aclose_forcefully(stream)
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert status(await by_bearer(server, "admin-token")) == 429
    assert len(broker.compared) == FREE_GUESSES


@pytest.mark.parametrize(("unfinished", "answer"), [(4, 200), (5, 429)])
async def test_a_sign_in_is_counted_before_its_body_comes(
    server: Served, unfinished: int, answer: int
) -> None:
    connections = []
    for _ in range(unfinished):
        connections.append(await unfinished_login(server))
        await trio.testing.wait_all_tasks_blocked(0.02)
    assert status(await by_form(server, "viewer-token")) == answer
    await close(*connections)
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert status(await by_form(server, "viewer-token")) == 200


async def test_a_lock_holds_no_other_address_and_no_session(server: Served) -> None:
    cookie = (await by_form(server, "admin-token")).split(b"Set-Cookie: ")[-1].split(b"set-cookie: ")[-1]
    cookie = cookie.split(b";")[0]
    for index in range(FREE_GUESSES + 1):
        await by_bearer(server, f"guess{index}")
    own_address = await server.ask("/api/v1/tasks", b"Cookie: " + cookie + b"\r\n" + CLOSE)
    assert status(await rest_of(own_address)) == 200
    other_address = await server.ask("/api/v1/tasks", bearer("viewer-token") + CLOSE, source="127.0.0.2")
    assert status(await rest_of(other_address)) == 200
    assert status(await by_bearer(server, "viewer-token")) == 429


async def test_a_program_with_a_token_goes_on_while_a_client_guesses_behind_its_address(
    server: Served,
) -> None:
    assert status(await by_bearer(server, "viewer-token")) == 200
    for index in range(FREE_GUESSES + 1):
        await by_bearer(server, f"guess{index}")
    assert status(await by_bearer(server, "viewer-token")) == 200
    assert status(await by_bearer(server, "admin-token")) == 429


async def test_a_token_that_is_revoked_while_its_request_waits_opens_nothing(
    server: Served, broker: Comparing
) -> None:
    connections = []
    for _ in range(MAX_AT_ONCE):
        stream = await server.open()
        body = b"Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"
        head = b"PATCH /api/v1/client-quotas HTTP/1.1\r\nHost: localhost\r\n"
        await stream.send_all(head + bearer("editor-token") + body)
        connections.append(stream)
    await trio.testing.wait_all_tasks_blocked(0.05)
    waiting = await server.ask("/api/v1/tasks", bearer("editor-token") + CLOSE)
    await trio.testing.wait_all_tasks_blocked(0.05)
    broker.token_rows.remove(EDITOR)
    broker.version += 1
    assert status(await rest_of(waiting)) == 401
    await close(*connections)
