"""Rows of alerts: what fires now, what happened, and where notifications go. See `views` for units.

Made by broker.monitoring.alerts and by `Views`.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Protocol

import msgspec

from broker.controller.rows.fields import HIDDEN, Measured, Moment, Tags, one_of
from broker.metadata.alerts import AlertRule, DestinationKind

Labels = Tags
"""What an alert is about, by name, such as (("group", "reports"),)."""


class AlertRuleRow(msgspec.Struct, frozen=True):
    """`pending` and `firing` count the alerts of the rule; `unlisted` subjects exceed it beyond the maximum
    that is tracked. `value` is its highest value at the last evaluation, the lowest of a rule that fires
    below its threshold; None before it or without any.
    """

    name: str
    rule: Annotated[AlertRule, HIDDEN]
    version: int
    changed_at_ms: Moment
    changed_by: str
    pending: int = 0
    firing: int = 0
    unlisted: int = 0
    value: Measured | None = None


class AlertRow(msgspec.Struct, frozen=True):
    """`state` is pending or firing; `since_at_ms` is when the value exceeded the threshold, `fired_at_ms`
    None while it is pending. If `unknown_since_at_ms` is not None, `value` is the last that was known.
    """

    rule: str
    severity: str
    condition: str
    labels: Labels
    state: Annotated[str, one_of("pending", "firing")]
    value: Measured
    threshold: float
    since_at_ms: Moment = msgspec.field(name="since")
    fired_at_ms: Moment | None
    unknown_since_at_ms: Moment | None = msgspec.field(name="unknown_since", default=None)
    silenced_until_ms: Moment | None = msgspec.field(name="silenced_until", default=None)


class SilenceRow(msgspec.Struct, frozen=True):
    """`rule` "": all rules; `match` "": all names. `alerts` are the alerts that it silences now."""

    name: str
    rule: str
    match: str
    ends_at_ms: Moment
    version: int
    changed_at_ms: Moment
    changed_by: str
    ends_in_ms: int = 0
    alerts: int = 0


class AlertEvent(msgspec.Struct, frozen=True):
    """`event` is firing, resolved, or of a destination: undelivered, dropped or test; then `rule` is "" and
    `text` says more. `number` grows by one for each event since the start.
    """

    number: int
    at_ms: Moment
    event: Annotated[
        str,
        msgspec.Meta(extra_json_schema={"enum": ("firing", "resolved", "undelivered", "dropped", "test")}),
    ]
    rule: str = ""
    severity: str = ""
    labels: Labels = ()
    value: Measured | None = None
    destination: str = ""
    text: str = ""


class Delivery(msgspec.Struct, frozen=True):
    """The numbers of a destination's notifications since the start. `waiting` includes those being sent;
    `problem` is why the last attempt failed, "" if it did not; then the next one is at `next_attempt_at_ms`,
    None after the last.
    """

    waiting: int = 0
    sent: int = 0
    undelivered: int = 0
    dropped: int = 0
    problem: str = ""
    last_sent_at_ms: Moment | None = None
    next_attempt_at_ms: Moment | None = None


class DestinationRow(msgspec.Struct, frozen=True):
    """`url` is without path and query, which can be secret, as header values are; "" if its key is not
    available. `has_secret`: PagerDuty's integration key or a password is stored. `rules` use it.
    """

    name: str
    kind: Annotated[str, one_of("", *DestinationKind)]
    url: Annotated[str, msgspec.Meta(max_length=4_096)]
    header_names: tuple[str, ...]
    rules: tuple[str, ...]
    version: int
    changed_at_ms: Moment
    changed_by: str
    has_secret: bool = False
    username: str = ""
    sender: str = ""
    recipients: tuple[str, ...] = ()


class Attempt(msgspec.Struct, frozen=True):
    """A test of a destination. `status` is that of HTTP or SMTP, 0 without a response."""

    delivered: bool
    status: int
    reason: str


class AlertViews(Protocol):
    """What the console reads of broker.monitoring.alerts."""

    def rules(self) -> Mapping[str, tuple[int, int, int, float | None]]:
        """Return pending, firing and unlisted alerts and the highest value, by rule."""

    def active(self) -> list[AlertRow]: ...

    def silenced(self) -> Mapping[str, int]:
        """Return the number of alerts that each silence in force silences."""

    def history(self) -> Iterable[AlertEvent]:
        """Return the events since the start, the newest first; at most some hundreds are kept."""

    def deliveries(self) -> Mapping[str, Delivery]: ...

    async def test(self, destination: str) -> Attempt:
        """Send a test notification now, without retrying. Raises ApiError."""


class NoAlerts:
    """`AlertViews` of a server that evaluates no rules."""

    def rules(self) -> Mapping[str, tuple[int, int, int, float | None]]:
        return {}

    def active(self) -> list[AlertRow]:
        return []

    def silenced(self) -> Mapping[str, int]:
        return {}

    def history(self) -> Iterable[AlertEvent]:
        return ()

    def deliveries(self) -> Mapping[str, Delivery]:
        return {}

    async def test(self, destination: str) -> Attempt:
        return Attempt(False, 0, f"this server sends nothing to {destination}")
