"""Usage sensors: one for each (user, client id) that a rule distinguishes.

Kept by the managers and shared by all connections under a rule. A rule for a user has one sensor for all the
user's client ids; a default rule has one for each name. Clients choose their names, so the number of sensors
is limited, and idle ones expire.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from operator import attrgetter
from typing import Final, Generic, TypeVar

import msgspec

from broker.common.idle import expired_in_steps, idlest
from broker.common.slices import Steps, nlargest_in_steps
from broker.metrics.rate import Avg, Rate, Window
from broker.quotas.entity import DEFAULT, Default, Entity, Governing, TagGroup
from broker.quotas.table import UNLIMITED, CoveredTime, Levels, QuotaTable, RuleKey, ShadowTotal, matches

IDLE_MS: Final = 3_600_000
"""A sensor that was idle for longer is removed. (Kafka: INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS)"""

MAX_SENSORS: Final = 16_384
"""Sensors kept; one more evicts an eighth of some of them, see `idlest`. Kafka has no limit."""

_last_record_ms: Callable[["ClientSensor"], int] = attrgetter("last_record_ms")

THROTTLE_TIME_WINDOW: Final = Window()
"""Throttle times are averaged over the broker's default metric window, as in Kafka."""


class ShadowCount:
    """Counts of one sensor, which are added to its rule's `total`, too."""

    __slots__ = ("throttled", "times", "total")

    def __init__(self, total: ShadowTotal) -> None:
        self.total = total
        self.times = 0
        self.throttled = CoveredTime()

    def note(self, wait_ms: int, now_ms: int) -> None:
        """Count a throttle of `wait_ms` that a record at `now_ms` would have caused."""
        total = self.total
        self.times += 1
        total.times += 1
        self.throttled.add(wait_ms, now_ms)
        total.throttled.add(wait_ms, now_ms)
        total.last_ms = now_ms


class ClientSensor:
    """Usage and limit of the clients that share the sensor.

    `user` and `client_id` identify them: None if the rule does not distinguish it (Kafka's metric tag is ""
    then). `rule` is the entity that set `bound`, None if no rule matched. `shadow` counts the verdicts of a
    limit in shadow mode, None if it is enforced. `group` is the tag group of a callback (`callback_usage`),
    None without one. `node` is the upstream node that the usage goes to, None unless usage is counted by
    node.
    """

    __slots__ = (
        "bound",
        "client_id",
        "group",
        "last_record_ms",
        "node",
        "rate",
        "rule",
        "shadow",
        "throttle_time",
        "throttles",
        "user",
    )

    def __init__(self, user: str | None, client_id: str | None, now_ms: int, window: Window) -> None:
        self.user = user
        self.client_id = client_id
        self.node: int | None = None
        self.group: TagGroup | None = None
        self.bound = UNLIMITED
        self.rule: Governing | None = None
        self.shadow: ShadowCount | None = None
        self.last_record_ms = now_ms
        self.rate = Rate(window)
        self.throttle_time = Avg(THROTTLE_TIME_WINDOW)
        self.throttles = 0

    def observed(self, now_ms: int) -> float:
        """Return the usage per second over the current windows, without changing them."""
        return self.rate.peek(now_ms)

    def first_wait_ms(self, bound: float, now_ms: int) -> int:
        """Return how long the clients are throttled for what was recorded if `bound` applies from now on: 0
        unless a subclass remembers debts.
        """
        return 0

    def spent(self, now_ms: int) -> float | None:
        """Return what the clients owe, or have taken from a full bucket; None if only their usage counts. It
        is saved for a restart.
        """
        return None

    def resume_spent(self, spent: float, now_ms: int) -> None:
        """Continue with what `spent` returned, less what was repaid since."""

    def note_throttle(self, throttle_ms: int, now_ms: int) -> None:
        self.throttle_time.record(throttle_ms, now_ms)
        self.throttles += 1

    def set_bound(
        self,
        bound: float,
        rule: Governing | None,
        shadow: ShadowTotal | None = None,
        now_ms: int | None = None,
    ) -> None:
        """Change the limit from `now_ms` on (None: since the last record). Usage is kept. With `shadow`,
        count verdicts there instead of enforcing them.
        """
        self.bound = bound
        self.rule = rule
        if shadow is None:
            self.shadow = None
        elif self.shadow is None or self.shadow.total is not shadow:
            self.shadow = ShadowCount(shadow)


class Decision(msgspec.Struct, frozen=True):
    """A callback's result for one client: its tags (None: the call failed) and its limit (None: no limit)."""

    tags: tuple[tuple[str, str], ...] | None
    bound: float | None


S = TypeVar("S", bound=ClientSensor)

UserAndClientId = tuple[str, str | None]
"""User and client id of a request."""

SensorKey = tuple[str | None, str | None] | tuple[tuple[str, str], ...]
"""The identity of a sensor: (user, client-id), or a callback's tags."""


MAX_UPDATED_AT_ONCE: Final = 64
"""The most sensors that are updated at once when rules change. Otherwise each is updated at its next use or
by `catch_up`.
"""


class RuleChange(msgspec.Struct):
    """A change of rules at one moment, as it affects the sensors.

    `bounds` has the new bounds of changed rules, `shadows` the rules whose shadow mode changed, and
    `enforced` those that left it. `moved` says whether clients may have other sensors now. `now_ms` None: no
    time has passed since the last record of each sensor.
    """

    bounds: dict[RuleKey, float | None]
    shadows: Collection[RuleKey]
    enforced: Collection[RuleKey]
    moved: bool
    now_ms: int | None

    @property
    def rules(self) -> list[RuleKey]:
        return [*self.bounds, *self.shadows]

    @property
    def is_particular(self) -> bool:
        """Whether each of the rules has at most one sensor."""
        return not any(DEFAULT in rule for rule in self.rules)

    @property
    def sensors(self) -> list[tuple[str | None, str | None]]:
        """The keys of the rules' sensors."""
        return [
            (user, client_id)
            for user, client_id in self.rules
            if not isinstance(user, Default) and not isinstance(client_id, Default)
        ]


class Usage(Generic[S]):
    """The sensors of one kind of quota, by user and client id.

    A change of rules applies to all sensors at once, however many there are: the cached client lookups are
    set aside, so that each client is looked up again at its next use, and its sensor gets its limit as of the
    change. `catch_up` updates the sensors that no request uses meanwhile.
    """

    def __init__(
        self,
        table: QuotaTable,
        build: Callable[[str | None, str | None, int], S],
        max_sensors: int = MAX_SENSORS,
    ) -> None:
        self._table = table
        self._build = build
        self._max_sensors = max_sensors
        self._sensors: dict[SensorKey, S] = {}
        # Cached lookups, kept until a rule changes or a sensor is removed.
        self._by_client: dict[UserAndClientId, S] = {}
        # Sensors of clients that may have another one after rules were added or removed;
        # see `take_former_sensors`.
        self._former_sensors: dict[UserAndClientId, S] = {}
        # The change that `catch_up` has not finished, and the lookups from before it.
        self._change: RuleChange | None = None
        self._former_lookups: dict[UserAndClientId, S] = {}
        # Sensors created since rules were added or removed; see `is_new`.
        self._new_sensors: set[S] | None = None
        self._forgotten: set[S] = set()
        # The parts of their limits that sensors have; see `set_shares`.
        self._shares: Mapping[SensorKey, float] = {}
        self._other_share = 1.0

    def part(self, node: int) -> "Usage[S]":
        """Return the usage of one upstream node: sensors of its own, under the same rules."""
        return Usage(self._table, partial(built_at, self._build, node), self._max_sensors)

    def sensor(self, user: str, client_id: str | None, now_ms: int) -> S:
        """Return the sensor of this client with its present limit; create it at first use.

        A null client id counts as "". The hot path: one lookup, unless a rule has changed since.
        """
        try:
            return self._by_client[user, client_id]
        except KeyError:
            return self._find(user, client_id, now_ms)

    def find(self, user: str, client_id: str | None) -> S | None:
        """Return the sensor of this client, or None. Creates none."""
        return self._sensors.get(self._key(user, client_id or ""))

    def at(self, key: SensorKey) -> S | None:
        """Return the sensor with this key, or None."""
        return self._sensors.get(key)

    def resumed(self, user: str | None, client_id: str | None, now_ms: int) -> S | None:
        """Return a new sensor with this key, with its present limit; None if no rule applies to it now, or
        there is one already.
        """
        key = (user, client_id)
        if key in self._sensors or self._table.governing(user, client_id) is None:
            return None
        if len(self._sensors) >= self._max_sensors:
            return None
        sensor = self._sensors[key] = self._build(user, client_id, now_ms)
        self._set_bound(sensor, now_ms)
        return sensor

    def bound(self, user: str, client_id: str | None) -> float:
        """Return the whole limit of this client, UNLIMITED without one."""
        rule = self._table.match(user, client_id or "")
        return UNLIMITED if rule is None else self._table[rule]

    def decide(self, user: str, client_id: str | None) -> Decision | None:
        """Return None: rules decide here, not a callback."""
        return None

    def switch(self, change: RuleChange) -> None:
        """Apply a change of the table. The caller finishes `catch_up` before the next change."""
        if change.moved:
            self._drop_lookups()
        if len(change.bounds) + len(change.shadows) <= MAX_UPDATED_AT_ONCE and change.is_particular:
            for key in change.sensors:
                sensor = self._sensors.get(key)
                if sensor is not None:
                    self._apply_change(key, sensor, change)
            return
        self._change = change
        self._former_lookups, self._by_client = self._by_client, {}

    def catch_up(self) -> Steps[None]:
        """Update every sensor that the change affects."""
        change = self._change
        if change is None:
            return
        keys: Iterable[SensorKey] = change.sensors if change.is_particular else list(self._sensors)
        for key in keys:
            sensor = self._sensors.get(key)
            if sensor is not None:
                self._apply_change(key, sensor, change)
            yield
        self._change = None
        self._former_lookups.update(self._by_client)
        self._former_lookups, self._by_client = {}, self._former_lookups

    def set_shares(
        self, shares: Mapping[SensorKey, float], other: float, now_ms: int
    ) -> Steps[Collection[ClientSensor]]:
        """Limit each sensor to a part of its limit from `now_ms` on: `shares` by key, `other` for the rest.
        Usage and debts are kept. Returns the sensors that changed.
        """
        before, other_before = self._shares, self._other_share
        self._shares, self._other_share = shares, other
        keys: Iterable[SensorKey] = {**before, **shares} if other == other_before else list(self._sensors)
        changed: set[ClientSensor] = set()
        for key in keys:
            sensor = self._sensors.get(key)
            if sensor is not None and before.get(key, other_before) != shares.get(key, other):
                self._set_bound(sensor, max(now_ms, sensor.last_record_ms))
                changed.add(sensor)
            yield
        return changed

    def whole_bound(self, sensor: ClientSensor) -> float:
        """Return the whole limit of which the sensor has a share, UNLIMITED without a limit."""
        rule = self._table.governing(sensor.user, sensor.client_id)
        return UNLIMITED if rule is None else self._table[rule]

    def is_forgotten(self, sensor: S) -> bool:
        """Return whether the sensor was removed with the shadow mode of its rule since the last
        `forget_new`.
        """
        return sensor in self._forgotten

    def is_new(self, sensor: S) -> bool:
        """Return whether the sensor was created after the last change of rules that `forget_new` has not
        cleared.
        """
        return self._new_sensors is not None and sensor in self._new_sensors

    def forget_made(self) -> None:
        """Clear the sensors for which `is_new` is true."""
        self._new_sensors = None

    def forget_new(self) -> None:
        """Clear the sensors for which `is_new` or `is_forgotten` is true."""
        self._new_sensors = None
        self._forgotten.clear()

    def under(self, rule: RuleKey) -> list[S]:
        """Return the sensors that `rule` limits."""
        bounds = self._table
        return [
            sensor
            for sensor in self._matching(rule)
            if bounds.governing(sensor.user, sensor.client_id) == rule
        ]

    def _matching(self, rule: RuleKey) -> Sequence[S]:
        """Return the sensors that `rule` limits unless another rule takes precedence."""
        user, client_id = rule
        if user is not DEFAULT and client_id is not DEFAULT:
            sensor = self._sensors.get((user, client_id))
            return () if sensor is None else (sensor,)
        return [
            sensor
            for sensor in self._sensors.values()
            if (sensor.user is None) is (user is None)
            and (sensor.client_id is None) is (client_id is None)
            and matches(rule, sensor.user or "", sensor.client_id or "")
        ]

    def take_former_sensors(self) -> dict[UserAndClientId, S]:
        """Return, once, the former sensors of clients that may have other ones now."""
        left, self._former_sensors = self._former_sensors, {}
        return left

    def current(self, client: UserAndClientId) -> S | None:
        """Return the sensor that this client last used, or None if it may have changed."""
        return self._by_client.get(client) or self._former_lookups.get(client)

    def sweep(self, now_ms: int | None = None) -> None:
        """Drop all cached lookups."""
        self._by_client.clear()
        self._former_lookups.clear()

    def expire(self, now_ms: int) -> Steps[int]:
        """Remove sensors idle for more than an hour and return their number."""
        return expired_in_steps(self._sensors, _last_record_ms, now_ms, IDLE_MS, self._drop)

    def enforced(self, user: str, client_id: str | None) -> tuple[float, Governing | None]:
        """Return the enforced limit of this client and its rule, or infinity and None."""
        rule = self._table.match(user, client_id or "")
        if rule is None or rule in self._table.shadows:
            return inf, None
        share = self._shares.get(self._key(user, client_id or ""), self._other_share)
        return _part(self._table[rule], share), self._table.entity(rule)

    def __len__(self) -> int:
        return len(self._sensors)

    def known(self) -> list[S]:
        """Return a snapshot of all sensors, whose limits may be older than the last change of rules."""
        return list(self._sensors.values())

    def __iter__(self) -> Iterator[S]:
        """Iterate over a snapshot of all sensors, with updated limits."""
        for sensor in list(self._sensors.values()):
            self._refresh(sensor)
            yield sensor

    def busiest(self, count: int, now_ms: int) -> Generator[None, None, list[S]]:
        """Return the `count` busiest sensors in descending order, with updated limits. Yields between, as
        `nlargest_in_steps`.
        """
        sensors = list(self._sensors.values())
        chosen = yield from nlargest_in_steps(count, sensors, lambda sensor: sensor.observed(now_ms))
        for sensor in chosen:
            self._refresh(sensor)
            yield
        return chosen

    def _find(self, user: str, client_id: str | None, now_ms: int) -> S:
        key = self._key(user, client_id or "")
        sensor = self._sensors.get(key)
        if sensor is not None and self._change is not None:
            sensor = self._apply_change(key, sensor, self._change)
        if sensor is None:
            if len(self._sensors) >= self._max_sensors:
                self._evict()
            sensor = self._sensors[key] = self._build(*key, now_ms)
            if self._new_sensors is not None:
                self._new_sensors.add(sensor)
        self._set_bound(sensor, now_ms)
        if len(self._by_client) >= self._max_sensors:
            self._by_client.clear()
        self._by_client[user, client_id] = sensor
        return sensor

    def _key(self, user: str, client_id: str) -> tuple[str | None, str | None]:
        """Return the key of the client's sensor under its rule, or without a rule under the enabled level."""
        rule = self._table.match(user, client_id)
        if rule is not None:
            return (None if rule[0] is None else user, None if rule[1] is None else client_id)
        if self._table.enabled == Levels.USER:
            return (user, None)
        return (user, client_id) if self._table.enabled == Levels.USER_CLIENT_ID else (None, client_id)

    def _apply_change(self, key: SensorKey, sensor: S, change: RuleChange) -> S | None:
        """Apply the change to the sensor. Return None if it was removed to start again."""
        entity = sensor.rule
        if (
            change.enforced
            and sensor.shadow is not None
            and isinstance(entity, Entity)
            and (entity.user, entity.client_id) in change.enforced
        ):
            del self._sensors[key]
            self._forgotten.add(sensor)
            return None
        self._set_bound(sensor, change.now_ms)
        return sensor

    def _refresh(self, sensor: S) -> None:
        self._set_bound(sensor, None if self._change is None else self._change.now_ms)

    def _set_bound(self, sensor: S, now_ms: int | None = None) -> None:
        rule = self._table.governing(sensor.user, sensor.client_id)
        if rule is None:
            sensor.set_bound(UNLIMITED, None, None, now_ms)
        else:
            table = self._table
            share = self._shares.get((sensor.user, sensor.client_id), self._other_share)
            bound = _part(table[rule], share)
            sensor.set_bound(bound, table.entity(rule), table.shadows.get(rule), now_ms)

    def _drop_lookups(self) -> None:
        """Drop the cached lookups of all clients, and keep the former sensors. Finding only the affected
        clients would take longer than looking up all again.
        """
        left, self._by_client = self._by_client, {}
        self._new_sensors = set()
        self._forgotten.clear()
        if not self._former_sensors or len(self._former_sensors) + len(left) > self._max_sensors:
            self._former_sensors = left
        else:
            self._former_sensors.update(left)

    def _evict(self) -> None:
        self._drop(idlest(self._sensors, _last_record_ms))

    def _drop(self, keys: list[SensorKey]) -> int:
        for key in keys:
            del self._sensors[key]
        if keys:
            self._by_client.clear()
            self._former_lookups.clear()
            self._former_sensors.clear()
            if self._new_sensors is not None:
                self._new_sensors.clear()
        return len(keys)


def _part(limit: float, share: float) -> float:
    """Return a share of a limit: never 0, which the least limits would become."""
    return limit * share or limit


def built_at(
    build: Callable[[str | None, str | None, int], S],
    node: int,
    user: str | None,
    client_id: str | None,
    now_ms: int,
) -> S:
    """Build a sensor that counts what goes to `node`."""
    sensor = build(user, client_id, now_ms)
    sensor.node = node
    return sensor
