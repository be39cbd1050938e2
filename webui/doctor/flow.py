"""The doctor's checks of flow control: muted, in-flight, idle and blocked.

Used by webui.doctor.symptoms. Reads only the result of `Views.flow`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from broker.control.views import Flow, SelectorRow
from webui.doctor.checks import Check, Level, Unit, above, share, use_level

OVERSIZED: Final = "oversized"
BLOCKED: Final = "blocked callbacks"

MANY: Final = 1_000
"""Connections of one network thread from which a high share of idle connections is a warning."""


def flow_totals(flow: Flow) -> dict[str, int]:
    """Return the totals of flow control that `Recent` samples."""
    return {OVERSIZED: flow.oversized, BLOCKED: flow.blocked_callbacks}


def moving(flow: Flow) -> Iterable[Check]:
    """Yield the checks of reading requests and sending responses."""
    level = above(flow.mutes, 50, 500)
    yield Check(
        "Connections muted",
        flow.mutes,
        Unit.PER_S,
        level,
        "Flow control rarely mutes connections."
        if level is Level.GOOD
        else "Quotas or watermarks mute connections repeatedly: many short waits instead of a few long ones.",
        page="/throttled",
    )
    yield Check(
        "Connections unmuted",
        flow.unmutes,
        Unit.PER_S,
        Level.GOOD if flow.unmutes or not flow.mutes else Level.WATCH,
        "Muted connections are unmuted again."
        if flow.unmutes or not flow.mutes
        else "Connections are muted, and none is being unmuted.",
    )
    pipelined = flow.deepest_limit > 1
    yield Check(
        "Most requests in flight on one connection",
        flow.deepest,
        Unit.COUNT,
        use_level(share(flow.deepest, flow.deepest_limit)) if pipelined else Level.GOOD,
        f"{flow.in_flight} on all connections; a connection at the limit is muted."
        if pipelined
        else f"{flow.in_flight} on all connections; each has one request in flight at a time.",
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
        f"{row.name} has the most connections that were idle for a minute."
        if not is_much
        else f"Nearly all connections of {row.name} are idle; a shorter idle timeout would close them.",
        of=row.connections,
        setting="connections.max.idle.ms",
        page="/connections",
    )


def waiting(flow: Flow, lately: Mapping[str, int]) -> Iterable[Check]:
    """Yield the checks of queued requests."""
    if flow.available_request_size is not None and flow.request_size_limit is not None:
        used = 1 - flow.available_request_size / flow.request_size_limit
        level = use_level(used)
        yield Check(
            "Free bytes in the request queue",
            flow.available_request_size,
            Unit.BYTES,
            level,
            "The queue has space for more requests."
            if level is Level.GOOD
            else "Queued requests use nearly all of it: network threads stop reading.",
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
        else "Connections were closed in the last five minutes because a request exceeded this size.",
        setting="socket.request.max.bytes",
        page="/connections",
    )


def handling(flow: Flow, lately: Mapping[str, int]) -> Iterable[Check]:
    """Yield the checks of callbacks that complete delayed responses."""
    yield Check(
        "Queued callbacks",
        flow.callbacks,
        Unit.COUNT,
        use_level(share(flow.callbacks, flow.callback_capacity)),
        "Responses to delayed requests are sent at once."
        if not flow.callbacks
        else "Responses to delayed requests are waiting for a handler.",
        of=flow.callback_capacity,
        page="/tasks",
    )
    blocked = lately[BLOCKED]
    yield Check(
        "Blocked callbacks",
        blocked,
        Unit.COUNT,
        above(blocked, 1, 1_000),
        "None in the last five minutes."
        if not blocked
        else "The queue was full in the last five minutes; callbacks waited for older ones.",
        page="/tasks",
    )
