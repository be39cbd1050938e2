"""The live stream, as server-sent events."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import throttled
from webui.console import Console
from webui.live.broadcaster import Live
from webui.live.snapshot import Snapshot
from webui.live.sse_client import QUIET_S, Section, StreamSubscriber
from webui.problem import Problem
from webui.rest.events import make_live, stream

THROTTLED: list[tuple[str, Section]] = [("throttled", Snapshot.throttled)]


def read(event: bytes) -> tuple[str, Any]:
    name, data, *rest = event.decode().splitlines()
    assert rest == [""] and name.startswith("event: ") and data.startswith("data: ")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def opened(live: Live, is_logged_in: bool = True) -> AsyncGenerator[bytes, None]:
    return stream(live, StreamSubscriber(THROTTLED, lambda: is_logged_in))


async def test_a_stream_begins_with_what_is(broker: FakeBroker) -> None:
    broker.throttled_rows = [throttled()]
    async with aclosing(opened(make_live(broker.views, broker.alerts, lambda: 0))) as events:
        assert await anext(events) == b"retry: 1000\n\n"
        name, data = read(await anext(events))
    assert name == "throttled" and data["total"] == 1


async def test_unchanged_topics_are_not_sent_again(autojump_clock: MockClock, broker: FakeBroker) -> None:
    live = make_live(broker.views, broker.alerts, lambda: 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(live.run)
        async with aclosing(opened(live)) as events:
            await anext(events)
            await anext(events)
            with trio.move_on_after(5) as waited:
                await anext(events)
            assert waited.cancelled_caught
        nursery.cancel_scope.cancel()


async def test_a_change_is_sent(autojump_clock: MockClock, broker: FakeBroker) -> None:
    live = make_live(broker.views, broker.alerts, lambda: 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(live.run)
        async with aclosing(opened(live)) as events:
            await anext(events)
            await anext(events)
            broker.throttled_rows = [throttled()]
            assert read(await anext(events))[1]["total"] == 1
            assert trio.current_time() <= 1
        nursery.cancel_scope.cancel()


async def test_silence_is_broken_now_and_then(autojump_clock: MockClock, broker: FakeBroker) -> None:
    async with aclosing(opened(make_live(broker.views, broker.alerts, lambda: 0))) as events:
        await anext(events)
        await anext(events)
        assert await anext(events) == b": still here\n\n"
        assert trio.current_time() == QUIET_S


async def test_a_stream_ends_with_the_session(broker: FakeBroker) -> None:
    events = [
        event async for event in opened(make_live(broker.views, broker.alerts, lambda: 0), is_logged_in=False)
    ]
    assert events == [b"retry: 1000\n\n", b"event: signed-out\ndata: {}\n\n"]


async def test_a_stream_ends_with_the_broker(broker: FakeBroker) -> None:
    live = make_live(broker.views, broker.alerts, lambda: 0)
    live.end()
    assert [event async for event in opened(live)] == [b"retry: 1000\n\n"]
    assert live.streams == 0


async def test_no_client_can_write_into_the_stream(broker: FakeBroker) -> None:
    hostile = "x\n\nevent: signed-out\r\ndata: {}\u2028\u0085\0"
    broker.throttled_rows = [throttled(hostile)]
    async with aclosing(opened(make_live(broker.views, broker.alerts, lambda: 0))) as events:
        await anext(events)
        event = await anext(events)
    assert event.count(b"\n") == 3 and b"\r" not in event
    assert json.loads(event.split(b"data: ", 1)[1])["items"][0]["client_id"] == hostile


async def test_streams_are_bounded(http: Browserless, console: Console) -> None:
    for index in range(200):
        if index in (198, 199):
            assert (await http.ask("HEAD", "/api/v1/events")).status_code == 200
        console.live.join(f"token {index % 4}")
    answer = await http.get("/api/v1/events")
    assert answer.status_code == 503 and answer.headers["Retry-After"] == "5"


@pytest.mark.parametrize(("open_now", "status"), [(98, 200), (99, 200), (100, 429)])
async def test_streams_of_a_token_are_bounded(
    http: Browserless, console: Console, open_now: int, status: int
) -> None:
    for _ in range(open_now):
        console.live.join("root")
    answer = await http.ask("HEAD", "/api/v1/events")
    assert answer.status_code == status
    assert (await http.ask("HEAD", "/api/v1/events", token="viewer-token")).status_code == 200
    if status == 429:
        body = json.loads(await (await http.get("/api/v1/events")).get_data())
        assert body["detail"] == "This token has 100 live pages open; close one."
        console.live.leave("root")
        assert (await http.ask("HEAD", "/api/v1/events")).status_code == 200


async def test_of_streams_that_begin_together_none_is_beyond_the_bound(broker: FakeBroker) -> None:
    live = make_live(broker.views, broker.alerts, lambda: 0)

    def refusal() -> Problem | None:
        return Problem(429, "no more") if live.streams_of["vi"] else None

    first, second = (stream(live, StreamSubscriber(THROTTLED, lambda: True), "vi", refusal) for _ in range(2))
    async with aclosing(first), aclosing(second):
        assert await anext(first) == b"retry: 1000\n\n"
        name, data = read(await anext(second))
        assert name == "refused" and data["status"] == 429
        assert [event async for event in second] == [] and live.streams == 1
    assert not live.streams and not live.streams_of


async def test_unknown_topics_are_refused(http: Browserless) -> None:
    for topics in ("", "overview,", "everything", "Overview"):
        answer = await http.get(f"/api/v1/events?topics={topics}")
        assert answer.status_code == 400, topics


async def test_asking_only_for_the_head_opens_no_stream(http: Browserless, console: Console) -> None:
    answer = await http.ask("HEAD", "/api/v1/events")
    assert answer.status_code == 200 and answer.content_type.startswith("text/event-stream")
    assert console.live.streams == 0
