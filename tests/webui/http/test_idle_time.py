"""A connection is closed after its idle time, but not while a request that has arrived waits for its turn."""

import socket
from typing import Any

import pytest
import trio
import trio.testing

from webui.http.http_server import CLIENT, Connections, ReadScheduler, TimeoutStream
from webui.http.request import ENTRY

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
IDLE_S = 5
NEAR_S = 0.001


class Socket:
    family = socket.AF_INET

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", 1

    getsockname = getpeername


class Stream(TimeoutStream):
    def __init__(self, stream: trio.StapledStream[Any, Any], scheduler: ReadScheduler) -> None:
        super().__init__(stream, scheduler)
        self.socket = Socket()
        self.send_eof = stream.send_eof
        self.aclose = stream.aclose


class Entry:
    def set_idle(self, is_idle: bool) -> None: ...


async def answer(scope: Any, _receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def scheduler() -> ReadScheduler:
    return ReadScheduler()


class Client:
    """Sends to a connection without a pause, and keeps what it gets."""

    def __init__(self) -> None:
        self._ours, self._theirs = trio.testing.memory_stream_pair()
        self.answer = b""
        self.has_ended = False

    def send(self, data: bytes) -> None:
        self._theirs.receive_stream.put_data(data)

    async def run(self, scheduler: ReadScheduler) -> None:
        async with trio.open_nursery() as nursery:
            serve = Connections(answer).serve
            state = {ENTRY: Entry(), CLIENT: ("127.0.0.1", 1)}
            nursery.start_soon(serve, Stream(self._theirs, scheduler), state)  # type: ignore[arg-type]
            while data := await self._ours.receive_some():
                self.answer += bytes(data)
            self.has_ended = True


@pytest.fixture
def client(scheduler: ReadScheduler, nursery: trio.Nursery) -> Client:
    client = Client()
    nursery.start_soon(client.run, scheduler)
    return client


async def after(clock: trio.testing.MockClock, seconds: float) -> None:
    await trio.testing.wait_all_tasks_blocked()
    clock.jump(seconds)
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("sent", [b"", REQUEST[:10]], ids=["nothing", "half a head"])
async def test_it_is_closed_after_five_seconds(mock_clock, client: Client, sent: bytes) -> None:
    client.send(sent)
    await after(mock_clock, IDLE_S - NEAR_S)
    assert not client.has_ended
    await after(mock_clock, NEAR_S)
    assert client.has_ended


@pytest.mark.parametrize("waited_s", [IDLE_S - NEAR_S, IDLE_S, IDLE_S + NEAR_S, 60])
async def test_a_request_that_waits_for_its_turn_is_answered(
    mock_clock, client: Client, scheduler: ReadScheduler, waited_s: float
) -> None:
    async with scheduler._lock:
        client.send(REQUEST)
        await after(mock_clock, waited_s)
        assert not client.has_ended
    await trio.testing.wait_all_tasks_blocked()
    assert client.answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("waited_s", [IDLE_S - NEAR_S, IDLE_S, 60])
async def test_so_is_one_that_arrives_while_nothing_runs(mock_clock, client: Client, waited_s: float) -> None:
    await trio.testing.wait_all_tasks_blocked()
    mock_clock.jump(waited_s)
    client.send(REQUEST)
    await trio.testing.wait_all_tasks_blocked()
    assert client.answer.startswith(b"HTTP/1.1 200")


async def test_half_a_head_that_waits_for_its_turn_gets_no_more_time(
    mock_clock, client: Client, scheduler: ReadScheduler
) -> None:
    async with scheduler._lock:
        client.send(REQUEST[:10])
        await after(mock_clock, IDLE_S)
    await trio.testing.wait_all_tasks_blocked()
    assert client.has_ended
