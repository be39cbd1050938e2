"""Notifications as a webhook and as Alertmanager reads them."""

import json

import pytest

from broker.monitoring.alerts.formats import (
    ALIVE_MS,
    RESEND_MS,
    Notification,
    NotificationSource,
    alertmanager_body,
    plain,
    webhook_body,
)

SOURCE = NotificationSource("Zm9v", 3, "http://weir.example/")
FIRING = Notification(
    "reports fall behind", "lag", "critical", (("group", "rep\u202eorts"),), 120_000.0, 1e5, 1_000, None
)
RESOLVED = Notification("a", "disk", "info", (("directory", "/d"),), 80.25, 90.0, 1_000, 61_000)


def test_a_webhook_gets_all_of_a_batch() -> None:
    assert json.loads(webhook_body([FIRING, RESOLVED], SOURCE)) == {
        "version": 1,
        "cluster_id": "Zm9v",
        "node_id": 3,
        "console": "http://weir.example/",
        "alerts": [
            {
                "status": "firing",
                "rule": "reports fall behind",
                "condition": "lag",
                "severity": "critical",
                "labels": {"group": "rep\u202eorts"},
                "value": 120_000,
                "threshold": 100_000,
                "summary": "group rep\u202eorts has a lag of 120000 records, more than 100000",
                "started_at": "1970-01-01T00:00:01.000Z",
                "ended_at": None,
            },
            {
                "status": "resolved",
                "rule": "a",
                "condition": "disk",
                "severity": "info",
                "labels": {"directory": "/d"},
                "value": 80.25,
                "threshold": 90,
                "summary": "Resolved: directory /d",
                "started_at": "1970-01-01T00:00:01.000Z",
                "ended_at": "1970-01-01T00:01:01.000Z",
            },
        ],
    }


def test_alertmanager_gets_labels_and_an_end() -> None:
    assert ALIVE_MS == 4 * RESEND_MS == 240_000
    firing, resolved = json.loads(alertmanager_body([FIRING, RESOLVED], SOURCE, 2_000))
    assert firing == {
        "labels": {
            "alertname": "reports fall behind",
            "severity": "critical",
            "condition": "lag",
            "cluster": "Zm9v",
            "node": "3",
            "group": "rep\u202eorts",
        },
        "annotations": {
            "summary": "group rep\u202eorts has a lag of 120000 records, more than 100000",
            "value": "120000",
        },
        "startsAt": "1970-01-01T00:00:01.000Z",
        "endsAt": "1970-01-01T00:04:02.000Z",
        "generatorURL": "http://weir.example/",
    }
    assert resolved["endsAt"] == "1970-01-01T00:01:01.000Z"


def test_an_empty_name_is_no_label() -> None:
    each = Notification("a", "throttled", "info", (("client_id", ""), ("user", "u")), 1.0, 0.0, 0, None)
    (alert,) = json.loads(alertmanager_body([each], SOURCE, 0))
    assert "client_id" not in alert["labels"] and alert["labels"]["user"] == "u"
    assert each.summary == "client id (none), user u throttled for 1 ms, more than 0"


@pytest.mark.parametrize(("value", "text"), [(1.0, "1"), (0.125, "0.12"), (100.0, "100"), (99.996, "100")])
def test_numbers_have_two_decimals_at_most(value: float, text: str) -> None:
    assert plain(value) == text
