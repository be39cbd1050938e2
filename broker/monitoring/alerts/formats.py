"""Notifications as JSON: for a webhook, and for Alertmanager's API v2.

A webhook receives one object:

    {"version": 1, "cluster_id": "...", "node_id": 1, "console": "http://...",
     "alerts": [{"status": "firing", "rule": "reports fall behind", "condition": "lag", "severity": "warning",
                 "labels": {"group": "reports"}, "value": 120000, "threshold": 100000, "summary": "...",
                 "started_at": "2026-01-01T00:00:00.000Z", "ended_at": null}]}

Alertmanager receives a list, with the labels alertname, severity, condition, cluster and node beside the
alert's own, and resolves an alert by itself at `endsAt`: a firing one is therefore sent again every
`RESEND_MS` with a later end.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from broker.controller.rows.alerts import Labels

RESEND_MS: Final = 60_000
ALIVE_MS: Final = 4 * RESEND_MS
"""How long an Alertmanager keeps a firing alert that is not sent again, as Prometheus has it."""

ALERTMANAGER_PATH: Final = "/api/v2/alerts"

UNITS: Final = {
    "throttled": ("throttled for", "ms"),
    "ignores-throttling": ("ignores throttling on", "connections"),
    "lag": ("has a lag of", "records"),
    "disk": ("is used to", "%"),
    "refused-records": ("has", "records a minute that no gateway wrote"),
}


class NotificationSource(msgspec.Struct, frozen=True):
    """The sender of notifications."""

    cluster_id: str
    node_id: int
    console: str


class Notification(msgspec.Struct, frozen=True):
    """`ended_at_ms` None: firing."""

    rule: str
    condition: str
    severity: str
    labels: Labels
    value: float
    threshold: float
    started_at_ms: int
    ended_at_ms: int | None

    @property
    def summary(self) -> str:
        about = ", ".join(f"{name.replace('_', ' ')} {text or '(none)'}" for name, text in self.labels)
        verb, unit = UNITS.get(self.condition, ("has", ""))
        if self.ended_at_ms is not None:
            return f"Resolved: {about}"
        return f"{about} {verb} {plain(self.value)} {unit}, more than {plain(self.threshold)}"


SAMPLE: Final = "Test notification"


def sample_notification(now_ms: int) -> Notification:
    labels = (("group", "test"),)
    return Notification(SAMPLE, "lag", "info", labels, 1.0, 0.0, now_ms, now_ms)


def webhook_body(batch: Sequence[Notification], source: NotificationSource) -> bytes:
    return msgspec.json.encode(
        {
            "version": 1,
            "cluster_id": source.cluster_id,
            "node_id": source.node_id,
            "console": source.console,
            "alerts": [_webhook_alert(each) for each in batch],
        }
    )


def _webhook_alert(each: Notification) -> dict[str, Any]:
    return {
        "status": "firing" if each.ended_at_ms is None else "resolved",
        "rule": each.rule,
        "condition": each.condition,
        "severity": each.severity,
        "labels": dict(each.labels),
        "value": _number(each.value),
        "threshold": _number(each.threshold),
        "summary": each.summary,
        "started_at": utc(each.started_at_ms),
        "ended_at": None if each.ended_at_ms is None else utc(each.ended_at_ms),
    }


def alertmanager_body(batch: Sequence[Notification], source: NotificationSource, now_ms: int) -> bytes:
    """`now_ms` is wall-clock: the end of firing alerts is `ALIVE_MS` later."""
    return msgspec.json.encode([_alertmanager_alert(each, source, now_ms) for each in batch])


def _alertmanager_alert(each: Notification, source: NotificationSource, now_ms: int) -> dict[str, Any]:
    ends_ms = now_ms + ALIVE_MS if each.ended_at_ms is None else each.ended_at_ms
    labels = {
        "alertname": each.rule,
        "severity": each.severity,
        "condition": each.condition,
        "cluster": source.cluster_id,
        "node": str(source.node_id),
    }
    # Alertmanager takes an empty label for a missing one.
    labels |= {name: text for name, text in each.labels if text}
    return {
        "labels": labels,
        "annotations": {"summary": each.summary, "value": plain(each.value)},
        "startsAt": utc(each.started_at_ms),
        "endsAt": utc(ends_ms),
        "generatorURL": source.console,
    }


def plain(value: float) -> str:
    """Format with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _number(value: float) -> float:
    return int(value) if value.is_integer() else value


def utc(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
