"""The base of all client quota managers: rules, sensors and throttled channels.

The subclasses (`bandwidth`, `request`, `mutation`) define what a sensor measures and when its quota is
violated. A changed rule changes a sensor's limit and never its usage. (Kafka: ClientQuotaManager)
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from itertools import chain
from typing import Final, Generic, Self

from broker.common.slices import Steps, nlargest_in_steps, run_through
from broker.metrics.rate import INT_MAX, Window, throttle_time_ms
from broker.quotas.callback_usage import CallbackUsage
from broker.quotas.entity import Name
from broker.quotas.guarded_callback import GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.quotas.table import Levels, QuotaTable, Resolution, RuleKey, ShadowTotal, probes
from broker.quotas.throttled import Throttle, Throttleable, ThrottledChannel, ThrottledChannels
from broker.quotas.usage import (
    MAX_SENSORS,
    ClientSensor,
    Decision,
    RuleChange,
    S,
    SensorKey,
    Usage,
    UserAndClientId,
)

CLIENT_QUOTA_WINDOW: Final = Window(samples=11, window_ms=1_000)
"""quota.window.num and quota.window.size.seconds: ten whole windows and the present one."""


class RuleDraft:
    """Changes of the rules of one quota type, in order. `table` is the result."""

    def __init__(self, table: QuotaTable) -> None:
        self.table = table
        self.bounds: dict[RuleKey, float | None] = {}
        self.shadows: set[RuleKey] = set()
        self.enforced: set[RuleKey] = set()
        self.new_rules: set[RuleKey] = set()

    def set_bound(self, rule: RuleKey, bound: float | None) -> None:
        """Set the limit of a rule; None removes it. The present limit is no change."""
        table = self.table
        before = table.get(rule)
        if bound == before and Levels.CUSTOM not in table.enabled:
            return
        table.set(*rule, bound)
        self.bounds[rule] = bound
        if bound is None or before is None:
            self.new_rules.add(rule)

    def set_shadow(self, rule: RuleKey, *, is_shadow: bool) -> None:
        """Set whether a rule is only measured, not enforced."""
        shadows = self.table.shadows
        self.shadows.add(rule)
        if is_shadow:
            shadows.setdefault(rule, ShadowTotal())
            self.enforced.discard(rule)
        elif shadows.pop(rule, None) is not None:
            self.new_rules.add(rule)
            self.enforced.add(rule)


class QuotaManager(Generic[S]):
    """One type of quota. While `active` is False there is no rule, and callers skip the quota.

    With a `callback` it is always active: the callback decides, and rules are passed to it. `parts` are the
    managers of what goes to single upstream nodes, by node id; see `RateQuotaManager.part`.
    """

    def __init__(
        self,
        kind: QuotaKind,
        window: Window,
        build: Callable[[str | None, str | None, int], S],
        max_sensors: int = MAX_SENSORS,
        callback: GuardedCallback | None = None,
    ) -> None:
        self.kind = kind
        self.active = callback is not None
        self.throttled = ThrottledChannels()
        self.parts: dict[int, Self] = {}
        self._window = window
        self._table = QuotaTable(Levels.NONE if callback is None else Levels.CUSTOM)
        self._usage: Usage[S] = (
            Usage(self._table, build, max_sensors)
            if callback is None
            else CallbackUsage(callback, kind, self._table, build, max_sensors, self.sweep)
        )
        self._new_rules: set[RuleKey] = set()
        self._change: RuleChange | None = None

    def set_bound(self, user: Name, client_id: Name, bound: float | None, now_ms: int | None = None) -> None:
        """Set the limit of a rule from `now_ms` on, or remove the rule (None). Applies to the next record.

        Usage and debt are kept. Throttled clients repay the rest of their debt under the new limit; those
        without a limit are due now. The present limit changes nothing. Without `now_ms` no time has passed
        since the last record and since the channels were throttled.
        """
        draft = RuleDraft(self._table)
        draft.set_bound((user, client_id), bound)
        self._switch_at_once(draft, now_ms)

    def set_shadow(self, user: Name, client_id: Name, *, is_shadow: bool, now_ms: int | None = None) -> None:
        """Set whether a rule is only measured, with its verdicts counted in `shadows`. Clients throttled by
        it are freed. When enforced again it starts like a new rule, without the usage recorded under it.
        """
        draft = RuleDraft(self._table)
        draft.set_shadow((user, client_id), is_shadow=is_shadow)
        self._switch_at_once(draft, now_ms)

    def draft(self) -> "RuleDraft":
        """Return a draft of rule changes that take effect together."""
        return RuleDraft(self._table.copy())

    def switch(self, draft: "RuleDraft", now_ms: int | None) -> None:
        """Apply the draft for all clients from `now_ms` on, however many rules it changes. The caller must
        finish `catch_up` next.
        """
        if draft.table is not self._table:
            self._table.become(draft.table)
        change = None
        if draft.bounds or draft.shadows:
            moved = bool(draft.new_rules)
            change = RuleChange(draft.bounds, draft.shadows, draft.enforced, moved, now_ms)
        for manager in self._managers():
            manager.active = bool(self._table.enabled)
            manager._new_rules |= draft.new_rules
            if change is not None:
                manager._usage.switch(change)
        self._change = change or self._change

    def _switch_at_once(self, draft: "RuleDraft", now_ms: int | None) -> None:
        """Apply a draft whose table is this manager's. No sensor is created between its two steps."""
        self.switch(draft, now_ms)
        run_through(self.catch_up())
        for manager in self._managers():
            manager._usage.forget_made()

    def catch_up(self) -> Steps[None]:
        """Update the sensors that no request has used since the switch, and the throttle times of throttled
        clients.
        """
        change, self._change = self._change, None
        if change is not None:
            for manager in self._managers():
                yield from manager._usage.catch_up()
            yield from self._rebind({*change.rules}, change.now_ms)

    def set_shares(self, shares: Mapping[SensorKey, float], other: float, now_ms: int) -> Steps[None]:
        """Enforce only a part of each limit from `now_ms` on, because other gateways have the rest: `shares`
        by the user and client id of the sensor, `other` for all other sensors.

        Rules, usage and debts are kept, and throttled clients repay their debts at the new rate. A callback's
        limits are not shared.
        """
        changed = yield from self._usage.set_shares(shares, other, now_ms)
        channels = self.throttled
        if not changed or not channels:
            return
        for throttled in channels.all():
            yield
            sensor = throttled.sensor
            if sensor in changed and sensor.rule is not None and sensor.shadow is None:
                channels.change_bound(throttled, sensor.bound, sensor.rule, now_ms, self._max_throttle_ms())

    def whole_bound(self, sensor: ClientSensor) -> float:
        """Return the whole limit of which the sensor has a share, UNLIMITED without a limit."""
        return self._usage.whole_bound(sensor)

    def sweep(self, now_ms: int | None = None) -> None:
        """Refresh all limits after a change other than of a rule, and the throttle times with them."""
        for manager in self._managers():
            manager._usage.sweep(now_ms)
        run_through(self._rebind(None, now_ms))

    def concerns(self, user: str, client_id: str | None) -> bool:
        """Return whether a rule added or removed since the last `recheck_clients` could match this client."""
        return not self._new_rules.isdisjoint(probes(user, client_id or ""))

    def recheck_clients(self, clients: Collection[UserAndClientId], now_ms: int) -> Steps[None]:
        """Move the debts of `clients`, one for each open connection, after rules were added or removed.

        Kafka starts a new count under another rule. Here a connection keeps its share of the debt of all
        clients of its sensor, so moving it back and forth clears no debt.
        """
        self._new_rules.clear()
        left = self._usage.take_former_sensors()
        if left:
            yield from self._move_debts(left, clients, now_ms)

    def forget_new(self) -> None:
        """Forget which rules were added or removed; see `RateQuotaManager.adopt`."""
        self._usage.forget_new()

    @property
    def has_new_rules(self) -> bool:
        """Whether rules were added or removed since the last `recheck_clients`."""
        return bool(self._new_rules)

    def bound(self, user: str, client_id: str | None) -> float:
        """Return the whole limit of this client, UNLIMITED without one."""
        return self._usage.bound(user, client_id)

    @property
    def shadows(self) -> Mapping[RuleKey, ShadowTotal]:
        """The counts of each rule in shadow mode."""
        return self._table.shadows

    def resolve(self, user: str, client_id: str | None) -> Resolution:
        """Return the matching level of the eight, and all that were tried."""
        return self._table.resolve(user, client_id or "")

    def decide(self, user: str, client_id: str | None) -> Decision | None:
        """Return the callback's decision for this client, or None without a callback."""
        return self._usage.decide(user, client_id)

    def wait_at(self, observed: float, bound: float) -> int:
        """Return the throttle time in milliseconds for a rate of `observed` in all whole windows; 0 up to
        `bound`.
        """
        span_ms = (self._window.samples - 1) * self._window.window_ms
        return max(min(throttle_time_ms(observed, bound, span_ms), INT_MAX), 0)

    def first_wait_ms(self, user: str, client_id: str, sensor: SensorKey, bound: float, now_ms: int) -> int:
        """Return how long a client is throttled first if its limit becomes `bound` now and its sensor the one
        with the key `sensor`, by what was recorded and what it owes. 0: it only waits for what it sends from
        now on.
        """
        waits = [
            manager._first_wait_ms(user, client_id, sensor, bound, now_ms) for manager in self._managers()
        ]
        return min(max(waits), self._max_throttle_ms())

    def throttle(self, channel: Throttleable, token: object, throttle: Throttle, now_ms: int) -> None:
        """Throttle `channel` before its response is enqueued (KIP-219)."""
        throttle.sensor.note_throttle(throttle.throttle_ms, now_ms)
        self.throttled.add(channel, token, throttle, now_ms)

    def prolong(self, channel: Throttleable, throttle: Throttle, now_ms: int) -> bool:
        """Extend the throttle of `channel` to the later end. Return False if it is not throttled."""
        if not self.throttled.prolong(channel, throttle, now_ms):
            return False
        throttle.sensor.note_throttle(throttle.throttle_ms, now_ms)
        return True

    def find(self, user: str, client_id: str | None) -> S | None:
        """Return the sensor of this client, or None if nothing was recorded for it; see `sensors_of`."""
        return self._usage.find(user, client_id)

    def sensors_of(self, user: str, client_id: str | None) -> list[S]:
        """Return the sensors of this client: one at most, or one for each upstream node."""
        found = [manager.find(user, client_id) for manager in self._managers()]
        return [sensor for sensor in found if sensor is not None]

    def sensors_under(self, rule: RuleKey) -> Iterator[S]:
        """Return the sensors that this rule limits."""
        return chain.from_iterable([manager._usage.under(rule) for manager in self._managers()])

    def sensors(self) -> Iterator[S]:
        """Iterate over a snapshot of all sensors, with their present limits."""
        return chain.from_iterable([manager._usage for manager in self._managers()])

    def busiest(self, count: int, now_ms: int) -> Generator[None, None, list[S]]:
        """Return the `count` busiest sensors in descending order, with present limits. Yields between."""
        chosen = yield from self._usage.busiest(count, now_ms)
        if self.parts:
            for part in list(self.parts.values()):
                chosen += yield from part._usage.busiest(count, now_ms)
            chosen = yield from nlargest_in_steps(count, chosen, lambda sensor: sensor.observed(now_ms))
        return chosen

    def known_sensors(self) -> list[S]:
        """Return all sensors, with limits that may be older than the last change of rules."""
        return [sensor for manager in self._managers() for sensor in manager._usage.known()]

    def resume(self, user: str | None, client_id: str | None, now_ms: int) -> S | None:
        """Return a new sensor for usage from before a restart; None if no rule applies to its clients now."""
        return self._usage.resumed(user, client_id, now_ms) if self.active else None

    @property
    def keeps_spent(self) -> bool:
        """Whether verdicts depend on what `ClientSensor.spent` returns."""
        return True

    @property
    def sensor_count(self) -> int:
        return sum(len(manager._usage) for manager in self._managers())

    def expire(self, now_ms: int) -> Steps[int]:
        """Remove sensors idle for more than an hour and return their number."""
        count = 0
        for manager in self._managers():
            count += yield from manager._usage.expire(now_ms)
        return count

    def _managers(self) -> "list[Self]":
        """Return this manager and its parts."""
        return [self, *self.parts.values()]

    def _rebind(self, rules: Collection[RuleKey] | None, now_ms: int | None) -> Steps[None]:
        """Update the throttle times of all clients that `rules` could match (None: all)."""
        channels = self.throttled
        if not channels:
            return
        for throttled in channels.all():
            channel = throttled.channel
            user, client_id = channel.principal, channel.client_id
            if rules is not None and not any(rule in rules for rule in probes(user, client_id or "")):
                yield
                continue
            node = throttled.sensor.node
            usage = self._usage if node is None else self.parts[node]._usage
            bound, governing = usage.enforced(user, client_id)
            if governing is None or self._is_withdrawn(throttled, bound):
                channels.end_early(throttled)
            else:
                channels.change_bound(throttled, bound, governing, now_ms, self._max_throttle_ms())
            yield

    def _is_withdrawn(self, throttled: ThrottledChannel, bound: float) -> bool:
        """Return whether `bound` allows what `throttled` is throttled for."""
        return False

    def _max_throttle_ms(self) -> int:
        return INT_MAX

    def _first_wait_ms(self, user: str, client_id: str, sensor: SensorKey, bound: float, now_ms: int) -> int:
        there = self._usage.at(sensor)
        return 0 if there is None else there.first_wait_ms(bound, now_ms)

    def _move_debts(
        self, left: Mapping[UserAndClientId, S], clients: Collection[UserAndClientId], now_ms: int
    ) -> Steps[None]:
        """Move debts of the connections of `clients`; those in `left` may have new sensors."""
        yield from ()

    def __len__(self) -> int:
        """Return the number of rules."""
        return len(self._table)
