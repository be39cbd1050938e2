"""The sensors of one kind of quota whose sharing a callback decides. (Kafka: CUSTOM_QUOTAS)

Replaces `usage` in a manager whose broker has `client.quota.callback.class`. As in Kafka, the callback is
called for a client's tags with every record; the last sensor of each client is kept for errors only.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from math import inf

from broker.common.slices import Steps
from broker.quotas.entity import Entity, Governing, TagGroup
from broker.quotas.guarded_callback import GuardedCallback, Tags
from broker.quotas.kinds import QuotaKind
from broker.quotas.table import UNLIMITED, QuotaTable, RuleKey
from broker.quotas.usage import (
    ClientSensor,
    Decision,
    RuleChange,
    S,
    SensorKey,
    Usage,
    built_at,
)


class CallbackUsage(Usage[S]):
    """The sensors by tags. The callback supplies a sensor's limit when it is created, and again when limits
    may have changed.
    """

    def __init__(
        self,
        callback: GuardedCallback,
        kind: QuotaKind,
        table: QuotaTable,
        build: Callable[[str | None, str | None, int], S],
        max_sensors: int,
        on_reset: Callable[[int], None],
        *,
        passes_rules: bool = True,
    ) -> None:
        """`on_reset` refreshes all limits, for a callback that requires it. With `passes_rules`, the callback
        receives changed rules.
        """
        super().__init__(table, build, max_sensors)
        self._callback = callback
        self._kind = kind
        self._unknown: S | None = None
        self._on_reset = on_reset
        self._passes_rules = passes_rules

    def part(self, node: int) -> "CallbackUsage[S]":
        return CallbackUsage(
            self._callback,
            self._kind,
            self._table,
            partial(built_at, self._build, node),
            self._max_sensors,
            self._on_reset,
            passes_rules=False,
        )

    def sensor(self, user: str, client_id: str | None, now_ms: int) -> S:
        """Return the sensor of the tags that the callback returns. If the callback fails, return the client's
        last sensor, or a sensor without a limit for a new client.
        """
        tags = self._callback.tags(self._kind, user, client_id or "")
        if tags is None:
            return self._last_known(user, client_id, now_ms)
        try:
            sensor = self._sensors[tags]
        except (KeyError, TypeError):
            if not self._callback.are_tags(tags):
                return self._last_known(user, client_id, now_ms)
            sensor = self._make(tags, now_ms)
        self._remember(user, client_id, sensor)
        if self._callback.reset_required(self._kind):
            self._on_reset(now_ms)
        return sensor

    def find(self, user: str, client_id: str | None) -> S | None:
        tags = self._callback.tags(self._kind, user, client_id or "")
        if tags is None or not self._callback.are_tags(tags):
            return self._by_client.get((user, client_id))
        return self._sensors.get(tags)

    def bound(self, user: str, client_id: str | None) -> float:
        bound = self.decide(user, client_id).bound
        return UNLIMITED if bound is None else bound

    def enforced(self, user: str, client_id: str | None) -> tuple[float, Governing | None]:
        """Return the limit as of the last sweep."""
        sensor = self.find(user, client_id)
        return (inf, None) if sensor is None or sensor.rule is None else (sensor.bound, sensor.rule)

    def decide(self, user: str, client_id: str | None) -> Decision:
        """Return the tags and limit that would apply to this client now. Creates no sensor."""
        tags = self._callback.tags(self._kind, user, client_id or "")
        if tags is None or not self._callback.are_tags(tags):
            sensor = self._by_client.get((user, client_id))
            return Decision(None, None if sensor is None else _bound_of(sensor))
        sensor = self._sensors.get(tags)
        last = None if sensor is None else _bound_of(sensor)
        return Decision(tags, self._callback.limit(self._kind, tags, last))

    def switch(self, change: RuleChange) -> None:
        """Store the change: rules limit no sensor here. `catch_up` passes them to the callback."""
        self._change = change

    def catch_up(self) -> Steps[None]:
        """Pass each rule to the callback, then refresh the limit of every sensor."""
        change = self._change
        if change is None:
            return
        self._change = None
        for rule, bound in change.bounds.items() if self._passes_rules else ():
            self._callback.rule_changed(self._kind, Entity(*rule), bound)
            yield
        if not change.bounds:
            return
        for key in list(self._sensors):
            sensor = self._sensors.get(key)
            if sensor is not None:
                now_ms = change.now_ms
                self._set_bound(sensor, None if now_ms is None else max(now_ms, sensor.last_record_ms))
            yield

    def set_shares(
        self, shares: Mapping[SensorKey, float], other: float, now_ms: int
    ) -> Steps[Collection[ClientSensor]]:
        """Change nothing: other gateways cannot know the callback's groups."""
        yield from ()
        return ()

    def whole_bound(self, sensor: ClientSensor) -> float:
        return sensor.bound

    def under(self, rule: RuleKey) -> list[S]:
        """Return the sensors whose tags equal the rule's entity."""
        pairs = Entity(*rule).pairs
        return [
            sensor
            for sensor in self._sensors.values()
            if sensor.rule is not None and sensor.rule.pairs == pairs
        ]

    def sweep(self, now_ms: int | None = None) -> None:
        """Refresh the limit of every sensor. (updateQuotaMetricConfigs)"""
        for sensor in self._sensors.values():
            self._set_bound(sensor, now_ms)

    def _make(self, tags: Tags, now_ms: int) -> S:
        if len(self._sensors) >= self._max_sensors:
            self._evict()
        named = dict(tags)
        sensor = self._sensors[tags] = self._build(named.get("user"), named.get("client-id"), now_ms)
        sensor.group = TagGroup(tags)
        self._set_bound(sensor, now_ms)
        return sensor

    def _set_bound(self, sensor: S, now_ms: int | None = None) -> None:
        assert sensor.group is not None
        bound = self._callback.limit(self._kind, sensor.group.pairs, _bound_of(sensor))
        if bound is None:
            sensor.set_bound(UNLIMITED, None, None, now_ms)
        else:
            sensor.set_bound(bound, sensor.group, None, now_ms)

    def _refresh(self, sensor: S) -> None:
        """Do nothing: `sweep` refreshes limits when they may have changed, not reads."""

    def _remember(self, user: str, client_id: str | None, sensor: S) -> None:
        """Keep the client's sensor in case the callback fails later, and evict the oldest. Clients choose
        their names, so their number is bounded.
        """
        known = self._by_client
        known[user, client_id] = sensor
        if len(known) > self._max_sensors:
            del known[next(iter(known))]

    def _last_known(self, user: str, client_id: str | None, now_ms: int) -> S:
        sensor = self._by_client.get((user, client_id))
        if sensor is not None:
            return sensor
        if self._unknown is None:
            self._unknown = self._build(None, None, now_ms)
        return self._unknown

    def _drop(self, keys: list[SensorKey]) -> int:
        gone = {id(self._sensors.pop(key)) for key in keys}
        if gone:
            self._by_client = {
                client: sensor for client, sensor in self._by_client.items() if id(sensor) not in gone
            }
        return len(keys)


def _bound_of(sensor: S) -> float | None:
    return None if sensor.rule is None else sensor.bound
