"""Alert rules and destinations as the metadata store them: one JSON text each.

Validated and planned by broker.controller.alerts, in force through broker.metadata.image, evaluated by
broker.monitoring.alerts.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

RULE: Final = "rule"
DESTINATION: Final = "destination"
"""The only key of each kind."""


class AlertCondition(StrEnum):
    """The quantity that a rule measures: the throttle of a client in ms, the connections of a client that
    does not wait for its throttles, the lag of a group in records, the used part of a log directory's disk in
    percent, the records of a topic of the gateways that were refused in the last minute.
    """

    THROTTLED = "throttled"
    IGNORES_THROTTLING = "ignores-throttling"
    LAG = "lag"
    DISK = "disk"
    REFUSED_RECORDS = "refused-records"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class DestinationKind(StrEnum):
    WEBHOOK = "webhook"
    ALERTMANAGER = "alertmanager"


class AlertRule(msgspec.Struct, frozen=True):
    """An alert fires when its value has been above `threshold` for `for_ms`, and is resolved when it has been
    at most `clear` (None: the threshold) for `resolve_after_ms`. `match` is a pattern with `*` and `?` for
    the name of a client, user, group or directory; "" is any.
    """

    condition: AlertCondition
    threshold: float
    clear: float | None = None
    for_ms: int = 0
    resolve_after_ms: int = 0
    match: str = ""
    severity: Severity = Severity.WARNING
    destinations: tuple[str, ...] = ()
    enabled: bool = True

    @property
    def clear_at(self) -> float:
        return self.threshold if self.clear is None else self.clear


class AlertDestination(msgspec.Struct, frozen=True):
    """`url` of an Alertmanager is its base. Both can contain secrets."""

    kind: DestinationKind
    url: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"AlertDestination(kind={self.kind.value!r}, url=..., headers=...)"


class RuleEntry(msgspec.Struct, frozen=True):
    """`version` as a quota's."""

    name: str
    rule: AlertRule
    version: int
    changed_at_ms: int
    changed_by: str


class DestinationEntry(msgspec.Struct, frozen=True):
    """`destination` is None if its key is not available."""

    name: str
    destination: AlertDestination | None
    version: int
    changed_at_ms: int
    changed_by: str


def written(spec: AlertRule | AlertDestination) -> str:
    return msgspec.json.encode(spec).decode()


def read_rule(text: str) -> AlertRule:
    """Raises ValueError."""
    return msgspec.json.decode(text, type=AlertRule)


def read_destination(text: str) -> AlertDestination:
    """Raises ValueError."""
    return msgspec.json.decode(text, type=AlertDestination)
