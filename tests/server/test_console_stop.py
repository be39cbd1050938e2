"""When a broker stops, its console answers the requests in hand and ends the streams of its pages."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.support.machine_speed import WITHIN_S
from tests.support.running import RunningBroker, running_broker

CONSOLE = "console.listener=127.0.0.1:0"


async def _ask(broker: RunningBroker, head: str, body: bytes = b"") -> trio.SocketStream:
    console = broker.started.console
    assert console is not None
    stream = await trio.open_tcp_stream("127.0.0.1", int(console.address.rstrip("/").rpartition(":")[2]))
    request = f"{head} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {console.token}\r\n"
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    await stream.send_all(f"{request}{length}\r\n".encode() + body)
    return stream


async def _rest(stream: trio.SocketStream) -> bytes:
    async with stream:
        with trio.fail_after(WITHIN_S):
            return b"".join([bytes(some) async for some in stream])


async def test_a_change_in_hand_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, released = trio.Event(), trio.Event()
    entry = {"entity": {"user": "a"}, "ops": [{"key": "producer_byte_rate", "value": 1}]}
    async with running_broker(tmp_path, CONSOLE) as broker:
        apply = broker.server.control.apply

        async def held(*given: Any) -> Any:
            begun.set()
            await released.wait()
            return await apply(*given)

        monkeypatch.setattr(broker.server.control, "apply", held)
        stream = await _ask(broker, "PATCH /api/v1/client-quotas", json.dumps({"entries": [entry]}).encode())
        await begun.wait()
        broker.stop.set()
        await trio.testing.wait_all_tasks_blocked()
        released.set()
        answer = await _rest(stream)
        assert answer.startswith(b"HTTP/1.1 200") and b'"error":"NONE"' in answer


async def test_a_stream_of_events_ends(tmp_path: Path) -> None:
    async with running_broker(tmp_path, CONSOLE) as broker:
        stream = await _ask(broker, "GET /api/v1/events")
        with trio.fail_after(WITHIN_S):
            assert b"200" in await stream.receive_some()
        broker.stop.set()
        assert (await _rest(stream)).endswith(b"\r\n0\r\n\r\n")
