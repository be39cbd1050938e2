"""What clients have used: one sensor for each (user, client-id) that a rule tells apart.

Kept by the managers, shared by all connections under a rule. A rule for a user has one sensor for all of that
user's client-ids; a default rule has one for each name that it stands for. Names are the clients' own choice,
so the number of sensors has a limit, and idle ones are forgotten.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from math import inf
from typing import Final, Generic, TypeVar

from broker.metrics.rate import Rate
from broker.metrics.top_k import AT_ONCE, largest
from broker.metrics.window import Avg, Window
from broker.quotas.entity import DEFAULT, Default, Entity, Governing, TagGroup
from broker.quotas.shadow import ShadowCount, ShadowTotal
from broker.quotas.table import UNLIMITED, Levels, QuotaTable, Rule, matches
from broker.steps import Steps

IDLE_MS: Final = 3_600_000
"""A sensor idle for longer starts afresh. (Kafka: INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS)"""

MAX_SENSORS: Final = 16_384
"""Ours; Kafka has no limit. When reached, the eighth of them that was idle longest goes."""

THROTTLE_TIME_WINDOW: Final = Window()
"""Throttle times are averaged over the broker's ordinary metric window, as in Kafka."""


class ClientSensor:
    """Usage and limit of the clients that share it.

    `user` and `client_id` are what tells them apart: None where the rule makes no difference (Kafka's metric
    tag is "" then). `rule` is the entity that set `bound`, None if no rule matched. `shadow` counts what
    `bound` would do, None where it is enforced. `group` is who shares the sensor where a callback says so
    (`custom`), None otherwise.
    """

    __slots__ = (
        *("bound", "client_id", "group", "last_record_ms", "rate", "rule", "shadow", "throttle_time"),
        *("throttles", "user"),
    )

    def __init__(self, user: str | None, client_id: str | None, now_ms: int, window: Window) -> None:
        self.user = user
        self.client_id = client_id
        self.group: TagGroup | None = None
        self.bound = UNLIMITED
        self.rule: Governing | None = None
        self.shadow: ShadowCount | None = None
        self.last_record_ms = now_ms
        self.rate = Rate(window)
        self.throttle_time = Avg(THROTTLE_TIME_WINDOW)
        self.throttles = 0

    def observed(self, now_ms: int) -> float:
        """What is used per second, over the windows in sight; for those who only look."""
        return self.rate.peek(now_ms)

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
        """Changes the limit from `now_ms` on (None: since the last record) and leaves the usage alone.
        `shadow`: count there and do not enforce.
        """
        self.bound = bound
        self.rule = rule
        if shadow is None:
            self.shadow = None
        elif self.shadow is None or self.shadow.total is not shadow:
            self.shadow = ShadowCount(shadow)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a callback says of one client now: its tags, None where it failed; its limit, None for none."""

    tags: tuple[tuple[str, str], ...] | None
    bound: float | None


S = TypeVar("S", bound=ClientSensor)

Client = tuple[str, str | None]
"""User and client-id, as a request names them."""

SensorKey = tuple[str | None, str | None] | tuple[tuple[str, str], ...]
"""What tells the clients of a sensor apart from others: (user, client-id), or a callback's tags."""


FEW: Final = 32
"""Sensors that are looked at between two pauses, at some microseconds each."""

EAGER: Final = 64
"""Sensors that are given another limit at once when rules change; of more, each follows when it is next used,
or in its turn.
"""


@dataclass(slots=True)
class RuleChange:
    """What is to become of the sensors after rules have changed at one moment.

    `bounds` are the rules whose bound is another, with the bound; `moved` whether clients may have other
    sensors now; `enforced` the rules that were only measured until now. `now_ms` None: nothing has passed
    since the last record of each sensor.
    """

    bounds: dict[Rule, float | None]
    shadows: Collection[Rule]
    enforced: Collection[Rule]
    moved: bool
    now_ms: int | None

    @property
    def rules(self) -> list[Rule]:
        return [*self.bounds, *self.shadows]

    @property
    def is_particular(self) -> bool:
        """Whether each of the rules governs one sensor at most."""
        return not any(DEFAULT in rule for rule in self.rules)

    @property
    def sensors(self) -> list[tuple[str | None, str | None]]:
        """The keys of those sensors."""
        return [
            (user, client_id)
            for user, client_id in self.rules
            if not isinstance(user, Default) and not isinstance(client_id, Default)
        ]


class Usage(Generic[S]):
    """The sensors of one kind of quota, found by who the client says it is.

    When rules change, all sensors are under the new ones at once, however many there are: what is remembered
    of the clients is put aside, so that each is looked up again when next seen, and its sensor is given its
    limit as of the moment of the change. `catch_up` does the same for the sensors that nobody uses meanwhile.
    """

    __slots__ = (
        *("_aside", "_build", "_by_client", "_change", "_forgotten", "_left", "_made", "_max_sensors"),
        *("_sensors", "_table"),
    )

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
        # The way from a client to its sensor, remembered until a rule changes or a sensor goes.
        self._by_client: dict[Client, S] = {}
        # The sensors of clients that a new rule, or one that went, may have given others; see `take_left`.
        self._left: dict[Client, S] = {}
        # The change that not every sensor has followed yet, and the ways from before it that lead on.
        self._change: RuleChange | None = None
        self._aside: dict[Client, S] = {}
        # The sensors that were made since rules came or went; see `is_new`.
        self._made: set[S] | None = None
        self._forgotten: set[S] = set()

    def sensor(self, user: str, client_id: str | None, now_ms: int) -> S:
        """The sensor of this client, with the limit of this moment; made on first use.

        A null client id counts as "". The hot path: one lookup, unless a rule has changed since.
        """
        try:
            return self._by_client[user, client_id]
        except KeyError:
            return self._find(user, client_id, now_ms)

    def find(self, user: str, client_id: str | None) -> S | None:
        """The sensor of this client if it has one; makes none."""
        return self._sensors.get(self._key(user, client_id or ""))

    def bound(self, user: str, client_id: str | None) -> float:
        """The limit of this client, UNLIMITED without one."""
        rule = self._table.match(user, client_id or "")
        return UNLIMITED if rule is None else self._table[rule]

    def decide(self, user: str, client_id: str | None) -> Decision | None:
        """What a callback says of this client; None, since rules decide."""
        return None

    def switch(self, change: RuleChange) -> None:
        """The table has become another. `catch_up` is to follow, and no other change before its end."""
        if change.moved:
            self._look_up_again()
        if len(change.bounds) + len(change.shadows) <= EAGER and change.is_particular:
            for key in change.sensors:
                sensor = self._sensors.get(key)
                if sensor is not None:
                    self._listen(key, sensor, change)
            return
        self._change = change
        self._aside, self._by_client = self._by_client, {}

    def catch_up(self) -> Steps[None]:
        """Gives every sensor that a change concerns its limit. Stops after every few of them."""
        change = self._change
        if change is None:
            return
        keys: Iterable[SensorKey] = change.sensors if change.is_particular else list(self._sensors)
        for number, key in enumerate(keys):
            sensor = self._sensors.get(key)
            if sensor is not None:
                self._listen(key, sensor, change)
            if number % FEW == FEW - 1:
                yield
        self._change = None
        self._aside.update(self._by_client)
        self._aside, self._by_client = {}, self._aside

    def is_forgotten(self, sensor: S) -> bool:
        """Whether it was forgotten with a rule that was only measured, as far as `forget_new` was not called
        after that.
        """
        return sensor in self._forgotten

    def is_new(self, sensor: S) -> bool:
        """Whether it was made since rules came or went, as far as `forget_new` was not called after that."""
        return self._made is not None and sensor in self._made

    def forget_made(self) -> None:
        """No sensor `is_new` any more."""
        self._made = None

    def forget_new(self) -> None:
        """The same, and none `is_forgotten`."""
        self._made = None
        self._forgotten.clear()

    def under(self, rule: Rule) -> Iterator[S]:
        """The sensors that `rule` governs."""
        bounds = self._table
        return (
            sensor
            for sensor in self._matching(rule)
            if bounds.governing(sensor.user, sensor.client_id) == rule
        )

    def _matching(self, rule: Rule) -> Sequence[S]:
        """The sensors that `rule` governs where no other does before it."""
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

    def take_left(self) -> dict[Client, S]:
        """The sensors of clients that may have others by now, since this was asked last."""
        left, self._left = self._left, {}
        return left

    def current(self, client: Client) -> S | None:
        """The sensor under which this client was seen last, if nothing has changed since."""
        return self._by_client.get(client) or self._aside.get(client)

    def sweep(self, now_ms: int | None = None) -> None:
        """Every client is looked up again when next seen, whatever the number of rules."""
        self._by_client.clear()
        self._aside.clear()

    def expire(self, now_ms: int) -> int:
        """Forgets sensors that were idle for longer than an hour; how many."""
        return self._drop(
            [key for key, sensor in self._sensors.items() if now_ms - sensor.last_record_ms > IDLE_MS]
        )

    def enforced(self, user: str, client_id: str | None) -> tuple[float, Governing | None]:
        """The limit that this client is held to, and who sets it; infinite where none is enforced."""
        rule = self._table.match(user, client_id or "")
        if rule is None or rule in self._table.shadows:
            return inf, None
        return self._table[rule], self._table.entity(rule)

    def __len__(self) -> int:
        return len(self._sensors)

    def __iter__(self) -> Iterator[S]:
        """All sensors there are at the beginning, with their limits brought up to date."""
        for sensor in list(self._sensors.values()):
            self._refresh(sensor)
            yield sensor

    def busiest(self, most: int, now_ms: int) -> Generator[None, None, list[S]]:
        """The `most` that use most, in that order, with their limits brought up to date. With pauses, as
        `metrics.top_k`.
        """
        sensors = list(self._sensors.values())
        chosen = yield from largest(most, sensors, lambda sensor: sensor.observed(now_ms))
        for number, sensor in enumerate(chosen):
            if number % AT_ONCE == 0:
                yield None
            self._refresh(sensor)
        return chosen

    def _find(self, user: str, client_id: str | None, now_ms: int) -> S:
        key = self._key(user, client_id or "")
        sensor = self._sensors.get(key)
        if sensor is not None and self._change is not None:
            sensor = self._listen(key, sensor, self._change)
        if sensor is None:
            if len(self._sensors) >= self._max_sensors:
                self._make_space()
            sensor = self._sensors[key] = self._build(*key, now_ms)
            if self._made is not None:
                self._made.add(sensor)
        self._set_bound(sensor, now_ms)
        if len(self._by_client) >= self._max_sensors:
            self._by_client.clear()
        self._by_client[user, client_id] = sensor
        return sensor

    def _key(self, user: str, client_id: str) -> tuple[str | None, str | None]:
        """What the matching rule tells this client apart by; without a rule, the one enabled level."""
        rule = self._table.match(user, client_id)
        if rule is not None:
            return (None if rule[0] is None else user, None if rule[1] is None else client_id)
        if self._table.enabled == Levels.USER:
            return (user, None)
        return (user, client_id) if self._table.enabled == Levels.USER_CLIENT_ID else (None, client_id)

    def _listen(self, key: SensorKey, sensor: S, change: RuleChange) -> S | None:
        """The sensor with its limit as of the change; None where it begins anew, and is gone."""
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
            sensor.set_bound(table[rule], table.entity(rule), table.shadows.get(rule), now_ms)

    def _look_up_again(self) -> None:
        """Forgets the ways of all clients, and keeps whence they come. One by one, those whom a rule concerns
        would take longer to find than it takes the others to be looked up.
        """
        left, self._by_client = self._by_client, {}
        self._made = set()
        self._forgotten.clear()
        if not self._left or len(self._left) + len(left) > self._max_sensors:
            self._left = left
        else:
            self._left.update(left)

    def _make_space(self) -> None:
        share = max(1, self._max_sensors // 8)
        self._drop(nsmallest(share, self._sensors, key=lambda key: self._sensors[key].last_record_ms))

    def _drop(self, keys: list[SensorKey]) -> int:
        for key in keys:
            del self._sensors[key]
        if keys:
            self._by_client.clear()
            self._aside.clear()
            self._left.clear()
            if self._made is not None:
                self._made.clear()
        return len(keys)
