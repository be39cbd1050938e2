"""Notifications as a webhook and as Alertmanager reads them."""

import json

import pytest
from msgspec.structs import replace

from broker.monitoring.alerts.formats import (
    ALIVE_MS,
    RESEND_MS,
    Notification,
    NotificationSource,
    alertmanager_body,
    headline,
    pagerduty_body,
    plain,
    slack_body,
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


def test_slack_gets_a_message_in_which_names_mean_nothing() -> None:
    each = Notification(
        "a<b>", "lag", "critical", (("group", "<!channel> & *bold*"),), 9.0, 5.0, 61_000, None
    )
    assert json.loads(slack_body([each, RESOLVED], SOURCE)) == {
        "text": "Alerts: 1 firing, 1 resolved",
        "attachments": [
            {
                "color": "#b3252b",
                "fallback": "group &lt;!channel&gt; &amp; *bold* has a lag of 9 records, more than 5",
                "title": "a&lt;b&gt;",
                "title_link": "http://weir.example/",
                "text": "group &lt;!channel&gt; &amp; *bold* has a lag of 9 records, more than 5",
                "footer": "Weir, node 3, critical",
                "ts": 61,
                "mrkdwn_in": [],
            },
            {
                "color": "#1b7a48",
                "fallback": "Resolved: directory /d",
                "title": "a",
                "title_link": "http://weir.example/",
                "text": "Resolved: directory /d",
                "footer": "Weir, node 3, resolved",
                "ts": 61,
                "mrkdwn_in": [],
            },
        ],
    }


def test_pagerduty_gets_an_event_whose_end_has_the_same_key() -> None:
    begin = json.loads(pagerduty_body(FIRING, SOURCE, "k" * 32))
    assert begin.pop("dedup_key") and begin == {
        "routing_key": "k" * 32,
        "event_action": "trigger",
        "client": "Weir",
        "client_url": "http://weir.example/",
        "payload": {
            "summary": "reports fall behind: group rep\u202eorts has a lag of 120000 records, "
            "more than 100000",
            "source": "node 3 of Zm9v",
            "severity": "critical",
            "timestamp": "1970-01-01T00:00:01.000Z",
            "class": "lag",
            "custom_details": {"group": "rep\u202eorts", "value": 120_000, "threshold": 100_000},
        },
    }
    end = json.loads(pagerduty_body(replace(FIRING, ended_at_ms=2_000, value=0.0), SOURCE, "k" * 32))
    key = json.loads(pagerduty_body(FIRING, SOURCE, "k" * 32))["dedup_key"]
    assert end == {"routing_key": "k" * 32, "event_action": "resolve", "dedup_key": key}
    others = [
        pagerduty_body(replace(FIRING, rule="other"), SOURCE, "k" * 32),
        pagerduty_body(replace(FIRING, labels=(("group", "other"),)), SOURCE, "k" * 32),
        pagerduty_body(FIRING, replace(SOURCE, node_id=4), "k" * 32),
    ]
    assert len({key, *(json.loads(each)["dedup_key"] for each in others)}) == 4


@pytest.mark.parametrize(("size", "kept"), [(900, 900), (2_000, 1_024)])
def test_a_summary_is_as_long_as_pagerduty_takes(size: int, kept: int) -> None:
    labels = (("group", "x" * size),)
    sent = json.loads(pagerduty_body(replace(FIRING, labels=labels), SOURCE, "k"))["payload"]["summary"]
    assert len(sent) == kept if kept == 1_024 else len(sent) > kept


def test_a_headline_says_what_a_message_is_about() -> None:
    assert headline([FIRING]) == "Firing: reports fall behind"
    assert headline([RESOLVED]) == "Resolved: a"
    assert headline([FIRING, FIRING]) == "Alerts: 2 firing"
    assert headline([FIRING, RESOLVED, RESOLVED]) == "Alerts: 1 firing, 2 resolved"


def test_a_rule_that_fires_below_says_so() -> None:
    each = Notification("a", "network-idle", "info", (("node", "1"),), 7.5, 20.0, 0, None, True)
    assert each.summary == "node 1 has network threads that are idle for 7.5 % of the time, less than 20"
