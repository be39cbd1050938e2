"""Byte rate quotas for Produce and Fetch, and their pacing. (Kafka: ClientQuotaManager)

Called by the handlers, which test `active` first. Records usage and returns the throttle time; the network
package mutes the channel. Recording and checking are one step: no await separates them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import pairwise
from math import inf
from sys import float_info
from typing import Final, Self, cast

from broker.common.slices import Steps
from broker.metrics.rate import INT_MAX, Window, java_round, throttle_time_ms
from broker.quotas.entity import Governing
from broker.quotas.guarded_callback import GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW, QuotaManager
from broker.quotas.table import UNLIMITED, ShadowTotal
from broker.quotas.throttled import Throttle, ThrottledChannel
from broker.quotas.usage import MAX_SENSORS, ClientSensor, SensorKey, UserAndClientId

FOREVER_MS: Final = 2**62

THROTTLES_OWED: Final = 2
"""How many of the longest throttles a debt can take: a request that one of them repays is added to the debt
that its client waits for.
"""


class PacedDebt:
    """The debt of one sensor, in the quota's unit. Over when it is repaid and no throttle was necessary for
    `idle_ms`.

    Pacing keeps a client that exceeded its byte rate at that rate, without bursts. Kafka's formula alone
    allows a busy client ten seconds' worth at once, throttles it until those ten seconds leave the window,
    and allows the next burst: one minute is 10 % above the quota and the next 8 % below. 200 clients under
    one rule take 40 % more, since each throttle time assumes that no other client records. So Kafka's formula
    decides when a quota is violated and how long the first throttle is. From then on the excess is a debt,
    and each request waits until the debt before it is repaid. In simulation the rate stays within 0.2 % of
    the quota over any minute. What a former limit allowed (`Allowance`) adds no debt.

    `observed` is the highest rate measured until `judged_until_ms`. Until then a change to a bound of at
    least `observed` withdraws the violation.
    """

    __slots__ = ("_dropped", "_idle_ms", "_last_ms", "_over_at_ms", "_owed", "judged_until_ms", "observed")

    def __init__(
        self,
        owed: float,
        wait_ms: int,
        idle_ms: int,
        now_ms: int,
        *,
        observed: float = inf,
        judged_until_ms: int = 0,
    ) -> None:
        """Start with a debt of `owed`, the excess recorded so far, and its throttle time `wait_ms`."""
        self._owed = owed
        self._dropped = 0.0
        """What the limit on the debt has left out of the last charge."""
        self._last_ms = now_ms
        self._idle_ms = idle_ms
        self._over_at_ms = now_ms + wait_ms + idle_ms
        self.observed = observed
        self.judged_until_ms = judged_until_ms

    def is_over(self, now_ms: int) -> bool:
        return now_ms >= self._over_at_ms

    def charge(self, value: float, bound: float, longest_ms: int, most_owed_ms: int, now_ms: int) -> int:
        """Add `value` to the debt. Return the milliseconds to wait for the debt before it, at most
        `longest_ms`.

        `bound` is repaid per second. Credit is limited to one second's worth, and debt to what `most_owed_ms`
        repays.
        """
        owed = max(self._owed - bound * (now_ms - self._last_ms) / 1000.0, -bound)
        self._owed = min(owed + value, bound * most_owed_ms / 1000.0)
        self._dropped = owed + value - self._owed
        self._last_ms = now_ms
        wait_ms = min(java_round(owed / bound * 1000.0), longest_ms)
        if wait_ms > 0:
            self._over_at_ms = now_ms + wait_ms + self._idle_ms
        if self._owed > bound * (self._over_at_ms - now_ms) / 1000.0:
            # Otherwise a client that waits for `idle_ms` after a large request would owe nothing for it.
            self._over_at_ms = now_ms + self._repaid_in_ms(bound)
        return max(wait_ms, 0)

    def change_bound(self, old: float, new: float, now_ms: int | None) -> None:
        """Repay at `new` per second from `now_ms` on (None: since the last charge). The debt is kept; until
        then it was repaid at `old`.
        """
        now_ms = self._last_ms if now_ms is None else max(now_ms, self._last_ms)
        self._owed = self.owed(old, now_ms)
        self._last_ms = now_ms
        self._over_at_ms = max(self._over_at_ms, now_ms + self._repaid_in_ms(new) + self._idle_ms)

    def is_withdrawn(self, bound: float, now_ms: int | None) -> bool:
        """Return whether `bound` allows the rates measured while the violation was new."""
        now_ms = self._last_ms if now_ms is None else now_ms
        return now_ms <= self.judged_until_ms and self.observed <= bound

    def owed(self, bound: float, now_ms: int) -> float:
        """Return the present debt if `bound` was repaid per second since the last charge; negative for
        credit.
        """
        return max(self._owed - bound * (now_ms - self._last_ms) / 1000.0, -bound)

    def set_owed(self, owed: float, bound: float, now_ms: int) -> None:
        """Replace the debt, which is repaid at `bound` from now on."""
        self._owed = owed
        self._last_ms = now_ms
        self._over_at_ms = max(self._over_at_ms, now_ms + self._repaid_in_ms(bound) + self._idle_ms)

    def _repaid_in_ms(self, bound: float) -> int:
        return max(java_round(self._owed / bound * 1000.0), 0)

    def refund(self, value: float) -> None:
        """Subtract `value` from the debt."""
        self._owed -= value

    def take_back(self, value: float) -> None:
        """Subtract `value`, which was charged last, as far as it was added to the debt."""
        dropped = min(self._dropped, value)
        self._dropped -= dropped
        self._owed -= value - dropped


class Allowance:
    """The integral of one limit. Exact at the marks from the oldest on; linear between them.

    Keeps one mark per `spacing_ms` in which the limit changed, back to `reach_ms`.
    """

    __slots__ = ("_before", "_bound", "_marks", "_reach_ms", "_since_ms", "_spacing_ms", "_total")

    def __init__(self, bound: float, new: float, spacing_ms: int, reach_ms: int, now_ms: int) -> None:
        """Start with limit `bound` before `now_ms` and `new` from then on."""
        self._before = bound
        self._bound = new
        self._spacing_ms = spacing_ms
        self._reach_ms = reach_ms
        self._total = 0.0
        self._since_ms = now_ms
        self._marks = [(now_ms, 0.0)]

    def change(self, new: float, now_ms: int) -> None:
        """Set the limit to `new` from `now_ms` on."""
        self._total += self._bound * (now_ms - self._since_ms) / 1000
        self._since_ms, self._bound = now_ms, new
        marks = self._marks
        if now_ms - marks[-1][0] >= self._spacing_ms:
            marks.append((now_ms, self._total))
            while len(marks) > 2 and now_ms - marks[1][0] >= self._reach_ms:
                (begin_ms, begin), (end_ms, end) = marks[:2]
                self._before = (end - begin) * 1000 / (end_ms - begin_ms)
                del marks[0]

    def between(self, begin_ms: int, now_ms: int) -> float:
        """Return the amount allowed from `begin_ms` to `now_ms`; `now_ms` is not before the last change."""
        return self._total + self._bound * (now_ms - self._since_ms) / 1000 - self._until(begin_ms)

    def _until(self, at_ms: int) -> float:
        first_ms, first = self._marks[0]
        if at_ms <= first_ms:
            return first - self._before * (first_ms - at_ms) / 1000
        if at_ms >= self._since_ms:
            return self._total + self._bound * (at_ms - self._since_ms) / 1000
        for (begin_ms, begin), (end_ms, end) in pairwise([*self._marks, (self._since_ms, self._total)]):
            if at_ms <= end_ms:
                return begin + (end - begin) * (at_ms - begin_ms) / max(end_ms - begin_ms, 1)
        return self._total


class RateSensor(ClientSensor):
    """A sensor whose clients may be paced. `fits` is the largest value that can be recorded at
    once without a certain throttle.
    """

    __slots__ = ("allowance", "fits", "pace", "repaid")

    def __init__(self, user: str | None, client_id: str | None, now_ms: int, window: Window) -> None:
        super().__init__(user, client_id, now_ms, window)
        self.pace: PacedDebt | None = None
        self.fits = float_info.max
        self.repaid = UNLIMITED
        """The last limit. Debts are repaid at this rate, also while no limit applies."""
        self.allowance: Allowance | None = None

    def set_bound(
        self,
        bound: float,
        rule: Governing | None,
        shadow: ShadowTotal | None = None,
        now_ms: int | None = None,
    ) -> None:
        """Set the limit. Recorded values and debts remain, also while no rule applies. A violation in the
        current pass of the rules is withdrawn if `bound` allows the recorded use.
        """
        if rule is not None and bound != self.repaid:
            pace = self.pace
            if pace is not None:
                if pace.is_withdrawn(bound, now_ms):
                    self.pace = None
                else:
                    pace.change_bound(self.repaid, bound, now_ms)
            if now_ms is not None and self.repaid != UNLIMITED:
                self._note_change(bound, now_ms)
            self.repaid = bound
        super().set_bound(bound, rule, shadow, now_ms)
        window = self.rate.window
        is_free = rule is None or shadow is not None
        self.fits = float_info.max if is_free else bound * (window.samples - 1) * (window.window_ms / 1000)

    def allowed(self, begin_ms: int, now_ms: int) -> float:
        """Return the amount that the limit allowed from `begin_ms` to `now_ms`."""
        if self.allowance is not None:
            return self.allowance.between(begin_ms, now_ms)
        return self.repaid * (now_ms - begin_ms) / 1000.0

    def _note_change(self, bound: float, now_ms: int) -> None:
        if self.allowance is None:
            window = self.rate.window
            reach_ms = (window.samples + 1) * window.window_ms
            self.allowance = Allowance(self.repaid, bound, window.window_ms, reach_ms, now_ms)
        else:
            self.allowance.change(bound, now_ms)

    def debt(self, now_ms: int) -> float | None:
        """Return the debt of the sensor's clients, negative if they have credit, or None if they are not
        paced and have not exceeded what was allowed in the windows.
        """
        if self._is_paced(now_ms):
            assert self.pace is not None
            return self.pace.owed(self.repaid, now_ms)
        owed = self.owed_by_windows(self.rate.measure(now_ms), now_ms)
        return owed if owed > 0 else None

    def owed_by_windows(self, observed: float, now_ms: int) -> float:
        """Return the recorded amount in excess of what was allowed in the same time. Kafka's rate assumes
        empty windows before the first one; they add no debt.
        """
        rate = self.rate
        recorded = observed * rate.window_size_ms(now_ms) / 1000.0
        return recorded - self.allowed(rate.oldest_start(now_ms), now_ms)

    def _is_paced(self, now_ms: int) -> bool:
        return self.pace is not None and not self.pace.is_over(now_ms)

    def first_wait_ms(self, bound: float, now_ms: int) -> int:
        if self._is_paced(now_ms):
            return self.debt_wait_ms(bound, now_ms)
        observed = self.observed(now_ms)
        if observed <= bound:
            return 0
        return throttle_time_ms(observed, bound, self.rate.window_size_ms(now_ms))

    def debt_wait_ms(self, bound: float, now_ms: int) -> int:
        """Return the time in which `bound` repays the debt."""
        return max(java_round((self.debt(now_ms) or 0.0) / bound * 1000.0), 0)

    def spent(self, now_ms: int) -> float | None:
        """Return the debt of paced clients, negative for credit."""
        if not self._is_paced(now_ms):
            return None
        assert self.pace is not None
        return self.pace.owed(self.repaid, now_ms)

    def resume_spent(self, spent: float, now_ms: int) -> None:
        self.set_debt(max(spent, -self.repaid), now_ms)

    def reduce_debt(self, share: float, now_ms: int) -> None:
        """Move `share` of the debt to another sensor. Without a pace the windows continue to decide."""
        if self._is_paced(now_ms):
            assert self.pace is not None
            self.pace.refund(share)

    def set_debt(self, debt: float, now_ms: int) -> None:
        """Pace the sensor's clients with `debt` from `now_ms` on."""
        window = self.rate.window
        if self.pace is None or self.pace.is_over(now_ms):
            self.pace = PacedDebt(0.0, 0, window.samples * window.window_ms, now_ms)
        self.pace.set_owed(debt, self.repaid, now_ms)


class SharedRateSensor(RateSensor):
    """A sensor of a limit that several gateways share (quota.scope=cluster).

    A gateway's share changes every second. Kafka's formula compares ten seconds of usage with the present
    bound, so a share that grows would admit ten seconds of the growth at once, and one that shrinks would
    throttle for what the former share allowed. So the quota manager paces the clients of this sensor from
    their first request, as after a violation, and the pace never ends: a debt is what was recorded less the
    integral of the share, and their credit is a second's worth at most.
    """

    __slots__ = ()

    def __init__(self, user: str | None, client_id: str | None, now_ms: int, window: Window) -> None:
        super().__init__(user, client_id, now_ms, window)
        self.pace = PacedDebt(0.0, 0, FOREVER_MS, now_ms)


class RateQuotaManager(QuotaManager[RateSensor]):
    """A quota on a rate.

    `longest_ms` limits every throttle time (quota.max.throttle.ms; Kafka has no such limit for bytes).
    `paced` keeps a client that violated its quota at its bound; without it all verdicts are Kafka's. `build`
    creates the sensors.
    """

    def __init__(
        self,
        kind: QuotaKind,
        window: Window = CLIENT_QUOTA_WINDOW,
        longest_ms: int | None = None,
        *,
        paced: bool = False,
        max_sensors: int = MAX_SENSORS,
        callback: GuardedCallback | None = None,
        build: Callable[[str | None, str | None, int], RateSensor] | None = None,
    ) -> None:
        super().__init__(kind, window, build or partial(RateSensor, window=window), max_sensors, callback)
        self._paced = self._keeps_debts = paced
        self.limit_throttles(longest_ms)

    def limit_throttles(self, longest_ms: int | None) -> None:
        """Set the longest throttle time; None: no limit but that of throttle_time_ms, an int32. Kafka's
        narrowing of a longer time can be negative.
        """
        self.longest_ms = INT_MAX if longest_ms is None else min(longest_ms, INT_MAX)

    def part(self, node: int) -> Self:
        """Return the manager of what goes to one upstream node (quota.scope=broker): it has usage and debts
        of its own, and shares the rules and throttled channels. It records, and moves debts; the whole
        manager does everything else, for all parts.
        """
        made = self.parts.get(node)
        if made is None:
            made = self.parts[node] = cast("Self", self._without_rules())
            made.active = self.active
            made.throttled = self.throttled
            made._table = self._table
            made._usage = self._usage.part(node)
        return made

    @property
    def keeps_spent(self) -> bool:
        return self._keeps_debts

    def _without_rules(self) -> "RateQuotaManager":
        """Return a manager with the same configuration; a subclass returns one of its own class."""
        return RateQuotaManager(self.kind, self._window, self.longest_ms, paced=self._paced)

    def record(self, user: str, client_id: str | None, value: float, now_ms: int) -> Throttle | None:
        """Record `value`. Return a throttle that brings the client back to its bound if it exceeds it now.

        Records nothing while no rule exists.
        """
        if not self.active:
            return None
        sensor = self._usage.sensor(user, client_id, now_ms)
        sensor.last_record_ms = now_ms
        rate = sensor.rate
        rate.record(value, now_ms)
        if sensor.rule is None:
            return None
        if sensor.pace is not None and not sensor.pace.is_over(now_ms):
            return self._charge(sensor, sensor.pace, value, now_ms)
        observed = rate.measure(now_ms)
        if observed <= sensor.bound:
            return None
        return self._violated(sensor, observed, now_ms)

    def record_unchecked(self, user: str, client_id: str | None, value: float, now_ms: int) -> None:
        """Record `value` without a check; the next `record` detects a violation. (recordNoThrottle)"""
        if self.active:
            sensor = self._usage.sensor(user, client_id, now_ms)
            sensor.last_record_ms = now_ms
            sensor.rate.record(value, now_ms)
            if sensor.pace is not None:
                if value < 0:
                    sensor.pace.take_back(-value)
                else:
                    sensor.pace.refund(-value)

    def unrecord(self, user: str, client_id: str | None, value: float, now_ms: int) -> None:
        """Subtract what was recorded for a fetch whose response is empty because of a quota."""
        self.record_unchecked(user, client_id, -value, now_ms)

    def adopt(self, running: Iterable[tuple[str, str | None, float]], now_ms: int) -> Steps[None]:
        """Start to count clients that were active before their rule: user, client id and units per second.

        Kafka assumes that a new client was idle before and allows it ten seconds' worth at once. A client
        whose known rate exceeds its bound starts with exactly its bound recorded instead, so its next record
        is throttled. Sensors that are older than the change of the rules are left as they are.
        """
        usage = self._usage
        found: dict[RateSensor, float] = {}
        for user, client_id, per_second in running:
            yield
            known = usage.find(user, client_id) if self.active else None
            if not self.active or (known is not None and known not in found and not usage.is_new(known)):
                continue
            sensor = usage.sensor(user, client_id, now_ms)
            found[sensor] = found.get(sensor, 0.0) + per_second
        for sensor, per_second in found.items():
            yield
            if sensor.rule is not None and per_second > sensor.bound:
                self._begin_at_bound(sensor, now_ms)
        usage.forget_new()

    def max_value_in_window(self, user: str, client_id: str | None, now_ms: int) -> float:
        """Return the largest value that can be recorded at once without a certain throttle, or the largest
        float without a limit. (getMaxValueInQuotaWindow: the limit over all windows but the present one.)
        """
        if not self.active:
            return float_info.max
        return self._usage.sensor(user, client_id, now_ms).fits

    def _begin_at_bound(self, sensor: RateSensor, now_ms: int) -> None:
        window_ms = self._window.window_ms
        for windows in range(self._window.samples - 1, 0, -1):
            sensor.rate.record(sensor.bound * window_ms / 1000, now_ms - windows * window_ms)

    def wait_at(self, observed: float, bound: float) -> int:
        return min(super().wait_at(observed, bound), self.longest_ms)

    def _is_withdrawn(self, throttled: ThrottledChannel, bound: float) -> bool:
        if not self._paced:
            return throttled.throttle.observed <= bound
        assert isinstance(throttled.sensor, RateSensor)
        return throttled.sensor.pace is None

    def _max_throttle_ms(self) -> int:
        return self.longest_ms

    def _first_wait_ms(self, user: str, client_id: str, sensor: SensorKey, bound: float, now_ms: int) -> int:
        """As documented, with the whole debt of the client's present sensor; a client takes its share of it
        along.
        """
        wait_ms = super()._first_wait_ms(user, client_id, sensor, bound, now_ms)
        former = self._usage.find(user, client_id)
        if not self._keeps_debts or former is None or former is self._usage.at(sensor):
            return wait_ms
        return max(wait_ms, former.debt_wait_ms(bound, now_ms))

    def _move_debts(
        self, left: Mapping[UserAndClientId, RateSensor], clients: Collection[UserAndClientId], now_ms: int
    ) -> Steps[None]:
        if not self._keeps_debts:
            return
        usage = self._usage
        connections: Counter[RateSensor] = Counter()
        moves: Counter[tuple[RateSensor, RateSensor]] = Counter()
        for client in clients:
            yield
            old = left.get(client) or usage.current(client)
            if old is None or usage.is_forgotten(old):
                continue
            connections[old] += 1
            if client in left and (new := usage.sensor(*client, now_ms)) is not old and new.rule is not None:
                moves[old, new] += 1
        before: dict[RateSensor, float | None] = {}
        for old, _ in moves:
            yield
            before[old] = old.debt(now_ms)
        joined = set(connections)
        for (old, new), count in moves.items():
            yield
            debt = before[old]
            if debt is None:
                continue
            share = debt * count / connections[old]
            old.reduce_debt(share, now_ms)
            if new not in joined:
                new.set_debt(share, now_ms)
                joined.add(new)
            elif share > 0:
                new.set_debt((new.debt(now_ms) or 0.0) + share, now_ms)
        for throttled in self.throttled.all():
            yield
            client = throttled.channel.principal, throttled.channel.client_id
            now_under = usage.current(client) if client in left else None
            former = throttled.sensor
            if now_under is not None and now_under is not former and now_under.node == former.node:
                throttled.sensor = now_under
                self._shorten(throttled, now_ms)

    def _shorten(self, throttled: ThrottledChannel, now_ms: int) -> None:
        """End a throttle no later than the sensor's debt is repaid."""
        assert isinstance(throttled.sensor, RateSensor)
        debt = throttled.sensor.debt(now_ms)
        if debt is not None:
            self.throttled.cut(throttled, now_ms + max(debt, 0.0) / throttled.sensor.repaid * 1000)

    def _violated(self, sensor: RateSensor, observed: float, now_ms: int) -> Throttle | None:
        bound, rate = sensor.bound, sensor.rate
        window_ms = rate.window_size_ms(now_ms)
        wait_ms = min(throttle_time_ms(observed, bound, window_ms), self.longest_ms)
        if wait_ms <= 0:
            return None
        if self._paced:
            owed = sensor.owed_by_windows(observed, now_ms)
            idle_ms = self._window.samples * self._window.window_ms
            judged_until_ms = now_ms + min(wait_ms, idle_ms - self._window.window_ms)
            sensor.pace = PacedDebt(
                owed, wait_ms, idle_ms, now_ms, observed=observed, judged_until_ms=judged_until_ms
            )
        return self._throttle(sensor, wait_ms, observed, now_ms)

    def _charge(self, sensor: RateSensor, pace: PacedDebt, value: float, now_ms: int) -> Throttle | None:
        longest_ms = self.longest_ms
        wait_ms = pace.charge(value, sensor.bound, longest_ms, longest_ms * THROTTLES_OWED, now_ms)
        if not wait_ms:
            return None
        # The rate for which Kafka's formula gives this wait: usage including the debt.
        owing = sensor.bound * (1.0 + wait_ms / sensor.rate.window_size_ms(now_ms))
        observed = sensor.rate.measure(now_ms)
        if observed > pace.observed:
            pace.observed = observed
        return self._throttle(sensor, wait_ms, max(owing, observed), now_ms)

    def _throttle(self, sensor: RateSensor, wait_ms: int, observed: float, now_ms: int) -> Throttle | None:
        """Return the verdict. In shadow mode, count it and return None."""
        if sensor.shadow is not None:
            sensor.shadow.note(wait_ms, now_ms)
            return None
        assert sensor.rule is not None
        return Throttle(self.kind, wait_ms, sensor.rule, observed, sensor.bound, sensor)
