"""Common symptoms with the checks that explain them: failed connections, slow I/O, a stuck request queue,
slow handlers, failed disks; at a gateway, what `doctor.upstream` finds.

Used by GET /doctor and by the live stream. Reads only broker.views.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from broker.controller.rows.broker import Overview, PhaseRow
from broker.controller.rows.connections import ConnectionLimitRow, Flow, SelectorRow, ThrottledRow
from broker.views.console import Views
from webui.doctor.checks import (
    Check,
    Level,
    RecentTotals,
    Symptom,
    Unit,
    above,
    idle_level,
    judged,
    share,
    use_level,
    worst,
)
from webui.doctor.upstream import address_checks, upstream_checks, upstream_totals
from webui.tables.slices import collect, sliced

PER_IP: Final = "max.connections.per.ip"
SLOTS: Final = "max.connections"
RATE: Final = "connection_creation_rate"
THROTTLED: Final = "throttled"


async def totals_of(views: Views) -> dict[str, int]:
    """Return the totals that `RecentTotals` samples: rejected connections by rule, throttled ones, and flow
    control's.
    """
    totals = Counter({PER_IP: 0, SLOTS: 0, RATE: 0})
    for row in views.live.connection_limits():
        if not row.listener:
            totals.update(dict(row.rejected))
    addresses = await collect(views.quotas.each_address())
    throttled = sum(use.throttled for row in addresses for use in row.uses)
    upstream = None if views.upstream is None else views.upstream.row()
    return {**totals, THROTTLED: throttled, **flow_totals(views.live.flow()), **upstream_totals(upstream)}


async def examine(views: Views, recent: RecentTotals, now_ms: int) -> list[Symptom]:
    """Return all symptoms with their checks. Iterates over the connections in slices."""
    states: Counter[str] = Counter()
    async with aclosing(sliced(views.live.each_connection())) as slices:
        async for some in slices:
            states.update(row.mute_state for row in some)
    longest: ThrottledRow | None = None
    async with aclosing(sliced(views.quotas.each_throttled())) as throttled:
        async for some_throttled in throttled:
            longest = max((*some_throttled, *([longest] if longest else [])), key=_throttle_ms)
    overview = views.overview()
    limits, flow = views.live.connection_limits(), views.live.flow()
    growth = recent.growth(await totals_of(views), now_ms)
    io = (*_network_io(overview, states), *moving(flow))
    queue = (*_queueing(overview, states), *waiting(flow, growth))
    handlers = (*_handling(overview, longest, stores=not views.is_gateway), *handling(flow, growth))
    upstream = None if views.upstream is None else views.upstream.row()
    connect = tuple(_connections(overview, limits, growth))
    last = (
        Symptom("storage", "Records cannot be read or written", tuple(_storage(overview)))
        if upstream is None
        else Symptom(
            "upstream", "The upstream cluster does not serve clients", tuple(upstream_checks(upstream))
        )
    )
    if upstream is not None:
        connect = (*connect, *address_checks(upstream, growth))
    return [
        Symptom("connect", "Clients cannot connect", connect),
        Symptom("io", "Requests are read, or responses sent, slowly", io),
        Symptom("queue", "Requests wait before they are handled", queue),
        Symptom("handlers", "Requests are slow to be handled", handlers),
        last,
    ]


def _connections(
    overview: Overview, limits: Sequence[ConnectionLimitRow], growth: Mapping[str, int]
) -> Iterable[Check]:
    bound = len(overview.bootstrap)
    yield Check(
        "Bound listeners",
        bound,
        Unit.COUNT,
        Level.GOOD if bound else Level.URGENT,
        f"Clients connect to {', '.join(overview.bootstrap)}." if bound else "No listener is bound.",
        setting="listeners",
    )
    blocked = overview.metrics.acceptor_blocked
    yield judged(
        "Acceptor blocked",
        blocked,
        Unit.SHARE,
        above(blocked, 0.1, 0.5),
        "New connections are accepted at once.",
        "Accepting waits for a connection limit, for the connection rate, or for busy network threads.",
        setting="max.connection.creation.rate",
    )
    for row in limits:
        if row.listener:
            continue
        used = share(row.connections, row.max_connections)
        yield Check(
            "Open connections" if row.server == "broker" else "Open connections of the controller",
            row.connections,
            Unit.COUNT,
            use_level(used),
            "The total number of connections is unlimited."
            if used is None
            else f"{used:.0%} of the limit is used.",
            of=row.max_connections,
            setting=SLOTS,
            more=True,
            page="/connections",
        )
    yield _refused(
        PER_IP, "Rejected: too many connections per address", growth, "max.connections.per.ip", "/ip-quotas"
    )
    yield _refused(
        RATE, "Rejected: connection rate of an address exceeded", growth, None, "/ip-quotas?shape=stopped"
    )
    throttled = growth[THROTTLED]
    yield judged(
        "Throttled: connection rate of an address exceeded",
        throttled,
        Unit.COUNT,
        above(throttled, 1, 1_000),
        "No connection was throttled in the last five minutes.",
        "Accepted connections were delayed in the last five minutes before they were served or closed.",
        setting="ip.throttle.mode",
        page="/ip-quotas?shape=stopped",
    )


def _refused(rule: str, title: str, growth: Mapping[str, int], setting: str | None, page: str) -> Check:
    count = growth[rule]
    says = (
        f"{count} in the last five minutes; the page lists them by address."
        if count
        else "None in the last five minutes."
    )
    return Check(title, count, Unit.COUNT, above(count, 1, 1_000), says, setting=setting, page=page)


def _network_io(overview: Overview, states: Counter[str]) -> Iterable[Check]:
    metrics = overview.metrics
    idle = metrics.processor_idle
    yield judged(
        "Network threads idle",
        idle,
        Unit.SHARE,
        idle_level(idle),
        "Reading requests and writing responses leaves the broker's thread time for others.",
        "Reading requests and writing responses takes the broker's thread. More network threads do not "
        "help; fewer or larger requests do.",
        page="/tasks",
    )
    throttled = sum(count for state, count in states.items() if "throttled" in state)
    yield Check(
        "Connections throttled by a quota",
        throttled,
        Unit.COUNT,
        above(share(throttled, states.total()), 0.25, 0.75),
        "Throttling is intended: the page shows the rule and its limit."
        if throttled
        else "No connection is throttled.",
        of=states.total(),
        page="/throttled",
    )
    muted = states.total() - states["not_muted"]
    yield Check(
        "Connections with a request in flight",
        muted,
        Unit.COUNT,
        Level.GOOD,
        "A connection is muted while its request is handled.",
        of=states.total(),
        page="/connections?shape=muted",
    )
    sending = _slowest(metrics.phases, "ResponseSendTimeMs")
    yield _phase("Response send time (p99)", sending, 100, 1_000, "Clients read slowly.", None)
    replies = sum(queue.depth for queue in metrics.queues if queue.name.startswith("responses"))
    yield Check(
        "Responses queued",
        replies,
        Unit.COUNT,
        above(replies, 100, 1_000),
        "Responses are sent at once." if replies < 100 else "Clients send requests faster than they read.",
    )


def _queueing(overview: Overview, states: Counter[str]) -> Iterable[Check]:
    metrics = overview.metrics
    idle = metrics.thread_idle
    yield judged(
        "Thread idle",
        idle,
        Unit.SHARE,
        idle_level(idle),
        "The broker's one thread has spare capacity.",
        f"The broker's one thread is busy: {1 - metrics.handler_idle:.0%} with handling requests, "
        f"{1 - metrics.processor_idle:.0%} with reading and writing.",
        page="/tasks",
    )
    for queue in metrics.queues:
        if queue.name.startswith("requests"):
            yield judged(
                "Requests in the queue",
                queue.depth,
                Unit.COUNT,
                use_level(share(queue.depth, queue.capacity)),
                f"The peak depth is {queue.peak}.",
                "The queue is filling up: network threads stop reading when it is full.",
                of=queue.capacity,
                setting="queued.max.requests",
                more=True,
            )
    waiting = _slowest(metrics.phases, "RequestQueueTimeMs")
    yield _phase(
        "Queue time (p99)", waiting, 50, 500, "Too few handlers, or handlers are busy.", "num.io.threads"
    )
    used = share(metrics.memory_pool_used, metrics.memory_pool_size)
    yield Check(
        "Request memory",
        metrics.memory_pool_used,
        Unit.BYTES,
        use_level(used),
        "No limit is set; only the queue bounds it." if used is None else f"{used:.0%} of it is in use.",
        of=metrics.memory_pool_size,
        setting="queued.max.request.bytes",
        more=True,
    )
    if metrics.controller_memory_pool_size is not None:
        used = share(metrics.controller_memory_pool_used, metrics.controller_memory_pool_size)
        yield Check(
            "Request memory of the controller",
            metrics.controller_memory_pool_used,
            Unit.BYTES,
            use_level(used),
            f"{used:.0%} of it is in use.",
            of=metrics.controller_memory_pool_size,
            setting="queued.max.request.bytes",
            more=True,
        )
    hungry = states["muted_for_memory"]
    yield Check(
        "Connections waiting for memory",
        hungry,
        Unit.COUNT,
        above(hungry, 1, 100),
        "No connection waits for memory." if not hungry else "Large requests use up the memory pool.",
        setting="queued.max.request.bytes",
        page="/connections?shape=muted",
    )


def _handling(overview: Overview, longest: ThrottledRow | None, *, stores: bool) -> Iterable[Check]:
    metrics = overview.metrics
    idle = metrics.handler_idle
    yield judged(
        "Request handlers idle",
        idle,
        Unit.SHARE,
        idle_level(idle),
        "Handling requests leaves the broker's thread time for others.",
        "Handling requests takes the broker's thread, or handlers wait for it or the disk: the slowest "
        "requests are below. More handlers help only against waiting.",
        page="/tasks",
    )
    local = _slowest(metrics.phases, "LocalTimeMs")
    yield _phase("Handling time (p99)", local, 50, 500, "Check this kind of request.", None)
    if stores:
        remote = _slowest((row for row in metrics.phases if row.api == "Produce"), "RemoteTimeMs")
        yield _phase(
            "Delayed produce requests (p99)",
            remote,
            50,
            500,
            "They wait for a flush or for other replicas.",
            "flush.messages",
        )
    yield _longest_throttle(longest)
    throttling = _slowest(metrics.phases, "ThrottleTimeMs")
    yield _phase("Throttle time (p99)", throttling, 1_000, 10_000, "A quota throttles these clients.", None)


def _longest_throttle(row: ThrottledRow | None) -> Check:
    value = 0 if row is None else row.throttle_ms
    if row is None:
        says = "No connection is throttled."
    else:
        who = f"client id {row.client_id!r}" if row.client_id else f"address {row.address}"
        says = f"A connection of {who} is throttled for as long; the page shows the rule."
    level = above(value, 1_000, 10_000)
    return Check("Longest throttle now", value, Unit.MS, level, says, page="/throttled")


def _storage(overview: Overview) -> Iterable[Check]:
    offline = overview.metrics.offline_partitions
    yield judged(
        "Partitions offline",
        offline,
        Unit.COUNT,
        above(offline, 1, 1),
        "All partitions are online.",
        "Their files cannot be read or written; see the broker's log. They come back online after a "
        "restart that can read them.",
        setting="log.dirs",
        page="/topics",
    )

    missing = overview.metrics.missing_offsets
    yield judged(
        "Records missing",
        missing,
        Unit.COUNT,
        above(missing, 1, 1),
        "No offset between log start and log end is missing.",
        "Segments or partition directories are missing or truncated. Fetches of these offsets return "
        "OFFSET_OUT_OF_RANGE; delete records up to the end of the gap to let consumers continue.",
        page="/topics",
    )


def _throttle_ms(row: ThrottledRow) -> int:
    return row.throttle_ms


def _slowest(phases: Iterable[PhaseRow], phase: str) -> PhaseRow | None:
    """Return the row with the highest 99th percentile among those with samples in the last five minutes."""
    rows = [row for row in phases if row.phase == phase and row.p99_ms == row.p99_ms]
    return max(rows, key=lambda row: row.p99_ms, default=None)


def _phase(
    title: str, row: PhaseRow | None, watch: float, urgent: float, trouble: str, setting: str | None
) -> Check:
    value = None if row is None else row.p99_ms
    level = above(value, watch, urgent)
    if row is None:
        says = "No requests in the last five minutes."
    elif level is Level.GOOD:
        says = f"{row.api}, 99th percentile over five minutes."
    else:
        says = f"{row.api}, 99th percentile over five minutes. {trouble}"
    return Check(title, value, Unit.MS, level, says, setting=setting, more=setting == "num.io.threads")


def level_of(symptoms: Iterable[Symptom]) -> Level:
    return worst([symptom.level for symptom in symptoms])


OVERSIZED: Final = "oversized"
BLOCKED: Final = "blocked callbacks"

MANY: Final = 1_000
"""Connections of one network thread from which a high share of idle connections is a warning."""


def flow_totals(flow: Flow) -> dict[str, int]:
    """Return the totals of flow control that `RecentTotals` samples."""
    return {OVERSIZED: flow.oversized, BLOCKED: flow.blocked_callbacks}


def moving(flow: Flow) -> Iterable[Check]:
    """Yield the checks of reading requests and sending responses."""
    yield judged(
        "Connections muted",
        flow.mutes,
        Unit.PER_S,
        above(flow.mutes, 50, 500),
        "Fewer than 50 connections a second are muted.",
        "Quotas or watermarks mute connections repeatedly: many short waits instead of a few long ones.",
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
    return judged(
        "Idle connections of one network thread",
        row.idle,
        Unit.COUNT,
        Level.WATCH if is_much else Level.GOOD,
        f"{row.name} has the most connections that were idle for a minute.",
        f"Nearly all connections of {row.name} are idle; a shorter idle timeout would close them.",
        of=row.connections,
        setting="connections.max.idle.ms",
        page="/connections",
    )


def waiting(flow: Flow, growth: Mapping[str, int]) -> Iterable[Check]:
    """Yield the checks of queued requests."""
    if flow.available_request_size is not None and flow.request_size_limit is not None:
        used = 1 - flow.available_request_size / flow.request_size_limit
        yield judged(
            "Free bytes in the request queue",
            flow.available_request_size,
            Unit.BYTES,
            use_level(used),
            "The queue has space for more requests.",
            "Queued requests use nearly all of it: network threads stop reading.",
            of=flow.request_size_limit,
            setting="queued.max.requests.size.bytes",
            more=True,
        )
    count = growth[OVERSIZED]
    yield judged(
        "Oversized requests",
        count,
        Unit.COUNT,
        above(count, 1, 1_000),
        "None in the last five minutes.",
        "Connections were closed in the last five minutes because a request exceeded this size.",
        setting="socket.request.max.bytes",
        page="/connections",
    )


def handling(flow: Flow, growth: Mapping[str, int]) -> Iterable[Check]:
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
    blocked = growth[BLOCKED]
    yield judged(
        "Blocked callbacks",
        blocked,
        Unit.COUNT,
        above(blocked, 1, 1_000),
        "None in the last five minutes.",
        "The queue was full in the last five minutes; callbacks waited for older ones.",
        page="/tasks",
    )
