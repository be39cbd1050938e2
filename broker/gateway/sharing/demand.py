"""Measures what a gateway's clients use of each limit, and what waits in the connections that it throttles.

Called once a second by `member`. No request pays for it: it reads the sensors and the throttled channels of
the quota managers.
"""

from collections import Counter, deque
from typing import Final

from broker.common.slices import Steps
from broker.gateway.sharing.division import Demand
from broker.gateway.sharing.report import MAX_AMOUNT, WHOLE, LimitKey
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.remote_use import SHARED_KINDS
from broker.quotas.table import UNLIMITED
from broker.quotas.usage import ClientSensor

SPAN_MS: Final = 3_000
"""Time over which use is measured, at least two windows of the quotas."""

COUNTS: Final = 3
"""Measurements over which the number of waiting connections is averaged."""

MAX_LINES: Final = 2_000
"""Limits in one report, the most used ones. A gateway keeps the starting share of the others."""


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
        for kind in SHARED_KINDS:
            manager = quotas.managers[kind]
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
                passed, waiting = _millionths(total * 1000 / elapsed_ms, limit), 0
                if counts[sensor] or known is not None:
                    state = known or _Muted()
                    state.counts.append(counts[sensor])
                    if events:
                        state.size = total / events
                    if any(state.counts):
                        muted[key] = state
                        waiting = _millionths(sum(state.counts) / len(state.counts) * state.size, limit)
                    if all(state.counts):
                        passed = _millionths(sensor.bound, limit)
                if waiting or passed > least:
                    found[key] = Demand(passed, waiting)
        self._muted = muted
        if len(found) > MAX_LINES:
            most = sorted(found, key=lambda key: sum(found[key]), reverse=True)[:MAX_LINES]
            found = {key: found[key] for key in most}
        return found


def _millionths(amount: float, limit: float) -> int:
    return min(max(int(amount * WHOLE / limit), 0), MAX_AMOUNT)
