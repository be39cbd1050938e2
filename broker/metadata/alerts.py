"""Alert rules, silences and destinations as the metadata store them: one JSON text each.

Validated and planned by broker.controller.alerts, in force through broker.metadata.image, evaluated by
broker.monitoring.alerts.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

RULE: Final = "rule"
DESTINATION: Final = "destination"
SILENCE: Final = "silence"
"""The only key of each kind."""


class AlertCondition(StrEnum):
    """The quantity that a rule measures: the throttle of a client in ms, the connections of a client that
    does not wait for its throttles, the lag of a group in records, the used part of a log directory's disk in
    percent, the records of a topic of the gateways that were refused in the last minute; of this server the
    bytes a second that it receives and sends, its connections, three idle shares in percent, and the used
    part of its request memory in percent.
    """

    THROTTLED = "throttled"
    IGNORES_THROTTLING = "ignores-throttling"
    LAG = "lag"
    DISK = "disk"
    REFUSED_RECORDS = "refused-records"
    BYTES_IN = "bytes-in"
    BYTES_OUT = "bytes-out"
    CONNECTIONS = "connections"
    NETWORK_IDLE = "network-idle"
    HANDLER_IDLE = "handler-idle"
    THREAD_IDLE = "thread-idle"
    REQUEST_MEMORY = "request-memory"


IDLE: Final = frozenset(
    {AlertCondition.NETWORK_IDLE, AlertCondition.HANDLER_IDLE, AlertCondition.THREAD_IDLE}
)
"""Conditions of which a small value is the trouble. (Kafka: NetworkProcessorAvgIdlePercent,
RequestHandlerAvgIdlePercent)
"""

EITHER_WAY: Final = frozenset({AlertCondition.BYTES_IN, AlertCondition.BYTES_OUT, AlertCondition.CONNECTIONS})
"""Conditions of which a rule can watch either side: too much, or too little."""

OF_SERVER: Final = frozenset({*IDLE, *EITHER_WAY, AlertCondition.REQUEST_MEMORY})
"""Conditions of the whole server."""

PERCENTAGES: Final = frozenset({*IDLE, AlertCondition.DISK, AlertCondition.REQUEST_MEMORY})


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class DestinationKind(StrEnum):
    WEBHOOK = "webhook"
    ALERTMANAGER = "alertmanager"
    SLACK = "slack"
    PAGERDUTY = "pagerduty"
    EMAIL = "email"


class AlertRule(msgspec.Struct, frozen=True):
    """An alert fires when its value has been above `threshold` for `for_ms`, and is resolved when it has been
    at most `clear` (None: the threshold) for `resolve_after_ms`. Where the rule `fires_below`, it fires below
    the threshold and is resolved at `clear` or above; `below` None is the usual side of the condition.
    `match` is a pattern with `*` and `?` for the name of a client, user, group or directory; "" is any. While
    an alert fires, its destinations are notified again every `repeat_ms`; 0: once only.
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
    below: bool | None = None
    repeat_ms: int = 0

    @property
    def fires_below(self) -> bool:
        return self.condition in IDLE if self.below is None else self.below

    def exceeds(self, value: float, limit: float) -> bool:
        """Whether the value is on the side of the limit on which the rule fires."""
        return value < limit if self.fires_below else value > limit

    @property
    def clear_at(self) -> float:
        return self.threshold if self.clear is None else self.clear


class AlertDestination(msgspec.Struct, frozen=True):
    """`url` of an Alertmanager is its base, of e-mail the mail server's. URL and headers can contain secrets;
    `secret` is PagerDuty's integration key, or the password of `username` at the mail server.
    """

    kind: DestinationKind
    url: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    secret: str = ""
    username: str = ""
    sender: str = ""
    recipients: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"AlertDestination(kind={self.kind.value!r}, url=..., headers=...)"


class AlertSilence(msgspec.Struct, frozen=True):
    """Until `ends_at_ms`, which is wall-clock, no destination is notified of an alert that begins to fire. It
    is for the alerts of one `rule` ("": of all), about names that the pattern `match` selects ("": all).
    """

    ends_at_ms: int
    rule: str = ""
    match: str = ""


class SilenceEntry(msgspec.Struct, frozen=True):
    name: str
    silence: AlertSilence
    version: int
    changed_at_ms: int
    changed_by: str


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


def written(spec: AlertRule | AlertDestination | AlertSilence) -> str:
    return msgspec.json.encode(spec).decode()


def read_rule(text: str) -> AlertRule:
    """Raises ValueError."""
    return msgspec.json.decode(text, type=AlertRule)


def read_silence(text: str) -> AlertSilence:
    """Raises ValueError."""
    return msgspec.json.decode(text, type=AlertSilence)


def read_destination(text: str) -> AlertDestination:
    """Raises ValueError."""
    return msgspec.json.decode(text, type=AlertDestination)
