"""The figures of flow control among the symptoms: what is muted, in hand, idle and blocked.

Used by webui.doctor.symptoms. Reads what `Views.flow` answers and nothing else.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from broker.control.views import Flow, SelectorRow
from webui.doctor.checks import Check, Level, Unit, above, share, use_level

OVERSIZED: Final = "oversized"
BLOCKED: Final = "blocked callbacks"

MANY: Final = 1_000
"""So many connections of one network thread are worth a look if hardly any of them does something."""


def flow_totals(flow: Flow) -> dict[str, int]:
    """What `Recent` is to look at."""
    return {OVERSIZED: flow.oversized, BLOCKED: flow.blocked_callbacks}


def moving(flow: Flow) -> Iterable[Check]:
    """Of requests on their way in and out."""
    level = above(flow.mutes, 50, 500)
    yield Check(
        "Connections muted",
        flow.mutes,
        Unit.PER_S,
        level,
        "Flow control rarely stops a connection."
        if level is Level.GOOD
        else "Quotas or watermarks stop connections again and again: many small waits instead of a few.",
        page="/throttled",
    )
    yield Check(
        "Connections unmuted",
        flow.unmutes,
        Unit.PER_S,
        Level.GOOD if flow.unmutes or not flow.mutes else Level.WATCH,
        "As many as were muted are read again, sooner or later."
        if flow.unmutes or not flow.mutes
        else "Connections are muted and none is read again at the moment.",
    )
    pipelined = flow.deepest_limit > 1
    yield Check(
        "Most requests in hand of one connection",
        flow.deepest,
        Unit.COUNT,
        use_level(share(flow.deepest, flow.deepest_limit)) if pipelined else Level.GOOD,
        f"{flow.in_flight} of all connections; with this many a connection is not read."
        if pipelined
        else f"{flow.in_flight} of all connections; one has one request in hand at a time.",
        of=flow.deepest_limit,
        setting="pipeline.high.watermark" if pipelined else None,
        page="/connections?shape=muted",
    )
    busiest = max(flow.selectors, key=lambda row: row.idle, default=None)
    if busiest is not None:
        yield _idle(busiest)


def _idle(row: SelectorRow) -> Check:
    used = share(row.idle, row.connections)
    is_much = row.connections >= MANY and used is not None and used >= 0.9
    return Check(
        "Idle connections of one network thread",
        row.idle,
        Unit.COUNT,
        Level.WATCH if is_much else Level.GOOD,
        f"{row.name} has the most that did nothing for a minute."
        if not is_much
        else f"Nearly all connections of {row.name} do nothing; a shorter idle time would close them.",
        of=row.connections,
        setting="connections.max.idle.ms",
        page="/connections",
    )


def waiting(flow: Flow, lately: Mapping[str, int]) -> Iterable[Check]:
    """Of requests that are not yet handled."""
    if flow.available_request_size is not None and flow.request_size_limit is not None:
        used = 1 - flow.available_request_size / flow.request_size_limit
        level = use_level(used)
        yield Check(
            "Bytes that may still be queued",
            flow.available_request_size,
            Unit.BYTES,
            level,
            "There is a place for more requests."
            if level is Level.GOOD
            else "The queued requests have nearly all of it: network threads wait and read nothing.",
            of=flow.request_size_limit,
            setting="queued.max.requests.size.bytes",
            more=True,
        )
    count = lately[OVERSIZED]
    yield Check(
        "Oversized requests",
        count,
        Unit.COUNT,
        above(count, 1, 1_000),
        "None in the last five minutes."
        if not count
        else "Connections were closed in the last five minutes for a request larger than this.",
        setting="socket.request.max.bytes",
        page="/connections",
    )


def handling(flow: Flow, lately: Mapping[str, int]) -> Iterable[Check]:
    """Of answers that waited and are to be concluded."""
    yield Check(
        "Callbacks that wait",
        flow.callbacks,
        Unit.COUNT,
        use_level(share(flow.callbacks, flow.callback_capacity)),
        "Answers of requests that had waited leave at once."
        if not flow.callbacks
        else "Answers of requests that had waited queue up for a handler.",
        of=flow.callback_capacity,
        page="/tasks",
    )
    blocked = lately[BLOCKED]
    yield Check(
        "Callbacks that found no place",
        blocked,
        Unit.COUNT,
        above(blocked, 1, 1_000),
        "None in the last five minutes."
        if not blocked
        else "The queue was full in the last five minutes, and older answers had to go first.",
        page="/tasks",
    )
