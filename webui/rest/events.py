"""GET /events: the live stream, as server-sent events.

Events are `overview`, `throttled`, `quotas` and `tasks`; each holds the whole of its topic, so a browser that
missed some has missed nothing. One is sent when it differs from the last. Streams end at shutdown, and when
the session or token behind them does.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final

import trio

from webui.live import Live, Snapshot
from webui.rest.client_quotas import PAGE_QUERY, page_of
from webui.rest.problem import Problem
from webui.rest.routing import Answer, Call, Query, Reply, Route
from webui.rest.schema import Invalid, Text

EVENT_STREAM: Final = "text/event-stream; charset=utf-8"
TOPICS: Final = ("overview", "throttled", "quotas")
"""What a stream brings that does not say what it wants; `tasks` it must ask for."""

MOST_STREAMS: Final = 200
QUIET_S: Final = 15.0
"""After this long without an event a comment goes out, so that proxies and browsers see that we live."""

Section = Callable[[Snapshot], bytes]


async def events(call: Call) -> Reply:
    live = call.console.live
    if live.watchers >= MOST_STREAMS:
        raise Problem(503, "Too many live pages are open.", headers={"Retry-After": "5"})
    sections = _sections(call.query)
    headers = {"X-Accel-Buffering": "no"}
    return Reply(stream(live, sections, call.signed_in), media=EVENT_STREAM, headers=headers)


async def stream(
    live: Live, sections: Sequence[tuple[str, Section]], signed_in: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """The bytes of one stream. Whoever takes them closes it: the framework does, however the request ends."""
    sent: dict[str, bytes] = {}
    seen: Snapshot | None = None
    live.join()
    try:
        yield b"retry: 1000\n\n"
        while True:
            with trio.move_on_after(QUIET_S) as quiet:
                seen = await live.next(seen)
            if seen is None:
                return
            if not signed_in():
                yield b"event: signed-out\ndata: {}\n\n"
                return
            for name, section in sections:
                data = section(seen)
                if data != sent.get(name):
                    sent[name] = data
                    yield b"event: %s\ndata: %s\n\n" % (name.encode(), data)
            if quiet.cancelled_caught:
                yield b": still here\n\n"
    finally:
        live.leave()


def _sections(query: Any) -> list[tuple[str, Section]]:
    page = page_of(query)
    known: dict[str, Section] = {
        "overview": lambda snapshot: snapshot.overview_data,
        "throttled": lambda snapshot: snapshot.throttled_data,
        "quotas": lambda snapshot: snapshot.quotas_data(page),
        "tasks": lambda snapshot: snapshot.tasks_data,
    }
    wanted = query["topics"].split(",")
    for name in wanted:
        if name not in known:
            raise Invalid("topics", f"knows {', '.join(known)}")
    return [(name, known[name]) for name in dict.fromkeys(wanted)]


ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/events",
        "streamEvents",
        "Server-sent events: overview, throttled, quotas, tasks. Each event is the whole of its topic.",
        events,
        {200: Answer("A stream that ends with the session or the broker", media=EVENT_STREAM)},
        query=(
            Query("topics", Text(), "Which events, separated by commas.", default=",".join(TOPICS)),
            *PAGE_QUERY,
        ),
    ),
)
