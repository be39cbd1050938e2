"""Evaluates one rule: its alerts are pending, fire, and are resolved.

Called by broker.monitoring.alerts.task with what the rule observes. Pure: time is an argument.

    pending     the value is above the threshold, for less than `for_ms`
    firing      it was above for `for_ms`; a value above `clear` keeps it firing
    resolved    it was at most `clear` for `resolve_after_ms`; a subject without a value counts as 0

A rule that fires below its threshold is the mirror image; a subject without a value is resolved there. A
pending alert ends without a word when its value is at most the threshold. A value that is not known changes
neither: the alert keeps the last one that was, and its time at `clear` begins anew.
"""

from collections.abc import Iterator, Mapping
from heapq import nlargest, nsmallest
from typing import Final

import msgspec

from broker.controller.rows.alerts import Labels
from broker.metadata.alerts import AlertRule

MAX_ALERTS: Final = 100
"""Alerts of one rule that are tracked, those with the highest values; ours. A rule that exceeds it says one
thing about the whole broker, and ten thousand notifications of it are useless.
"""


class AtLeast(float):
    """A value that is not known, and not below this. One that exceeds a limit exceeds it for certain."""


class AlertTransition(msgspec.Struct, frozen=True):
    """An alert that began to fire (`ended_at_ms` None) or was resolved. Times are wall-clock."""

    labels: Labels
    value: float
    fired_at_ms: int
    ended_at_ms: int | None


class Alert:
    """`since_ms`, `fired_ms` and `calm_since_ms` are monotonic, the other times wall-clock. It is pending
    while `fired_ms` is None. `unknown_since_at_ms` is since when `value` is only the last that
    was known, else None.
    """

    def __init__(self, labels: Labels, value: float, now_ms: int, wall_ms: int) -> None:
        self.labels = labels
        self.value = value
        self.since_ms = now_ms
        self.since_at_ms = wall_ms
        self.fired_ms: int | None = None
        self.fired_at_ms = 0
        self.calm_since_ms: int | None = None
        self.unknown_since_at_ms: int | None = None


class RuleState:
    """The alerts of one rule. `unlisted` counts subjects above the threshold that are not tracked."""

    def __init__(self) -> None:
        self._alerts: dict[Labels, Alert] = {}
        self.unlisted = 0
        self.value: float | None = None

    @property
    def alerts(self) -> list[Alert]:
        return list(self._alerts.values())

    @property
    def firing(self) -> list[Alert]:
        return [alert for alert in self._alerts.values() if alert.fired_ms is not None]

    def step(
        self,
        rule: AlertRule,
        observed: Mapping[Labels, float],
        now_ms: int,
        wall_ms: int,
        others: float = 0.0,
    ) -> list[AlertTransition]:
        """Take over the values at this time, and return what began to fire or was resolved. `others` is the
        value of subjects that are not observed.
        """
        worst = min if rule.fires_below else max
        found = worst(observed.values(), default=None)
        self.value = None if found is None else float(found)
        self._admit(rule, observed, now_ms, wall_ms)
        return [
            transition
            for alert in self.alerts
            for transition in self._next(
                alert,
                rule,
                observed.get(alert.labels, rule.clear_at if rule.fires_below else others),
                now_ms,
                wall_ms,
            )
        ]

    def end(self, wall_ms: int) -> list[AlertTransition]:
        """Resolve everything: the rule was removed or disabled."""
        ended = [_resolved(alert, alert.value, wall_ms) for alert in self.firing]
        self._alerts.clear()
        self.unlisted, self.value = 0, None
        return ended

    def _admit(self, rule: AlertRule, observed: Mapping[Labels, float], now_ms: int, wall_ms: int) -> None:
        beyond = [
            (value, labels) for labels, value in observed.items() if rule.exceeds(value, rule.threshold)
        ]
        fresh = [each for each in beyond if each[1] not in self._alerts]
        worst = nsmallest if rule.fires_below else nlargest
        admitted = worst(max(0, MAX_ALERTS - len(self._alerts)), fresh)
        self.unlisted = len(fresh) - len(admitted)
        for value, labels in admitted:
            self._alerts[labels] = Alert(labels, float(value), now_ms, wall_ms)

    def _next(
        self, alert: Alert, rule: AlertRule, value: float, now_ms: int, wall_ms: int
    ) -> Iterator[AlertTransition]:
        limit = rule.threshold if alert.fired_ms is None else rule.clear_at
        if isinstance(value, AtLeast) and value <= limit:
            if alert.unknown_since_at_ms is None:
                alert.unknown_since_at_ms = wall_ms
            alert.calm_since_ms = None
            return
        alert.unknown_since_at_ms = None
        value = float(value)
        if alert.fired_ms is None:
            if not rule.exceeds(value, rule.threshold):
                del self._alerts[alert.labels]
                return
            alert.value = value
            if now_ms - alert.since_ms >= rule.for_ms:
                alert.fired_ms, alert.fired_at_ms = now_ms, wall_ms
                yield AlertTransition(alert.labels, value, wall_ms, None)
            return
        alert.value = value
        if rule.exceeds(value, rule.clear_at):
            alert.calm_since_ms = None
            return
        if alert.calm_since_ms is None:
            alert.calm_since_ms = now_ms
        if now_ms - alert.calm_since_ms >= rule.resolve_after_ms:
            del self._alerts[alert.labels]
            yield _resolved(alert, value, wall_ms)


def _resolved(alert: Alert, value: float, wall_ms: int) -> AlertTransition:
    return AlertTransition(alert.labels, value, alert.fired_at_ms, wall_ms)
