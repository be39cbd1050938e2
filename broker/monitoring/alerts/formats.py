"""Notifications as JSON: for a webhook, Alertmanager's API v2, Slack and PagerDuty.

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
from hashlib import sha256
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
    "bytes-in": ("receives", "bytes a second"),
    "bytes-out": ("sends", "bytes a second"),
    "connections": ("has", "connections"),
    "network-idle": ("has network threads that are idle for", "% of the time"),
    "handler-idle": ("has request handlers that are idle for", "% of the time"),
    "thread-idle": ("has a thread that is idle for", "% of the time"),
    "request-memory": ("has its request memory used to", "%"),
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
    is_below: bool = False

    @property
    def summary(self) -> str:
        about = ", ".join(f"{name.replace('_', ' ')} {text or '(none)'}" for name, text in self.labels)
        verb, unit = UNITS.get(self.condition, ("has", ""))
        if self.ended_at_ms is not None:
            return f"Resolved: {about}"
        side = "less" if self.is_below else "more"
        return f"{about} {verb} {plain(self.value)} {unit}, {side} than {plain(self.threshold)}"


SAMPLE: Final = "Test notification"


def sample_notification(now_ms: int, *, is_firing: bool = False) -> Notification:
    labels = (("group", "test"),)
    return Notification(SAMPLE, "lag", "info", labels, 1.0, 0.0, now_ms, None if is_firing else now_ms)


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


SLACK_COLOURS: Final = {"critical": "#b3252b", "warning": "#e59321", "info": "#0b7aa8"}
RESOLVED_COLOUR: Final = "#1b7a48"


def slack_body(batch: Sequence[Notification], source: NotificationSource) -> bytes:
    """Return a message of Slack's incoming webhooks, which Mattermost and Rocket.Chat take too."""
    return msgspec.json.encode(
        {
            "text": _slack_text(headline(batch)),
            "attachments": [_slack_attachment(each, source) for each in batch],
        }
    )


def _slack_attachment(each: Notification, source: NotificationSource) -> dict[str, Any]:
    is_resolved = each.ended_at_ms is not None
    return {
        "color": RESOLVED_COLOUR if is_resolved else SLACK_COLOURS[each.severity],
        "fallback": _slack_text(each.summary),
        "title": _slack_text(each.rule),
        "title_link": source.console,
        "text": _slack_text(each.summary),
        "footer": f"Weir, node {source.node_id}, {'resolved' if is_resolved else each.severity}",
        "ts": (each.ended_at_ms or each.started_at_ms) // 1000,
        # Names are shown as they are, not as Markdown.
        "mrkdwn_in": [],
    }


def _slack_text(text: str) -> str:
    """Escape what Slack gives a meaning to, such as <!channel>, which notifies everybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


LONGEST_SUMMARY: Final = 1_024
"""Characters of a summary that PagerDuty takes."""


def pagerduty_body(each: Notification, source: NotificationSource, key: str) -> bytes:
    """Return an event of PagerDuty's Events API v2: the same `dedup_key` begins an incident and ends it."""
    subject = msgspec.json.encode((source.cluster_id, source.node_id, each.rule, each.labels))
    event: dict[str, Any] = {
        "routing_key": key,
        "event_action": "trigger" if each.ended_at_ms is None else "resolve",
        "dedup_key": sha256(subject).hexdigest(),
    }
    if each.ended_at_ms is None:
        event |= {
            "client": "Weir",
            "client_url": source.console,
            "payload": {
                "summary": f"{each.rule}: {each.summary}"[:LONGEST_SUMMARY],
                "source": f"node {source.node_id} of {source.cluster_id}",
                "severity": each.severity,
                "timestamp": utc(each.started_at_ms),
                "class": each.condition,
                "custom_details": dict(each.labels)
                | {"value": _number(each.value), "threshold": _number(each.threshold)},
            },
        }
    return msgspec.json.encode(event)


def headline(batch: Sequence[Notification]) -> str:
    """Say what a message is about: the rule of one alert, or how many fire and are resolved."""
    if len(batch) == 1:
        return f"{'Firing' if batch[0].ended_at_ms is None else 'Resolved'}: {batch[0].rule}"
    firing = sum(each.ended_at_ms is None for each in batch)
    counts = ((firing, "firing"), (len(batch) - firing, "resolved"))
    return "Alerts: " + ", ".join(f"{count} {what}" for count, what in counts if count)


def plain(value: float) -> str:
    """Format with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _number(value: float) -> float:
    return int(value) if value.is_integer() else value


def utc(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
