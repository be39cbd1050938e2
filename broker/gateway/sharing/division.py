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
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from broker.common.slices import Steps
from broker.gateway.sharing.report import MAX_AMOUNT, WHOLE, LimitKey
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.table import UNLIMITED
from broker.quotas.usage import ClientSensor

SPAN_MS: Final = 3_000
"""Time over which use is measured, at least two windows of the quotas."""

COUNTS: Final = 3
"""Measurements over which the number of waiting connections is averaged."""

SENSORS_PER_STEP: Final = 8
"""Sensors between two pauses; ours. Each takes 5 microseconds."""

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


class Demanding(Protocol):
    """A `Demand`, or a line with one."""

    @property
    def passed(self) -> int: ...
    @property
    def waiting(self) -> int: ...


def part_of(own: Demanding, others: Sequence[Demanding], floor: int) -> int:
    """Return the part of the gateway with the demand `own`, at least 1. The parts of all gateways together
    are `WHOLE` at most, but for those 1s.

    `floor` is a quarter of an equal part, what a gateway takes before the others know its demand. Called for
    each limit of each report.
    """
    passed, waiting = own.passed, own.waiting
    for each in others:
        passed += each.passed
        waiting += each.waiting
    if waiting and passed >= CONTENDED:
        kept = all_kept = _kept(own.passed, own.waiting, passed, waiting, floor)
        by = total = max(own.passed - kept, 0)
        for each in others:
            theirs = _kept(each.passed, each.waiting, passed, waiting, floor)
            all_kept += theirs
            total += max(each.passed - theirs, 0)
    else:
        kept = by = own.passed
        all_kept = total = passed
    if all_kept >= WHOLE:
        return max(kept * WHOLE // all_kept, 1)
    rest = WHOLE - all_kept
    if total and waiting:
        more = (rest * by // total + rest * own.waiting // waiting) // 2
    elif waiting:
        more = rest * own.waiting // waiting
    elif total:
        more = rest * by // total
    else:
        more = rest // (len(others) + 1)
    return max(kept + more, 1)


def _kept(own_passed: int, own_waiting: int, passed: int, waiting: int, floor: int) -> int:
    """Return what a gateway keeps of a contended limit."""
    small = min(own_passed + own_passed // HEADROOM, floor)
    mean, own = own_passed * waiting, own_waiting * passed
    if own >= mean:
        return small
    # From seven eighths without waiting clients to nothing if they wait as long as those of the others.
    unclaimed = (own_passed - own_passed // YIELDED) * (mean - own) // mean
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
            for number, sensor in enumerate(manager.sensors()):
                if number % SENSORS_PER_STEP == 0:
                    yield
                key = LimitKey(kind, sensor.user, sensor.client_id)
                known, count, rate = self._muted.get(key), counts.get(sensor, 0), sensor.rate
                window_ms = rate.window.window_ms
                windows = max(SPAN_MS // window_ms, 2)
                if not count and known is None and now_ms - sensor.last_record_ms > windows * window_ms:
                    continue
                limit = manager.whole_bound(sensor)
                if limit == UNLIMITED:
                    continue
                total, events, elapsed_ms = rate.recent(now_ms, windows)
                passed, waiting = millionths(total * 1000 / elapsed_ms, limit), 0
                if count or known is not None:
                    state = known or _Muted()
                    state.counts.append(count)
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
    """Return an amount in millionths of the limit, which may be so small that the quotient is infinite."""
    return int(min(max(amount * WHOLE / limit, 0), MAX_AMOUNT))
