"""The limit that applies to a client: the eight precedence levels, most specific first. (Kafka:
DefaultQuotaCallback)

One table per kind of quota, in its manager. Filled from the metadata image. Read when a (user, client id) is
first used after a change, and by the console to explain a limit. Independent of usage; rules in shadow mode
are counted here.
"""

from enum import IntFlag
from typing import Final

import msgspec

from broker.quotas.entity import DEFAULT, Entity, Name

UNLIMITED: Final = float(2**63 - 1)
"""The bound of a client that no rule matches, as Kafka reports it (Long.MAX_VALUE)."""


class Levels(IntFlag):
    """The levels that have rules; CUSTOM is always set if a callback decides. (Kafka: quotaTypesEnabled)"""

    NONE = 0
    CLIENT_ID = 1
    USER = 2
    USER_CLIENT_ID = 4
    CUSTOM = 8


class Probe(msgspec.Struct, frozen=True):
    """One step of the search: an entity, and its bound if there is one."""

    entity: Entity
    bound: float | None


class Resolution(msgspec.Struct, frozen=True):
    """The whole search: all eight probes in order, and the first that found a bound."""

    probes: tuple[Probe, ...]
    matched: Entity | None
    bound: float | None


RuleKey = tuple[Name, Name]
"""An entity as (user, client-id), the key of the table."""


def matches(rule: RuleKey, user: str, client_id: str) -> bool:
    """Return whether `rule` is among the eight that can match this client."""
    return rule[0] in (user, DEFAULT, None) and rule[1] in (client_id, DEFAULT, None)


def probes(user: str, client_id: str) -> tuple[RuleKey, ...]:
    """Return the eight rules that can match this client, in order of precedence."""
    return (
        (user, client_id),
        (user, DEFAULT),
        (user, None),
        (DEFAULT, client_id),
        (DEFAULT, DEFAULT),
        (DEFAULT, None),
        (None, client_id),
        (None, DEFAULT),
    )


def overriding(rule: RuleKey) -> tuple[RuleKey, ...]:
    """Return the rules that match every client of `rule` and precede it, in order of precedence. While one of
    them exists, `rule` applies to no client.
    """
    user, client_id = rule
    if user is None:
        return tuple(dict.fromkeys(((DEFAULT, client_id), (DEFAULT, DEFAULT), (DEFAULT, None))))
    return ((user, DEFAULT),) if client_id is None else ()


class CoveredTime:
    """The time that intervals cover until now, with overlaps counted once: that of throttles in shadow mode.

    An interval counts as it passes, so the total never grows faster than the clock. Times are in ms and never
    go back.
    """

    __slots__ = ("_covered_ms", "_from_ms", "_until_ms")

    def __init__(self) -> None:
        self._covered_ms = self._from_ms = self._until_ms = 0

    def add(self, duration_ms: int, now_ms: int) -> None:
        """Add the interval that begins at `now_ms`, which is not before the last one's begin."""
        self._covered_ms = self.at(now_ms)
        self._from_ms = now_ms
        self._until_ms = max(self._until_ms, now_ms + duration_ms)

    def at(self, now_ms: int) -> int:
        """Return the time that the intervals cover until `now_ms`."""
        return self._covered_ms + max(min(self._until_ms, now_ms) - self._from_ms, 0)


class ShadowTotal:
    """Counts of one rule in shadow mode since it was marked or the broker started. Outlives the sensors.

    The rule is matched and measured like any other. Where enforcement would throttle a client, the managers
    count the throttle instead, here and for the sensor (`usage.ShadowCount`). Verdicts are based on actual
    traffic: enforcement would have slowed the client at its first throttle, shadow mode does not. So the
    verdicts are those of enforcement for the same records at the same times, and `throttled` is the time
    they cover until now, with the overlapping throttles of all its clients counted once. Kafka has no
    equivalent.

    `times` is the number of records that would have caused a throttle, and `last_ms` the time of the last one
    (None: never).
    """

    __slots__ = ("last_ms", "throttled", "times")

    def __init__(self) -> None:
        self.times = 0
        self.throttled = CoveredTime()
        self.last_ms: int | None = None


class QuotaTable:
    """The bounds of one kind of quota by rule. `shadows` has the rules in shadow mode, whether or not they
    set a bound of this kind.
    """

    def __init__(self, always: Levels = Levels.NONE) -> None:
        self._bounds: dict[RuleKey, float] = {}
        self._entities: dict[RuleKey, Entity] = {}
        self._rules_per_level = {Levels.CLIENT_ID: 0, Levels.USER: 0, Levels.USER_CLIENT_ID: 0}
        self.enabled = always
        self.shadows: dict[RuleKey, ShadowTotal] = {}

    def set(self, user: Name, client_id: Name, bound: float | None) -> None:
        """Set a rule, or remove it (None). A level without rules is disabled (KAFKA-19282)."""
        rule = (user, client_id)
        before = len(self._bounds)
        if bound is None:
            self._bounds.pop(rule, None)
            self._entities.pop(rule, None)
        else:
            self._bounds[rule] = float(bound)
        if client_id is None:
            level = Levels.USER
        else:
            level = Levels.CLIENT_ID if user is None else Levels.USER_CLIENT_ID
        self._rules_per_level[level] += len(self._bounds) - before
        if self._rules_per_level[level]:
            self.enabled |= level
        else:
            self.enabled &= ~level

    def copy(self) -> "QuotaTable":
        """Return a table with the same rules."""
        made = QuotaTable(self.enabled)
        made._bounds, made._entities = dict(self._bounds), dict(self._entities)
        made._rules_per_level, made.shadows = dict(self._rules_per_level), dict(self.shadows)
        return made

    def become(self, other: "QuotaTable") -> None:
        """Adopt the rules of `other` in constant time. `other` must not be used afterwards."""
        self._bounds, self._entities = other._bounds, other._entities
        self._rules_per_level, self.shadows = other._rules_per_level, other.shadows
        self.enabled = other.enabled

    def get(self, rule: RuleKey) -> float | None:
        """Return the bound of exactly this rule, or None."""
        return self._bounds.get(rule)

    def entity(self, rule: RuleKey) -> Entity:
        """Return the rule's entity, created once for all sensors of an existing rule."""
        entity = self._entities.get(rule)
        if entity is None:
            entity = self._entities[rule] = Entity(*rule)
        return entity

    def __getitem__(self, rule: RuleKey) -> float:
        """Return the bound of exactly this rule. Raises KeyError if there is no such rule."""
        return self._bounds[rule]

    def match(self, user: str, client_id: str) -> RuleKey | None:
        """Return the rule that applies to this client, or None."""
        bounds = self._bounds
        for rule in probes(user, client_id):
            if rule in bounds:
                return rule
        return None

    def governing(self, user: str | None, client_id: str | None) -> RuleKey | None:
        """Return the rule of a sensor, from the user and client id of its key (None if not part of it)."""
        if user is None:
            candidates: tuple[RuleKey, ...] = ((None, client_id), (None, DEFAULT))
        elif client_id is None:
            candidates = ((user, None), (DEFAULT, None))
        else:
            candidates = ((user, client_id), (user, DEFAULT), (DEFAULT, client_id), (DEFAULT, DEFAULT))
        for rule in candidates:
            if rule in self._bounds:
                return rule
        return None

    def resolve(self, user: str, client_id: str) -> Resolution:
        """Return the match with every step of the search."""
        bounds = self._bounds
        steps = tuple(Probe(Entity(*rule), bounds.get(rule)) for rule in probes(user, client_id))
        found = next((step for step in steps if step.bound is not None), None)
        return (
            Resolution(steps, None, None) if found is None else Resolution(steps, found.entity, found.bound)
        )

    def __len__(self) -> int:
        return len(self._bounds)
