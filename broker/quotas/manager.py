"""What all managers of client quotas share: their rules, the sensors under them, and the channels they hold.

The kinds differ in what a sensor measures and in when it is broken: `bandwidth`, `request`, `mutation`. A
rule changes what a sensor may do and never what it has used. (Kafka: the part of ClientQuotaManager that its
subclasses inherit)
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from typing import Final, Generic

from broker.metrics.quota import INT_MAX, throttle_time_ms
from broker.metrics.window import Window
from broker.quotas.custom import CustomUsage
from broker.quotas.entity import Name
from broker.quotas.guarded import GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.quotas.shadow import ShadowTotal
from broker.quotas.table import Levels, QuotaTable, Resolution, Rule, probes
from broker.quotas.throttled import Held, Throttleable, ThrottledChannels
from broker.quotas.usage import FEW, MAX_SENSORS, Client, Decision, RuleChange, S, Usage
from broker.quotas.verdict import Throttle
from broker.steps import Steps, finished

CLIENT_QUOTA_WINDOW: Final = Window(samples=11, window_ms=1_000)
"""quota.window.num and quota.window.size.seconds: ten whole windows and the present one."""


class RuleDraft:
    """Changes of the rules of one kind, in the order in which they are made. `table` is what they come to."""

    __slots__ = ("bounds", "enforced", "new_rules", "shadows", "table")

    def __init__(self, table: QuotaTable) -> None:
        self.table = table
        self.bounds: dict[Rule, float | None] = {}
        self.shadows: set[Rule] = set()
        self.enforced: set[Rule] = set()
        self.new_rules: set[Rule] = set()

    def set_bound(self, rule: Rule, bound: float | None) -> None:
        """The limit of a rule; None removes it. One that is there already is no change."""
        table = self.table
        before = table.get(rule)
        if bound == before and Levels.CUSTOM not in table.enabled:
            return
        table.set(*rule, bound)
        self.bounds[rule] = bound
        if bound is None or before is None:
            self.new_rules.add(rule)

    def set_shadow(self, rule: Rule, *, is_shadow: bool) -> None:
        """Whether a rule is only measured."""
        shadows = self.table.shadows
        self.shadows.add(rule)
        if is_shadow:
            shadows.setdefault(rule, ShadowTotal())
            self.enforced.discard(rule)
        elif shadows.pop(rule, None) is not None:
            self.new_rules.add(rule)
            self.enforced.add(rule)


class QuotaManager(Generic[S]):
    """One kind of quota. While `active` is False no rule exists: callers test it and skip everything else.

    With a `callback` it is always active: the callback decides, and rules are what it is told.
    """

    __slots__ = ("_change", "_new_rules", "_table", "_usage", "_window", "active", "kind", "throttled")

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
        self._window = window
        self._table = QuotaTable(Levels.NONE if callback is None else Levels.CUSTOM)
        self._usage: Usage[S] = (
            Usage(self._table, build, max_sensors)
            if callback is None
            else CustomUsage(callback, kind, self._table, build, max_sensors, self._rebind_all)
        )
        self._new_rules: set[Rule] = set()
        self._change: RuleChange | None = None

    def set_bound(self, user: Name, client_id: Name, bound: float | None, now_ms: int | None = None) -> None:
        """Sets the limit of a rule from `now_ms` on, or removes the rule (None). The next record obeys.

        Usage and debt are kept. What is left of the waits of those who are held is repaid under the new
        limit; who has none any more is due. The limit that is there already changes nothing. Without
        `now_ms` nothing has passed since the last record and since the channels were held.
        """
        draft = RuleDraft(self._table)
        draft.set_bound((user, client_id), bound)
        self._switch_at_once(draft, now_ms)

    def set_shadow(self, user: Name, client_id: Name, *, is_shadow: bool, now_ms: int | None = None) -> None:
        """Whether a rule is only measured, and what it would do counted in `shadows`. Who is held by it is
        freed. When it is enforced again it begins like a new rule: what was used under it is forgotten.
        """
        draft = RuleDraft(self._table)
        draft.set_shadow((user, client_id), is_shadow=is_shadow)
        self._switch_at_once(draft, now_ms)

    def draft(self) -> "RuleDraft":
        """For changes of many rules that are to hold from the same moment on."""
        return RuleDraft(self._table.copy())

    def switch(self, draft: "RuleDraft", now_ms: int | None) -> None:
        """What was drafted holds from `now_ms` on for everybody, however many rules it changes; `catch_up`
        is to follow.
        """
        if draft.table is not self._table:
            self._table.become(draft.table)
        self.active = bool(self._table.enabled)
        self._new_rules |= draft.new_rules
        if draft.bounds or draft.shadows:
            moved = bool(draft.new_rules)
            self._change = RuleChange(draft.bounds, draft.shadows, draft.enforced, moved, now_ms)
            self._usage.switch(self._change)

    def _switch_at_once(self, draft: "RuleDraft", now_ms: int | None) -> None:
        """Nobody can have made a sensor in between."""
        self.switch(draft, now_ms)
        finished(self.catch_up())
        self._usage.forget_made()

    def catch_up(self) -> Steps[None]:
        """Brings the sensors that nobody has used since the switch up to date with their limits, and the
        waits of those who are held.
        """
        change, self._change = self._change, None
        if change is not None:
            yield from self._usage.catch_up()
            yield from self._rebind({*change.rules}, change.now_ms)

    def sweep(self, now_ms: int | None = None) -> None:
        """Limits may have become others, for another reason than a rule. The same."""
        self._usage.sweep(now_ms)
        finished(self._rebind(None, now_ms))

    def concerns(self, user: str, client_id: str | None) -> bool:
        """Whether a rule that has come or gone since the last `follow_clients` could govern this client."""
        return not self._new_rules.isdisjoint(probes(user, client_id or ""))

    def follow_clients(self, clients: Collection[Client], now_ms: int) -> None:
        """`follow_clients_in_steps` in one go."""
        finished(self.follow_clients_in_steps(clients, now_ms))

    def follow_clients_in_steps(self, clients: Collection[Client], now_ms: int) -> Steps[None]:
        """Rules have come or gone: `clients`, one for each open connection, are under others. Does nothing
        if they have not.

        Kafka begins to count anew under another rule. Here a connection takes along its share of what its
        clients owe together; so moving it to and fro frees nobody.
        """
        self._new_rules.clear()
        left = self._usage.take_left()
        if left:
            yield from self._move_debts(left, clients, now_ms)

    def forget_new(self) -> None:
        """Nothing more is to be asked of the rules that came or went: see `RateQuotaManager.adopt`."""
        self._usage.forget_new()

    @property
    def has_new_rules(self) -> bool:
        """Whether rules have come or gone since the last `follow_clients`."""
        return bool(self._new_rules)

    def bound(self, user: str, client_id: str | None) -> float:
        """The limit of this client, UNLIMITED without one."""
        return self._usage.bound(user, client_id)

    @property
    def shadows(self) -> Mapping[Rule, ShadowTotal]:
        """What each rule in shadow mode would have done."""
        return self._table.shadows

    def resolve(self, user: str, client_id: str | None) -> Resolution:
        """Which of the eight levels applies, and all that were tried."""
        return self._table.resolve(user, client_id or "")

    def decide(self, user: str, client_id: str | None) -> Decision | None:
        """What the callback says of this client; None where there is none, and rules decide."""
        return self._usage.decide(user, client_id)

    def wait_at(self, observed: float, bound: float) -> int:
        """The wait in milliseconds that `observed`, kept up for all whole windows, breaks a `bound` by; 0 up
        to the bound.
        """
        span_ms = (self._window.samples - 1) * self._window.window_ms
        return max(min(throttle_time_ms(observed, bound, span_ms), INT_MAX), 0)

    def throttle(self, channel: Throttleable, token: object, throttle: Throttle, now_ms: int) -> None:
        """Holds `channel` for a throttle of this manager, before the reply is enqueued (KIP-219)."""
        throttle.sensor.note_throttle(throttle.throttle_ms, now_ms)
        self.throttled.add(channel, token, throttle, now_ms)

    def prolong(self, channel: Throttleable, throttle: Throttle, now_ms: int) -> bool:
        """Whether `channel` was held already: then it is held until the later of both ends."""
        if not self.throttled.prolong(channel, throttle, now_ms):
            return False
        throttle.sensor.note_throttle(throttle.throttle_ms, now_ms)
        return True

    def find(self, user: str, client_id: str | None) -> S | None:
        """The sensor that counts for this client, if anything was recorded for it."""
        return self._usage.find(user, client_id)

    def sensors_under(self, rule: Rule) -> Iterator[S]:
        """Those that this rule governs."""
        return self._usage.under(rule)

    def sensors(self) -> Iterator[S]:
        """Every sensor there is at the beginning, with its present limit."""
        return iter(self._usage)

    def busiest(self, most: int, now_ms: int) -> Generator[None, None, list[S]]:
        """The `most` sensors that use most, in that order, with their present limits; with pauses."""
        return self._usage.busiest(most, now_ms)

    @property
    def sensor_count(self) -> int:
        return len(self._usage)

    def expire(self, now_ms: int) -> int:
        """Forgets sensors that were idle for more than an hour; how many."""
        return self._usage.expire(now_ms)

    def _rebind_all(self, now_ms: int) -> None:
        finished(self._rebind(None, now_ms))

    def _rebind(self, rules: Collection[Rule] | None, now_ms: int | None) -> Steps[None]:
        """Brings the waits of those whom `rules` could govern (None: all) up to date with their limits."""
        throttled = self.throttled
        if not throttled:
            return
        for number, held in enumerate(throttled.held()):
            if number % FEW == FEW - 1:
                throttled.on_change()
                yield
            channel = held.channel
            user, client_id = channel.principal, channel.client_id
            if rules is not None and not any(rule in rules for rule in probes(user, client_id or "")):
                continue
            bound, governing = self._usage.enforced(user, client_id)
            if governing is None or self._is_withdrawn(held, bound):
                throttled.end_early(held)
            else:
                throttled.change_bound(held, bound, governing, now_ms, self._longest_hold_ms())
        throttled.on_change()

    def _is_withdrawn(self, held: Held, bound: float) -> bool:
        """Whether what `held` is held for is allowed by `bound`."""
        return False

    def _longest_hold_ms(self) -> int:
        return INT_MAX

    def _move_debts(self, left: Mapping[Client, S], clients: Collection[Client], now_ms: int) -> Steps[None]:
        """Of the connections of `clients`, those in `left` may have other sensors than these."""
        yield from ()

    def __len__(self) -> int:
        """How many rules there are."""
        return len(self._table)
