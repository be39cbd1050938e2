"""The quota on bytes per second, for produce and for fetch. (Kafka: ClientQuotaManager)

Called by the handlers, which test `active` first. Records, and says how long to wait; holding the channel is
the network room's work. Recording and checking are one step, since nothing awaits between.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from sys import float_info

from broker.metrics.quota import INT_MAX, throttle_time_ms
from broker.metrics.window import Window
from broker.quotas.allowance import Allowance
from broker.quotas.entity import Governing
from broker.quotas.guarded import GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW, QuotaManager
from broker.quotas.pacing import Pace
from broker.quotas.shadow import ShadowTotal
from broker.quotas.table import UNLIMITED
from broker.quotas.throttled import Held
from broker.quotas.usage import FEW, MAX_SENSORS, Client, ClientSensor
from broker.quotas.verdict import Throttle
from broker.steps import Steps, finished


class RateSensor(ClientSensor):
    """A sensor whose clients may be paced; see `pacing`. `fits` is the most that can be recorded at once
    without a certain throttle.
    """

    __slots__ = ("allowance", "fits", "pace", "repaid")

    def __init__(self, user: str | None, client_id: str | None, now_ms: int, window: Window) -> None:
        super().__init__(user, client_id, now_ms, window)
        self.pace: Pace | None = None
        self.fits = float_info.max
        self.repaid = UNLIMITED
        """The last limit: debts are repaid at it, also while there is none."""
        self.allowance: Allowance | None = None

    def set_bound(
        self,
        bound: float,
        rule: Governing | None,
        shadow: ShadowTotal | None = None,
        now_ms: int | None = None,
    ) -> None:
        """What was recorded stays recorded, and what is owed is owed, over a time without a rule too. A
        violation that was found a moment ago is withdrawn where `bound` allows what was used.
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
        """What the limit allowed from `begin_ms` to `now_ms`."""
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
        """What its clients owe, negative where they have saved up; None where they are not paced and have not
        used more than was allowed lately.
        """
        if self._is_paced(now_ms):
            assert self.pace is not None
            return self.pace.owed(self.repaid, now_ms)
        owed = self.owed_by_windows(self.rate.measure(now_ms), now_ms)
        return owed if owed > 0 else None

    def owed_by_windows(self, observed: float, now_ms: int) -> float:
        """What was recorded beyond what was allowed while it was. Kafka's rate supposes quiet windows before
        the first one; for them nothing can be owed.
        """
        rate = self.rate
        recorded = observed * rate.window_size_ms(now_ms) / 1000.0
        return recorded - self.allowed(rate.oldest_start(now_ms), now_ms)

    def _is_paced(self, now_ms: int) -> bool:
        return self.pace is not None and not self.pace.is_over(now_ms)

    def reduce_debt(self, share: float, now_ms: int) -> None:
        """Somebody else pays `share` of it. Where they are not paced the windows go on to judge."""
        if self._is_paced(now_ms):
            assert self.pace is not None
            self.pace.refund(share)

    def set_debt(self, debt: float, now_ms: int) -> None:
        """Paces its clients, who owe so much now."""
        window = self.rate.window
        if self.pace is None or self.pace.is_over(now_ms):
            self.pace = Pace(0.0, 0, window.samples * window.window_ms, now_ms)
        self.pace.set_owed(debt, self.repaid, now_ms)


class RateQuotaManager(QuotaManager[RateSensor]):
    """A quota on a rate.

    `longest_ms` cuts every throttle (quota.max.throttle.ms; Kafka has no such limit for bytes). `paced` keeps
    a client that has broken its quota at the bound; without it the verdicts are Kafka's throughout. `build`
    makes sensors of a kind of their own.
    """

    __slots__ = ("_keeps_debts", "_paced", "longest_ms")

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
        # A reply carries the wait as an int32; Kafka's narrowing of a longer one can make it negative.
        self.longest_ms = INT_MAX if longest_ms is None else longest_ms

    def record(self, user: str, client_id: str | None, value: float, now_ms: int) -> Throttle | None:
        """Records `value`; a throttle if the client is over its bound now, whose wait brings it down to it.

        Nothing is recorded while no rule exists at all.
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
        """Records, and leaves it to the next `record` to see a broken bound. (recordNoThrottle)"""
        if self.active:
            sensor = self._usage.sensor(user, client_id, now_ms)
            sensor.last_record_ms = now_ms
            sensor.rate.record(value, now_ms)
            if sensor.pace is not None:
                sensor.pace.refund(-value)

    def unrecord(self, user: str, client_id: str | None, value: float, now_ms: int) -> None:
        """Takes back what was recorded, for a fetch that is answered empty because it broke a quota."""
        self.record_unchecked(user, client_id, -value, now_ms)

    def adopt(self, running: Iterable[tuple[str, str | None, float]], now_ms: int) -> None:
        """Begins to count clients that were there before their rule: user, client id and units per second.

        Kafka supposes that a client which it sees for the first time was quiet before, and lets it use ten
        seconds' worth at once. Who is known to be over its bound already gets no such present: it begins as
        one that has used exactly its bound, so the next record is held. A sensor that exists knows better.
        """
        finished(self.adopt_in_steps(running, now_ms))

    def adopt_in_steps(self, running: Iterable[tuple[str, str | None, float]], now_ms: int) -> Steps[None]:
        """The same; stops after every few clients. A sensor that was made since the rules changed knows no
        better.
        """
        usage = self._usage
        found: dict[RateSensor, float] = {}
        for number, (user, client_id, per_second) in enumerate(running):
            if number % FEW == FEW - 1:
                yield
            known = usage.find(user, client_id) if self.active else None
            if not self.active or (known is not None and known not in found and not usage.is_new(known)):
                continue
            sensor = usage.sensor(user, client_id, now_ms)
            found[sensor] = found.get(sensor, 0.0) + per_second
        for number, (sensor, per_second) in enumerate(found.items()):
            if number % FEW == FEW - 1:
                yield
            if sensor.rule is not None and per_second > sensor.bound:
                self._begin_at_bound(sensor, now_ms)
        usage.forget_new()

    def max_value_in_window(self, user: str, client_id: str | None, now_ms: int) -> float:
        """The most that can be recorded at once without a certain throttle; the largest float without a
        limit.

        (getMaxValueInQuotaWindow: the limit over all windows but the present one.)
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

    def _is_withdrawn(self, held: Held, bound: float) -> bool:
        if not self._paced:
            return held.throttle.observed <= bound
        assert isinstance(held.sensor, RateSensor)
        return held.sensor.pace is None

    def _longest_hold_ms(self) -> int:
        return self.longest_ms

    def _move_debts(
        self, left: Mapping[Client, RateSensor], clients: Collection[Client], now_ms: int
    ) -> Steps[None]:
        if not self._keeps_debts:
            return
        usage = self._usage
        connections: Counter[RateSensor] = Counter()
        moves: Counter[tuple[RateSensor, RateSensor]] = Counter()
        for number, client in enumerate(clients):
            if number % FEW == FEW - 1:
                yield
            old = left.get(client) or usage.current(client)
            if old is None or usage.is_forgotten(old):
                continue
            connections[old] += 1
            if client in left and (new := usage.sensor(*client, now_ms)) is not old and new.rule is not None:
                moves[old, new] += 1
        before: dict[RateSensor, float | None] = {}
        for number, (old, _) in enumerate(moves):
            if number % FEW == FEW - 1:
                yield
            before[old] = old.debt(now_ms)
        joined = set(connections)
        for number, ((old, new), count) in enumerate(moves.items()):
            if number % FEW == FEW - 1:
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
        for number, held in enumerate(self.throttled.held()):
            if number % FEW == FEW - 1:
                yield
            client = held.channel.principal, held.channel.client_id
            now_under = usage.current(client) if client in left else None
            if now_under is not None and now_under is not held.sensor:
                held.sensor = now_under
                self._shorten(held, now_ms)

    def _shorten(self, held: Held, now_ms: int) -> None:
        """Ends a hold no later than its sensor owes nothing more."""
        assert isinstance(held.sensor, RateSensor)
        debt = held.sensor.debt(now_ms)
        if debt is not None:
            self.throttled.cut(held, now_ms + max(debt, 0.0) / held.sensor.repaid * 1000)

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
            sensor.pace = Pace(
                owed, wait_ms, idle_ms, now_ms, observed=observed, judged_until_ms=judged_until_ms
            )
        return self._throttle(sensor, wait_ms, observed, now_ms)

    def _charge(self, sensor: RateSensor, pace: Pace, value: float, now_ms: int) -> Throttle | None:
        wait_ms = pace.charge(value, sensor.bound, self.longest_ms, now_ms)
        if not wait_ms:
            return None
        # The rate for which Kafka's formula gives this wait: use, with the debt in it.
        owing = sensor.bound * (1.0 + wait_ms / sensor.rate.window_size_ms(now_ms))
        observed = sensor.rate.measure(now_ms)
        if observed > pace.observed:
            pace.observed = observed
        return self._throttle(sensor, wait_ms, max(owing, observed), now_ms)

    def _throttle(self, sensor: RateSensor, wait_ms: int, observed: float, now_ms: int) -> Throttle | None:
        """The verdict; in shadow mode it is counted and nobody is told."""
        if sensor.shadow is not None:
            sensor.shadow.note(wait_ms, now_ms)
            return None
        assert sensor.rule is not None
        return Throttle(self.kind, wait_ms, sensor.rule, observed, sensor.bound, sensor)
