"""GET /events: the live stream, as server-sent events.

Events are `overview`, `throttled`, `tasks`, `unlimited` and the tables of live.broadcaster. Each event has
the full state of its topic, so missed events need no replay. An event is sent when it differs from the last
one; all events of one broadcast for a page are written together. Streams end at shutdown, and when their
session or token ends.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import trio

from broker.config.sections.console import ConsoleConfig
from broker.controller.rows.alerts import AlertViews
from broker.controller.rows.quotas import QuotaRow
from broker.controller.rows.topics import GroupRow, TopicRow
from broker.views.console import Views
from broker.views.readings import Part
from webui.doctor.checks import RecentTotals
from webui.live.attention import Attention
from webui.live.broadcaster import Live
from webui.live.lag_history import LagHistory
from webui.live.snapshot import LiveReport, LiveTable, Snapshot
from webui.live.sse_client import QUIET_S, Section, StreamSubscriber
from webui.live.throttled import RECENT_THROTTLES, RecentThrottles
from webui.live.topic_rates import TopicRates
from webui.problem import PROBLEM, Problem
from webui.problem_types import TOO_MANY_STREAMS
from webui.rest.acls import ACLS
from webui.rest.broker_configs import broker_quotas_json
from webui.rest.client_metrics import INSTANCES
from webui.rest.client_quotas import RULES
from webui.rest.connections import CONNECTIONS, remote_rows, software_json
from webui.rest.delegation_tokens import TOKENS as DELEGATION_TOKENS
from webui.rest.doctor import Settings, doctor_json
from webui.rest.groups import GROUPS
from webui.rest.ip_quotas import ADDRESSES, beside
from webui.rest.paging import MAX_OFFSET
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.rest.scram_users import CREDENTIALS
from webui.rest.topics import TOPICS
from webui.rest.transactions import TRANSACTIONS
from webui.rest.upstream import SHARES, read_ms, read_state, upstream_report
from webui.rest.usage import UNLIMITED, USAGE, missing_clients
from webui.schema import Invalid, Number, Text
from webui.tables.answers import as_json
from webui.tables.json_output import encode
from webui.tables.listing import LONGEST_PAGE, Page, Row, Table
from webui.tables.slices import collect, yield_to_others

EVENT_STREAM: Final = "text/event-stream; charset=utf-8"
DEFAULT_TOPICS: Final = ("overview", "throttled", "quotas")
"""Topics of a stream that names none; all others must be requested."""


async def events(call: Call) -> Reply:
    live, token = call.console.live, call.actor.name
    refusal = partial(_refusal, live, call.console.settings, token)
    problem = refusal()
    if problem is not None:
        raise problem
    subscriber = StreamSubscriber(_sections(call.query, live), call.is_logged_in, call.connection)
    headers = {"X-Accel-Buffering": "no"}
    return Reply(stream(live, subscriber, token, refusal), media=EVENT_STREAM, headers=headers)


def _refusal(live: Live, settings: ConsoleConfig, token: str) -> Problem | None:
    """Return the reason to refuse one more stream of a token, if any. The limit refuses the newest stream
    instead of ending an older one: the page of an ended stream would reconnect at once and end the next.
    """
    retry = {"Retry-After": "5"}
    if live.streams_of[token] >= settings.max_streams_per_token:
        detail = f"This token has {settings.max_streams_per_token} live pages open; close one."
        return Problem(429, detail, kind=TOO_MANY_STREAMS, headers=retry)
    if live.streams >= settings.max_streams:
        return Problem(503, "Too many live pages are open.", kind=TOO_MANY_STREAMS, headers=retry)
    return None


async def stream(
    live: Live,
    subscriber: StreamSubscriber,
    token: str = "",
    refusal: Callable[[], Problem | None] = lambda: None,
) -> AsyncGenerator[bytes, None]:
    """Yield what the framework sends: the start, the end, and the events that the broadcaster does not write
    to the connection itself. The framework closes the generator when the request ends. `refusal` is called at
    the start: other streams may have started since the route was called.
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
            if not subscriber.is_logged_in():
                yield b"event: signed-out\ndata: {}\n\n"
                return
            if events := await subscriber.new_events(seen):
                yield events
            if subscriber.connection is not None:
                await live.write_directly(subscriber)
    except trio.BrokenResourceError:
        return  # the peer has disconnected
    finally:
        live.leave(token)


def _sections(query: Any, live: Live) -> list[tuple[str, Section]]:
    known: dict[str, Section] = {
        "overview": Snapshot.overview,
        "throttled": Snapshot.throttled,
    }
    known |= {name: _report(name) for name in live.reports}
    known["unlimited"] = _page_of_table("usage", live, UNLIMITED)
    known |= {name: _page_of_table(name, live, _window_of(query)) for name in live.tables}
    wanted = query["topics"].split(",")
    for name in wanted:
        if name not in known:
            raise Invalid("topics", f"must be among {', '.join(known)}")
        if name in live.tables:
            _check_page(live.tables[name].table, _window_of(query))
    return [(name, known[name]) for name in dict.fromkeys(wanted)]


def _window_of(query: Any) -> Page:
    """Return the window of a table that a stream shows. It stays at its offset while the rows change."""
    return Page(
        search=query["search"],
        filter=query["filter"],
        sort=query["sort"],
        descending=query["order"] == "desc",
        offset=query["offset"],
        limit=query["limit"],
    )


def _report(name: str) -> Section:
    return lambda snapshot: snapshot.report(name)


def _page_of_table(name: str, live: Live, page: Page) -> Section:
    return lambda snapshot: snapshot.table(name, page)


def _check_page(table: Table[Any], page: Page) -> None:
    if page.sort is not None and page.sort not in table.columns:
        raise Invalid("sort", f"must be one of {', '.join(table.columns)}")
    if page.filter is not None and page.filter not in table.filters:
        raise Invalid("filter", f"must be one of {', '.join(table.filters)}")


def make_live(views: Views, alerts: AlertViews, now_ms: Callable[[], int]) -> Live:
    """Create the broadcaster with every topic that a stream may request."""
    throttles, recent = RecentThrottles(), RecentTotals()
    lags, rates = LagHistory(), TopicRates(views.topics)
    tables = live_tables(views, now_ms, lags, rates) | {
        "recent_throttles": LiveTable(RECENT_THROTTLES, lambda: throttles.rows(now_ms()), views)
    }
    attention = Attention(views, alerts, lags)
    reports = live_reports(views, recent) | {"attention": LiveReport(views, attention.report)}
    return Live(views, alerts, now_ms, tables, reports, throttles, recent, lags, rates)


def live_tables(
    views: Views, now_ms: Callable[[], int], lags: LagHistory, rates: TopicRates
) -> dict[str, LiveTable[Any]]:
    """Return the tables by the name of their event."""

    def client_rules() -> Iterator[QuotaRow | None]:
        """Yield the rules without those for addresses, which have a table of their own."""
        return (row for row in views.quotas.each_quota() if row is None or row.entity[0][0] != "ip")

    async def limits() -> dict[str, Any]:
        return beside(views)

    async def unlisted() -> dict[str, Any]:
        return {"unlisted": views.shares.unlisted_use()}

    async def clients() -> dict[str, Any]:
        return missing_clients(views)

    def authorizer() -> dict[str, Any]:
        return {"authorizer": views.acls.has_authorizer}

    async def enabled() -> dict[str, Any]:
        return {"enabled": views.delegation_tokens.enabled}

    def topics() -> Iterator[TopicRow | None]:
        return rates.rows(read_ms(views, Part.TOPICS, now_ms()))

    def groups() -> Iterator[GroupRow | None]:
        return lags.with_trends(views.topics.each_group())

    tokens = views.delegation_tokens
    telemetry = views.client_telemetry

    async def subscriptions() -> dict[str, Any]:
        rows = (row and as_json(row) for row in telemetry.subscriptions())
        return {"subscriptions": await collect(rows)}

    return {
        "quotas": LiveTable(RULES, client_rules, views, unlisted),
        "usage": LiveTable(USAGE, views.quotas.each_usage, views, clients),
        "connections": LiveTable(
            CONNECTIONS, views.live.each_connection, views, remote=partial(remote_rows, views)
        ),
        "topics": _read_table(TOPICS, topics, views, Part.TOPICS),
        "groups": _read_table(GROUPS, groups, views, Part.GROUPS),
        "transactions": _read_table(TRANSACTIONS, views.topics.each_transaction, views, Part.TRANSACTIONS),
        "ip-quotas": LiveTable(ADDRESSES, views.quotas.each_address, views, limits),
        "gateway-shares": LiveTable(SHARES, views.shares.shares, views),
        "scram-users": _read_table(CREDENTIALS, views.metadata.scram_users, views, Part.SCRAM_USERS),
        "delegation-tokens": LiveTable(DELEGATION_TOKENS, tokens.each, views, enabled),
        "acls": _read_table(ACLS, views.acls.each, views, Part.ACLS, authorizer),
        "client-instances": LiveTable(INSTANCES, telemetry.instances, views, subscriptions),
    }


def _read_table(
    table: Table[Row],
    each: Callable[[], Iterable[Row | None]],
    views: Views,
    part: Part,
    beside: Callable[[], Mapping[str, Any]] = dict,
) -> LiveTable[Row]:
    """Return a table of what a gateway reads of its cluster: while a page shows it, it is read again when it
    is old, and no page waits for that. The result of `beside` is added to every page of the table.
    """

    def gather() -> Iterable[Row | None]:
        views.readings.want(part)
        return each()

    async def state() -> dict[str, Any]:
        return {**beside(), **read_state(views, part)}

    return LiveTable(table, gather, views, state)


def live_reports(views: Views, recent: RecentTotals) -> dict[str, LiveReport]:
    """Return the reports by the name of their event."""
    settings = Settings(views)

    async def doctor(now_ms: int) -> dict[str, Any]:
        return await doctor_json(views, recent, now_ms, settings)

    async def tasks(_now_ms: int) -> dict[str, Any]:
        rows = views.live.tasks()
        await yield_to_others()
        return {"items": [as_json(row) for row in rows]}

    async def broker_quotas(_now_ms: int) -> dict[str, Any]:
        return broker_quotas_json(views)

    async def software(_now_ms: int) -> dict[str, Any]:
        return await software_json(views)

    async def upstream(_now_ms: int) -> dict[str, Any]:
        return upstream_report(views)

    return {
        "doctor": LiveReport(views, doctor),
        "tasks": LiveReport(views, tasks),
        "broker-quotas": LiveReport(views, broker_quotas),
        "upstream": LiveReport(views, upstream),
        "software": LiveReport(views, software),
    }


_WINDOW_QUERY: Final = (
    Query("search", Text(), "For tables: only rows with this text in a name.", default=""),
    Query("filter", Text(), "For tables: only rows of this kind, as in the table's own route."),
    Query("sort", Text(), "Sort column, as in the table's own route."),
    Query("order", Text(choices=("asc", "desc")), "Sort order.", default="asc"),
    Query(
        "offset", Number(integer=True, minimum=0, maximum=MAX_OFFSET), "Number of rows to skip.", default=0
    ),
    Query(
        "limit", Number(integer=True, minimum=1, maximum=LONGEST_PAGE), "Maximum number of rows.", default=100
    ),
)

ROUTES: Final = (
    Route(
        "GET /api/v1/events",
        "streamEvents",
        "Server-sent events. Each has the full state of its topic, or one page of a table.",
        events,
        {
            200: ResponseSpec("A stream that ends with the session or the broker", media=EVENT_STREAM),
            429: ResponseSpec("This token has too many open streams", PROBLEM),
            503: ResponseSpec("Too many streams are open", PROBLEM),
        },
        query=(
            Query("topics", Text(), "Topics, separated by commas.", default=",".join(DEFAULT_TOPICS)),
            *_WINDOW_QUERY,
        ),
    ),
)
