"""GET /events: the live stream, as server-sent events.

Events are `overview`, `throttled`, `tasks`, `unlimited` and the tables of live.broadcaster; each holds the
whole of its topic, so a browser that missed some has missed nothing. One is sent when it differs from the
last; all that one beat has for a page goes out as one piece. Streams end at shutdown, and when the session or
token behind them does.
"""

from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, Final

import trio

from webui.backend import ConsoleSettings
from webui.live.broadcaster import Live
from webui.live.snapshot import Snapshot
from webui.live.sse_client import QUIET_S, Section, Subscriber
from webui.quotas.usage import UNLIMITED
from webui.rest.problem import PROBLEM, Problem
from webui.rest.routing import FARTHEST, Answer, Call, Query, Reply, Route, page_of
from webui.rest.schema import Invalid, Number, Text
from webui.tables.json_text import encode
from webui.tables.listing import LONGEST_PAGE, Page, Table

EVENT_STREAM: Final = "text/event-stream; charset=utf-8"
TOPICS: Final = ("overview", "throttled", "quotas")
"""What a stream brings that does not say what it wants; the rest it must ask for."""


async def events(call: Call) -> Reply:
    live, token = call.console.live, call.actor.name
    refusal = partial(_refusal, live, call.console.settings, token)
    problem = refusal()
    if problem is not None:
        raise problem
    follower = Subscriber(_sections(call.query, live), call.signed_in, call.connection)
    headers = {"X-Accel-Buffering": "no"}
    return Reply(stream(live, follower, token, refusal), media=EVENT_STREAM, headers=headers)


def _refusal(live: Live, settings: ConsoleSettings, token: str) -> Problem | None:
    """Why one more stream of a token is refused. The newest is refused and no older one ended: the page of an
    ended stream would connect again at once, and end the next.
    """
    if live.watchers_of[token] >= settings.max_streams_per_token:
        detail = f"This token has {settings.max_streams_per_token} live pages open; close one."
        return Problem(429, detail, headers={"Retry-After": "5"})
    if live.watchers >= settings.max_streams:
        return Problem(503, "Too many live pages are open.", headers={"Retry-After": "5"})
    return None


async def stream(
    live: Live,
    follower: Subscriber,
    token: str = "",
    refusal: Callable[[], Problem | None] = lambda: None,
) -> AsyncGenerator[bytes, None]:
    """What the framework is to send: the beginning and the end, and between them what the beat does not write
    to the connection itself. Whoever takes the bytes closes it: the framework does, however the request ends.
    `refusal` is asked at the beginning: a stream counts from here on, and others may have begun meanwhile.
    """
    if (problem := refusal()) is not None:
        yield b"event: refused\ndata: %b\n\n" % encode(problem.document())
        return
    seen: Snapshot | None = None
    live.join(token)
    try:
        yield b"retry: 1000\n\n"
        while True:
            with trio.move_on_after(QUIET_S):
                seen = await live.next(seen)
            if seen is None:
                return
            if not follower.signed_in():
                yield b"event: signed-out\ndata: {}\n\n"
                return
            if news := await follower.news(seen):
                yield news
            if follower.connection is not None:
                await live.tell_directly(follower)
    except trio.BrokenResourceError:
        return  # the peer has gone; nothing can be told to it
    finally:
        live.leave(token)


def _sections(query: Any, live: Live) -> list[tuple[str, Section]]:
    known: dict[str, Section] = {
        "overview": Snapshot.overview,
        "throttled": Snapshot.throttled,
    }
    known |= {name: _report(name) for name in live.reports}
    known["unlimited"] = _page_of_table("usage", live, UNLIMITED)
    known |= {name: _page_of_table(name, live, page_of(query)) for name in live.tables}
    wanted = query["topics"].split(",")
    for name in wanted:
        if name not in known:
            raise Invalid("topics", f"knows {', '.join(known)}")
        if name in live.tables:
            _check_page(live.tables[name].table, page_of(query))
    return [(name, known[name]) for name in dict.fromkeys(wanted)]


def _report(name: str) -> Section:
    return lambda snapshot: snapshot.report(name)


def _page_of_table(name: str, live: Live, page: Page) -> Section:
    return lambda snapshot: snapshot.table(name, page)


def _check_page(table: Table[Any], page: Page) -> None:
    if page.sort is not None and page.sort not in table.columns:
        raise Invalid("sort", f"must be one of {', '.join(table.columns)}")
    if page.shape is not None and page.shape not in table.shapes:
        raise Invalid("shape", f"must be one of {', '.join(table.shapes)}")


_PAGE_QUERY: Final = (
    Query("search", Text(), "Of the tables: only rows with this in a name.", default=""),
    Query("shape", Text(), "Only rows of this kind, as in the table's own list."),
    Query("sort", Text(), "What to sort by, as in the table's own list."),
    Query("order", Text(choices=("asc", "desc")), "Which way.", default="asc"),
    Query("offset", Number(integer=True, least=0, most=FARTHEST), "How many rows to skip.", default=0),
    Query("limit", Number(integer=True, least=1, most=LONGEST_PAGE), "How many rows to answer.", default=100),
)

ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/events",
        "streamEvents",
        "Server-sent events. Each is the whole of its topic, or of one page of a table.",
        events,
        {
            200: Answer("A stream that ends with the session or the broker", media=EVENT_STREAM),
            429: Answer("This token has too many streams already", PROBLEM),
            503: Answer("There are too many streams already", PROBLEM),
        },
        query=(
            Query("topics", Text(), "Which events, separated by commas.", default=",".join(TOPICS)),
            *_PAGE_QUERY,
        ),
    ),
)
