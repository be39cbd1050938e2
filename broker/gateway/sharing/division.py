"""Measures what a gateway's clients use of each limit, and divides one limit among the gateways whose clients
use it.

Demand is measured twice, in what passed in a second and in what waits in throttled connections. All amounts
are millionths of the limit (`report`). `member` measures once a second. No request pays for it: it reads the
sensors and the throttled channels of the quota managers.

The division is a pure function of the demands. While less than nine tenths of the limit passes, or nothing
waits, each gateway has what it uses and a part of the rest. Otherwise each keeps what it can be sure of: a
gateway that uses little, what it uses, up to a quarter of an equal part; a gateway whose clients wait less
than those of the others, most of what it uses. The rest is divided by demand, half by what passed and half by
what waits. So a gateway whose clients wait longer than those of the others gains on them until all wait
equally long, as clients of a single broker do, whatever the sizes of their requests and the times between
them.
"""

from collections import Counter, deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.common.slices import Steps
from broker.gateway.sharing.report import MAX_AMOUNT, WHOLE, LimitKey
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.table import UNLIMITED
from broker.quotas.usage import ClientSensor

SPAN_MS: Final = 3_000
"""Time over which use is measured, at least two windows of the quotas."""

COUNTS: Final = 3
"""Measurements over which the number of waiting connections is averaged."""

MAX_LINES: Final = 2_000
"""Limits in one report, the most used ones. A gateway keeps the starting share of the others."""

CONTENDED: Final = WHOLE * 9 // 10
"""A limit of which more passes is contended if clients wait for it. Measured rates vary by some percent."""

HEADROOM: Final = 16
"""A gateway that uses little keeps a sixteenth more than it uses."""

YIELDED: Final = 8
"""A gateway without waiting clients yields an eighth of what it uses to those with waiting clients. Then its
own clients wait, or it did not need the eighth.
"""


class Demand(NamedTuple):
    """In millionths of the limit: what passes in a second, and what waits."""

    passed: int
    waiting: int


def divide(demands: Mapping[str, Demand], floor: int) -> dict[str, int]:
    """Return the part of each gateway, at least 1. Together they are `WHOLE` at most, but for those 1s.

    `floor` is a quarter of an equal part, what a gateway takes before the others know its demand.
    """
    passed = sum(each.passed for each in demands.values())
    waiting = sum(each.waiting for each in demands.values())
    if waiting and passed >= CONTENDED:
        kept = {name: _kept(each, passed, waiting, floor) for name, each in demands.items()}
        by = {name: max(each.passed - kept[name], 0) for name, each in demands.items()}
    else:
        kept = by = {name: each.passed for name, each in demands.items()}
    all_kept, total = sum(kept.values()), sum(by.values())
    if all_kept >= WHOLE:
        return {name: max(each * WHOLE // all_kept, 1) for name, each in kept.items()}
    rest = WHOLE - all_kept
    parts = {}
    for name, each in demands.items():
        if total and waiting:
            more = (rest * by[name] // total + rest * each.waiting // waiting) // 2
        elif waiting:
            more = rest * each.waiting // waiting
        elif total:
            more = rest * by[name] // total
        else:
            more = rest // len(demands)
        parts[name] = max(kept[name] + more, 1)
    return parts


def _kept(demand: Demand, passed: int, waiting: int, floor: int) -> int:
    """Return what the gateway keeps of a contended limit."""
    small = min(demand.passed + demand.passed // HEADROOM, floor)
    mean, own = demand.passed * waiting, demand.waiting * passed
    if own >= mean:
        return small
    # From seven eighths without waiting clients to nothing if they wait as long as those of the others.
    unclaimed = (demand.passed - demand.passed // YIELDED) * (mean - own) // mean
    return max(small, unclaimed)


class _Muted:
    """The numbers of muted connections at the last measurements, and the mean size of a request."""

    __slots__ = ("counts", "size")

    def __init__(self) -> None:
        self.counts: deque[int] = deque(maxlen=COUNTS)
        self.size = 0.0


class DemandMeter:
    """Keeps the last numbers of muted connections of each limit that has some."""

    def __init__(self) -> None:
        self._muted: dict[LimitKey, _Muted] = {}

    def measure(self, quotas: ClientQuotas, least: int, now_ms: int) -> Steps[dict[LimitKey, Demand]]:
        """Return the demand for all limits for which clients wait, or of which more than `least` passes.

        If clients waited at all of the last measurements, the present share passes, however much the rate of
        the last windows differs.
        """
        found: dict[LimitKey, Demand] = {}
        muted: dict[LimitKey, _Muted] = {}
        for kind, manager in quotas.managers.items():
            if not manager.active or quotas.callback is not None:
                continue
            counts: Counter[ClientSensor] = Counter(each.sensor for each in manager.throttled.all())
            yield
            for sensor in manager.sensors():
                yield
                key = LimitKey(kind, sensor.user, sensor.client_id)
                known = self._muted.get(key)
                window_ms = sensor.rate.window.window_ms
                windows = max(SPAN_MS // window_ms, 2)
                is_idle = now_ms - sensor.last_record_ms > windows * window_ms
                if is_idle and not counts[sensor] and known is None:
                    continue
                limit = manager.whole_bound(sensor)
                if limit == UNLIMITED:
                    continue
                total, events, elapsed_ms = sensor.rate.recent(now_ms, windows)
                passed, waiting = millionths(total * 1000 / elapsed_ms, limit), 0
                if counts[sensor] or known is not None:
                    state = known or _Muted()
                    state.counts.append(counts[sensor])
                    if events:
                        state.size = total / events
                    if any(state.counts):
                        muted[key] = state
                        waiting = millionths(sum(state.counts) / len(state.counts) * state.size, limit)
                    if all(state.counts):
                        passed = millionths(sensor.bound, limit)
                if waiting or passed > least:
                    found[key] = Demand(passed, waiting)
        self._muted = muted
        if len(found) > MAX_LINES:
            most = sorted(found, key=lambda key: sum(found[key]), reverse=True)[:MAX_LINES]
            found = {key: found[key] for key in most}
        return found


def millionths(amount: float, limit: float) -> int:
    """Return an amount in millionths of the limit."""
    return min(max(int(amount * WHOLE / limit), 0), MAX_AMOUNT)
