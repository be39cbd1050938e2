"""The console's connections on a loopback port: none leaks, none affects the others, all end."""

import json
import logging
import socket
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any

import pytest
import trio

from broker.common.errors import ConfigError
from broker.controller.rows.broker import TaskRow
from tests.support.machine_speed import WITHIN_S
from tests.webui.fakes import FakeBroker, console_config
from tests.webui.raw_http import Served, rest_of, served, until
from tests.webui.rows import throttled
from webui.http import http_server, request
from webui.http.connection_limits import ConnectionLimits
from webui.live.broadcaster import BROADCAST_EVERY_S
from webui.serving import serve_console

BEARER = b"Authorization: Bearer admin-token\r\n"


@pytest.fixture
async def server(broker: FakeBroker) -> AsyncGenerator[Served, None]:
    async with served(broker) as server:
        yield server


async def test_an_answered_connection_that_asked_to_be_closed_is(server: Served) -> None:
    # Without WholeSendConnection the close is cancelled before EOF is sent.
    answer = await rest_of(await server.ask("/healthz", b"Connection: close\r\n"))
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"ok\n")
    assert b"\r\nserver:" not in answer.lower()


async def test_a_connection_is_used_again(server: Served) -> None:
    stream = await server.open()
    for _ in range(3):
        await stream.send_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" in await until(stream, b"ok\n")
    await stream.aclose()


async def test_an_answer_without_content_has_no_media_type(server: Served, broker: FakeBroker) -> None:
    broker.set((("user", "alice"),), {"producer_byte_rate": 1_000})
    stream = await server.open()
    head = b"Host: localhost\r\nConnection: close\r\n" + BEARER
    await stream.send_all(b"DELETE /api/v1/client-quotas/user=alice HTTP/1.1\r\n" + head + b"\r\n")
    answer = (await rest_of(stream)).lower()
    assert answer.startswith(b"http/1.1 204") and answer.endswith(b"\r\n\r\n")
    assert b"\r\ncontent-type:" not in answer and b"\r\ncontent-length:" not in answer


async def test_http_1_0_is_closed_after_its_answer(server: Served) -> None:
    stream = await server.open()
    await stream.send_all(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert (await rest_of(stream)).endswith(b"ok\n")


@pytest.mark.parametrize(
    "sent",
    [b"\x00\x00\x00\x10\x00\x12\x00\x03garbage...", b"\x16\x03\x01\x02\x00\x01\x00",
     b"GET / HTTP/9.9\r\n\r\n",
     b"\r\n\r\n\r\n", b"A" * 20_000],
    ids=["kafka", "tls", "version", "nothing", "long"],
)  # fmt: skip
async def test_bytes_that_are_not_http_close_their_connection_only(server: Served, sent: bytes) -> None:
    stream = await server.open()
    await stream.send_all(sent)
    await stream.send_eof()
    await rest_of(stream)
    assert (await rest_of(await server.ask("/healthz", b"Connection: close\r\n"))).endswith(b"ok\n")


async def test_live_events_arrive_and_the_shutdown_ends_them(server: Served, broker: FakeBroker) -> None:
    stream = await server.ask("/api/v1/events?topics=throttled", BEARER)
    await until(stream, b'data: {"items":[],"total":0}')
    broker.throttled_rows = [throttled("greedy")]
    event = await until(stream, b'"total":1}')
    data = json.loads(event[event.index(b'{"items"') : event.index(b'"total":1}') + 10])
    assert data["items"][0]["client_id"] == "greedy"
    before = trio.current_time()
    server.shutdown.set()
    assert (await rest_of(stream)).endswith(b"0\r\n\r\n")
    assert trio.current_time() - before < 1


class Counting(FakeBroker):
    """Counts reads of the tasks. Throttled channels are also read for the last hour without an open page."""

    looks = 0

    def tasks(self) -> list[TaskRow]:
        self.looks += 1
        return super().tasks()


async def test_a_browser_that_leaves_is_not_served_any_more() -> None:
    broker = Counting()
    async with served(broker) as server:
        stream = await server.ask("/api/v1/events?topics=tasks", BEARER)
        await until(stream, b"event: tasks")
        await stream.aclose()
        before = 0
        with trio.fail_after(WITHIN_S):
            while broker.looks > before:
                before = broker.looks
                await trio.sleep(3 * BROADCAST_EVERY_S)
        assert before > 0


async def test_a_peer_that_does_not_read_does_not_hold_the_shutdown(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "STALLED_AFTER_S", 0.3)
    broker.throttled_rows = [throttled("x" * 200_000, connection_id=str(index)) for index in range(100)]
    async with served(broker) as server:
        stream = await server.ask("/api/v1/throttled-channels", BEARER)
        await trio.sleep(0.6)
        before = trio.current_time()
        server.shutdown.set()
        with trio.fail_after(WITHIN_S):
            await server.ended.wait()
        assert trio.current_time() - before < http_server.GRACE_S + 6
        await trio.aclose_forcefully(stream)


async def test_a_request_in_hand_is_finished_after_the_shutdown_began(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = trio.Event()
    wanted: Callable[..., Any] = broker.apply

    async def slow(*given: Any) -> Any:
        begun.set()
        await trio.sleep(0.5)
        return await wanted(*given)

    monkeypatch.setattr(broker, "apply", slow)
    body = b'{"entries": [{"entity": {"user": "a"}, "ops": [{"key": "producer_byte_rate", "value": 1}]}]}'
    async with served(broker) as server:
        stream = await server.open()
        head = (
            b"PATCH /api/v1/client-quotas HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        )
        await stream.send_all(head + BEARER + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await begun.wait()
        server.shutdown.set()
        assert b"HTTP/1.1 200" in await rest_of(stream)
    assert list(broker.rows) == [(("user", "a"),)]


IDLE = 512
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def test_as_many_idle_connections_as_there_may_be_hold_up_no_health_check(server: Served) -> None:
    idle = [await server.open() for _ in range(IDLE)]
    for _ in range(3):
        assert (await rest_of(await server.ask("/healthz", b"Connection: close\r\n"))).endswith(b"ok\n")
    for stream in idle:
        await trio.aclose_forcefully(stream)


async def is_open(stream: trio.SocketStream) -> bool:
    with trio.move_on_after(0.1):
        return bool(await stream.receive_some())
    return True


@pytest.mark.parametrize(("count", "first_is_open"), [(2, True), (3, True), (4, False)])
async def test_of_more_connections_of_an_address_than_it_may_have_the_eldest_idle_one_is_evicted(
    broker: FakeBroker, count: int, first_is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = trio.Event()
    enter = ConnectionLimits.enter

    def count_entries(
        self: ConnectionLimits, address: str, close: Callable[[], None], *, is_proxys: bool
    ) -> Any:
        entered.set()
        return enter(self, address, close, is_proxys=is_proxys)

    monkeypatch.setattr(ConnectionLimits, "enter", count_entries)
    async with served(broker, max_connections_per_ip=3) as server:
        streams = []
        for _ in range(count):
            entered = trio.Event()
            streams.append(await server.open())
            with trio.fail_after(WITHIN_S):
                await entered.wait()
        other = await server.open(source="127.0.0.2")
        if not first_is_open:
            first = streams.pop(0)
            with trio.fail_after(WITHIN_S):
                assert await first.receive_some() == b""
            await first.aclose()
        for stream in (*streams, other):
            await stream.send_all(HEALTH)
            await until(stream, b"ok\n")
            await stream.aclose()


async def test_a_connection_with_a_request_in_hand_makes_space_for_none(broker: FakeBroker) -> None:
    async with served(broker, max_connections=2) as server:
        busy = [await server.ask("/api/v1/events?topics=tasks", BEARER) for _ in range(2)]
        for stream in busy:
            await until(stream, b"event: tasks")
        # Connections beyond the limit may send health checks only.
        check = await rest_of(await server.ask("/healthz", b"Connection: close\r\n"))
        assert check.endswith(b"ok\n")
        refused = await rest_of(await server.ask("/api/v1/tasks", BEARER, source="127.0.0.2"))
        assert refused.startswith(b"HTTP/1.1 503") and b"Connection limit reached" in refused
        for stream in busy:
            assert await is_open(stream)
            await trio.aclose_forcefully(stream)


@pytest.mark.parametrize("more", [b"", b"Content-Length: 3\r\n", BEARER])
async def test_a_websocket_is_refused_before_the_framework(
    server: Served, caplog: pytest.LogCaptureFixture, more: bytes
) -> None:
    caplog.set_level(logging.INFO, "webui")
    upgrade = (
        b"Connection: Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" + more
    )
    for _ in range(5):
        stream = await server.ask("/api/v1/events", upgrade)
        answer = await rest_of(stream)
        assert answer.startswith(b"HTTP/1.1 400") and b"WebSockets are not supported" in answer
    lines = [record for record in caplog.records if record.name.startswith("webui")]
    assert 1 <= len(lines) <= 2 and not any(record.exc_info for record in caplog.records)


async def test_headers_that_never_end_close_the_connection(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = http_server.hypercorn_config

    def hasty() -> Any:
        config = made()
        config.keep_alive_timeout = 0.3
        return config

    monkeypatch.setattr(http_server, "hypercorn_config", hasty)
    async with served(broker) as server:
        stream = await server.open()
        await stream.send_all(b"GET / HTTP/1.1\r\nHost: ")
        assert await rest_of(stream) == b""


async def test_a_broken_connection_is_logged_and_the_broker_goes_on(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def break_(self: object) -> None:
        raise RuntimeError("hypercorn broke")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(http_server.HypercornConnection, "run", break_)
        assert await rest_of(await server.open()) == b""
    assert "hypercorn broke" in caplog.text
    assert (await rest_of(await server.ask("/healthz", b"Connection: close\r\n"))).endswith(b"ok\n")


async def test_a_taken_port_stops_the_start(broker: FakeBroker) -> None:
    async with served(broker) as server:
        again = partial(serve_console, broker.backend(), console_config(port=server.port))
        with pytest.raises(ConfigError, match="in use"):
            await again(shutdown=trio.Event())


async def test_being_cancelled_ends_everything(broker: FakeBroker) -> None:
    with trio.move_on_after(0.5) as scope:
        await serve_console(broker.backend(), console_config(), shutdown=trio.Event())
    assert scope.cancelled_caught


def test_the_patience_of_a_send_is_longer_than_that_of_the_stream() -> None:
    # The stream must time out first, or the shield of the request task would interrupt a send.
    assert http_server.STALLED_AFTER_S < request.SEND_LIMIT_S


async def test_a_closed_connection_takes_nothing() -> None:
    one, other = trio.socket.socketpair()
    connection = http_server.PlainStream(trio.SocketStream(one), http_server.ReadScheduler())
    assert connection.send_nowait(b"hello") == 5
    one.close()
    # Another socket may have its number by now.
    third, fourth = trio.socket.socketpair()
    with other, third, fourth, pytest.raises(OSError, match="Bad file descriptor"):
        connection.send_nowait(b"not for you")


async def test_of_connections_that_receive_at_once_one_goes_on_in_each_turn() -> None:
    """Without the scheduler, six connections would handle their data in one turn of the loop."""
    turns, gone_on = 0, []

    class Turns(trio.abc.Instrument):
        def before_io_wait(self, timeout: float) -> None:
            nonlocal turns
            turns += 1

    async def receive(stream: trio.SocketStream) -> None:
        assert await http_server.PlainStream(stream, scheduler).receive_some(100) == b"hello"
        gone_on.append(turns)

    scheduler = http_server.ReadScheduler()
    pairs = [socket.socketpair() for _ in range(6)]
    trio.lowlevel.add_instrument(counting := Turns())
    async with trio.open_nursery() as nursery:
        for one, _ in pairs:
            nursery.start_soon(receive, trio.SocketStream(trio.socket.from_stdlib_socket(one)))
        await trio.testing.wait_all_tasks_blocked()
        for _, other in pairs:
            other.send(b"hello")
    trio.lowlevel.remove_instrument(counting)
    for one, other in pairs:
        one.close()
        other.close()
    assert len(gone_on) == len(set(gone_on)) == 6


async def test_an_answer_is_too_late_for_a_connection_that_is_being_closed() -> None:
    # `send_eof` has a checkpoint, and trio refuses concurrent sends.
    one, other = trio.socket.socketpair()
    with one, other:
        stream = trio.SocketStream(one)
        with stream._send_conflict_detector, pytest.raises(trio.BrokenResourceError, match="closing"):
            await http_server.PlainStream(stream, http_server.ReadScheduler()).send_all(b"late")
