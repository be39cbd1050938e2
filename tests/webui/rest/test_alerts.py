"""Alert rules and destinations over REST: created, replaced, removed, tested; what is secret stays so."""

import logging
from typing import Any

import pytest

from broker.controller.alerts import LONGEST_SILENCE_MS, SHORTEST_SILENCE_MS, AlertCondition, AlertRule
from broker.controller.rows.alerts import AlertEvent, AlertRow, Attempt, Delivery
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from webui.rest.alerts import (
    ALERTS,
    DESTINATION,
    DESTINATIONS,
    HISTORY,
    REFUSED_DESTINATION,
    REFUSED_RULE,
    RULE,
    RULES,
    SILENCE,
    SILENCES,
    TESTED,
)

RULE_PATH = "/api/v1/alert-rules/reports"
HOOK = "/api/v1/alert-destinations/hook"
LAG = {"condition": "lag", "threshold": 1000}
TARGET = {
    "kind": "webhook",
    "url": "https://hooks.example/T0/pathsecret?q=querysecret",
    "headers": {"Authorization": "Bearer headersecret"},
}


def put(http: Browserless, path: str = RULE_PATH, body: Any = None, **rest: Any) -> Any:
    return http.ask("PUT", path, body=LAG if body is None else body, **rest)


async def test_a_rule_is_created_replaced_and_removed(http: Browserless, broker: FakeBroker) -> None:
    made = await put(http, token="editor-token")
    rule = RULE.check(await made.get_json())
    assert made.status_code == 201 and made.headers["ETag"] == f'"{rule["version"]}"'
    expected = {"clear": None, "for_ms": 0, "match": "", "severity": "warning", "enabled": True, "firing": 0}
    assert expected.items() <= rule.items()
    replaced = await put(http, body=LAG | {"for_ms": 60_000, "clear": 10.5}, If_Match=made.headers["ETag"])
    assert replaced.status_code == 200
    broker.alerts.counts["reports"] = (1, 2, 3, 1500.5)
    (listed,) = RULES.check(await (await http.get("/api/v1/alert-rules")).get_json())["items"]
    assert (listed["pending"], listed["firing"], listed["unlisted"], listed["value"]) == (1, 2, 3, 1500.5)
    assert (listed["for_ms"], listed["clear"]) == (60_000, 10.5)
    assert (await http.get(RULE_PATH)).headers["ETag"] == replaced.headers["ETag"]
    removed = await http.ask("DELETE", RULE_PATH)
    assert (removed.status_code, await removed.get_data()) == (204, b"")
    assert [(await http.ask(each, RULE_PATH)).status_code for each in ("GET", "DELETE")] == [404, 404]


async def test_an_equal_put_changes_nothing(http: Browserless, broker: FakeBroker) -> None:
    first = await put(http)
    again = await put(http)
    assert (again.status_code, again.headers["ETag"]) == (200, first.headers["ETag"])


async def test_a_rule_can_be_checked_without_setting_it(http: Browserless, broker: FakeBroker) -> None:
    checked = await put(http, f"{RULE_PATH}?validate_only=true")
    assert (checked.status_code, await checked.get_data()) == (204, b"")
    assert (await put(http, f"{HOOK}?validate_only=true", TARGET)).status_code == 204
    assert broker.metadata.image.alert_rules == broker.metadata.image.alert_destinations == {}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "is missing"),
        (LAG | {"condition": "rain"}, "must be one of"),
        (LAG | {"threshold": -1}, ""),
        (LAG | {"threshold": "many"}, "must be a number"),
        (LAG | {"threshold": None}, "must be a number"),
        (LAG | {"threshold": 2**63}, ""),
        (LAG | {"clear": 1001}, "from 0 to the threshold"),
        (LAG | {"for_ms": -1}, ""),
        (LAG | {"for_ms": 1.5}, "must be an integer"),
        (LAG | {"severity": "fatal"}, "must be one of"),
        (LAG | {"destinations": ["nowhere"]}, "no destination named nowhere"),
        (LAG | {"enabled": "yes"}, "must be true or false"),
        (LAG | {"more": 1}, "unknown field"),
        ({"condition": "disk", "threshold": 101}, "at most 100"),
    ],
)
async def test_an_invalid_rule_is_refused(
    http: Browserless, broker: FakeBroker, body: Any, words: str
) -> None:
    answer = await put(http, body=body)
    problem = REFUSED_RULE.check(await answer.get_json())
    assert answer.status_code == 400 and words in problem["detail"]
    assert broker.metadata.image.alert_rules == {}


async def test_a_concurrent_change_is_shown_and_not_overwritten(
    http: Browserless, broker: FakeBroker
) -> None:
    made = await put(http)
    hook = await put(http, HOOK, TARGET)
    broker.add_rule("reports", AlertRule(AlertCondition.LAG, 7.0))
    broker.add_destination("hook", "https://other.example/")
    before = broker.metadata.image.version
    for answer in (
        await put(http, If_Match=made.headers["ETag"]),
        await put(http, If_None_Match="*"),
        await http.ask("DELETE", RULE_PATH, If_Match=made.headers["ETag"]),
    ):
        problem = REFUSED_RULE.check(await answer.get_json())
        assert (answer.status_code, problem["current"]["threshold"]) == (412, 7)
    for answer in (
        await put(http, HOOK, TARGET, If_Match=hook.headers["ETag"]),
        await http.ask("DELETE", HOOK, If_Match=hook.headers["ETag"]),
    ):
        problem = REFUSED_DESTINATION.check(await answer.get_json())
        assert (answer.status_code, problem["current"]["url"]) == (412, "https://other.example/")
    assert broker.metadata.image.version == before


async def test_what_is_secret_is_in_no_response_and_in_no_log(
    http: Browserless, broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = await put(http, HOOK, TARGET)
    row = DESTINATION.check(await made.get_json())
    assert made.status_code == 201
    assert (row["url"], row["header_names"]) == ("https://hooks.example/…", ["Authorization"])
    answers = [
        made,
        await http.get(HOOK),
        await http.get("/api/v1/alert-destinations"),
        await put(http, HOOK, TARGET | {"url": "http://10.0.0.1/pathsecret"}),
        await put(http, HOOK, TARGET | {"headers": {"X": "headersecret\n"}}),
        await http.ask("POST", f"{HOOK}:test"),
    ]
    texts = [caplog.text, *[(await answer.get_data()).decode() for answer in answers]]
    for secret in ("pathsecret", "querysecret", "headersecret"):
        assert not [text for text in texts if secret in text]


async def test_what_is_omitted_stays(http: Browserless, broker: FakeBroker) -> None:
    await put(http, HOOK, TARGET)
    assert (await put(http, HOOK, {"kind": "webhook"})).status_code == 200
    known = broker.metadata.image.alert_destinations["hook"].destination
    assert known is not None and (known.url, known.headers) == (TARGET["url"], TARGET["headers"])
    moved = await put(http, HOOK, {"kind": "webhook", "url": "https://evil.example/"})
    assert moved.status_code == 400 and "Give the headers again" in (await moved.get_json())["detail"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"kind": "webhook"}, "Give the URL"),
        ({"kind": "pager", "url": "https://a.example/"}, "must be one of"),
        ({"kind": "webhook", "url": "http://127.0.0.1:8080/"}, "alerts.destination.hosts"),
        ({"kind": "webhook", "url": "http://169.254.169.254/"}, "alerts.destination.hosts"),
        ({"kind": "webhook", "url": "file:///etc/passwd"}, "must begin with https"),
        ({"kind": "webhook", "url": "https://a.example/", "headers": {"Host": "b"}}, "set by the broker"),
        ({"kind": "webhook", "url": "https://a.example/", "headers": ["a"]}, "must be an object"),
        ({"kind": "webhook", "url": "https://a.example/", "headers": {"A": 1}}, "must be a string"),
        ({"kind": "webhook", "url": 5}, "must be a string"),
    ],
)
async def test_an_invalid_destination_is_refused(
    http: Browserless, broker: FakeBroker, body: Any, words: str
) -> None:
    answer = await put(http, HOOK, body)
    assert answer.status_code == 400 and words in (await answer.get_json())["detail"]
    assert broker.metadata.image.alert_destinations == {}


async def test_a_destination_in_use_stays(http: Browserless, broker: FakeBroker) -> None:
    await put(http, HOOK, TARGET)
    await put(http, body=LAG | {"destinations": ["hook"]})
    answer = await http.ask("DELETE", HOOK)
    problem = await answer.get_json()
    assert (answer.status_code, problem["detail"]) == (409, "The destination is in use, by reports.")
    await http.ask("DELETE", RULE_PATH)
    assert (await http.ask("DELETE", HOOK)).status_code == 204


async def test_a_destination_is_tested(http: Browserless, broker: FakeBroker) -> None:
    await put(http, HOOK, TARGET)
    for token in ("viewer-token", "editor-token"):
        assert (await http.ask("POST", f"{HOOK}:test", token=token)).status_code == 403
    assert (await http.ask("POST", "/api/v1/alert-destinations/none:test")).status_code == 404
    assert broker.alerts.tested == []
    broker.alerts.answer = Attempt(False, 0, "ConnectionRefusedError: refused")
    answer = await http.ask("POST", f"{HOOK}:test")
    assert TESTED.check(await answer.get_json()) == {
        "delivered": False,
        "status": 0,
        "reason": "ConnectionRefusedError: refused",
    }
    assert broker.alerts.tested == ["hook"]


async def test_what_fires_and_what_happened_is_listed(http: Browserless, broker: FakeBroker) -> None:
    labels = (("group", "orders"),)
    broker.alerts.rows = [AlertRow("r", "critical", "lag", labels, "firing", 7.0, 5.0, 1_000, 2_000)]
    broker.alerts.events = [
        AlertEvent(1, 2_000, "firing", "r", "critical", labels, 7.0),
        AlertEvent(2, 3_000, "undelivered", destination="hook", text="1 notification: 404"),
    ]
    broker.add_destination("hook")
    broker.alerts.sent["hook"] = Delivery(1, 2, 3, 4, "404", 5_000)
    (alert,) = ALERTS.check(await (await http.get("/api/v1/alerts", token="viewer-token")).get_json())[
        "items"
    ]
    assert (alert["state"], alert["labels"]) == ("firing", [{"name": "group", "value": "orders"}])
    assert alert["fired_at"] == "1970-01-01T00:00:02.000Z"
    history = HISTORY.check(await (await http.get("/api/v1/alerts:history")).get_json())["items"]
    assert [(each["number"], each["event"]) for each in history] == [(2, "undelivered"), (1, "firing")]
    listed = DESTINATIONS.check(await (await http.get("/api/v1/alert-destinations")).get_json())["items"]
    figures = [listed[0][each] for each in ("waiting", "sent", "undelivered", "dropped", "problem")]
    assert figures == [1, 2, 3, 4, "404"]


SILENCE_PATH = "/api/v1/alert-silences/works"


async def test_a_silence_has_an_end(http: Browserless, broker: FakeBroker) -> None:
    body = {"lasts_ms": 3_600_000, "rule": "reports", "match": "ord*"}
    made = await http.ask("PUT", SILENCE_PATH, body=body, token="editor-token")
    row = SILENCE.check(await made.get_json())
    assert (made.status_code, made.headers["Location"]) == (201, SILENCE_PATH)
    assert (row["rule"], row["match"], row["ends_in_ms"], row["alerts"]) == ("reports", "ord*", 3_600_000, 0)
    broker.alerts.silences["works"] = 3
    broker.now_ms += 3_599_999
    (listed,) = SILENCES.check(await (await http.get("/api/v1/alert-silences")).get_json())["items"]
    assert (listed["ends_in_ms"], listed["alerts"]) == (1, 3)
    assert (await http.get(SILENCE_PATH)).headers["ETag"] == made.headers["ETag"]
    broker.now_ms += 1
    assert (await (await http.get("/api/v1/alert-silences")).get_json())["items"] == []
    assert (await http.get(SILENCE_PATH)).status_code == 404


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "lasts_ms"),
        ({"lasts_ms": SHORTEST_SILENCE_MS - 1}, "at least 1000"),
        ({"lasts_ms": SHORTEST_SILENCE_MS}, ""),
        ({"lasts_ms": LONGEST_SILENCE_MS}, ""),
        ({"lasts_ms": LONGEST_SILENCE_MS + 1}, "at most 2592000000"),
        ({"lasts_ms": 60_000, "match": "?" * 256}, "too many wildcards"),
        ({"lasts_ms": 60_000, "until": 5}, "until"),
    ],
)
async def test_a_silence_is_checked(http: Browserless, broker: FakeBroker, body: Any, words: str) -> None:
    answer = await http.ask("PUT", SILENCE_PATH, body=body)
    text = (await answer.get_data()).decode()
    assert answer.status_code == (400 if words else 201) and words in text
    assert len(broker.metadata.image.alert_silences) == (0 if words else 1)


async def test_a_silence_ends_earlier(http: Browserless, broker: FakeBroker) -> None:
    made = await http.ask("PUT", SILENCE_PATH, body={"lasts_ms": 60_000})
    assert (await http.ask("DELETE", SILENCE_PATH, token="viewer-token")).status_code == 403
    assert (await http.ask("DELETE", SILENCE_PATH, If_Match='"99"')).status_code == 412
    gone = await http.ask("DELETE", SILENCE_PATH, If_Match=made.headers["ETag"], token="editor-token")
    assert gone.status_code == 204 and broker.metadata.image.alert_silences == {}


KEY = "R0123456789abcdefghijklmnopqrstu"
MAIL = {
    "kind": "email",
    "url": "smtp://mail.example.com",
    "username": "weir",
    "secret": "mailsecret",
    "sender": "weir@example.com",
    "recipients": ["ops@example.com", "b@example.com"],
}


async def test_a_mail_destination_shows_all_but_its_password(http: Browserless, broker: FakeBroker) -> None:
    made = await put(http, HOOK, MAIL)
    row = DESTINATION.check(await made.get_json())
    assert (made.status_code, row["kind"], row["url"]) == (201, "email", "smtp://mail.example.com:587")
    assert (row["username"], row["sender"], row["recipients"]) == (
        "weir",
        "weir@example.com",
        ["ops@example.com", "b@example.com"],
    )
    assert row["has_secret"] is True
    assert (await put(http, HOOK, {"kind": "email", "recipients": ["c@example.com"]})).status_code == 200
    known = broker.metadata.image.alert_destinations["hook"].destination
    assert known is not None
    assert (known.secret, known.recipients) == ("mailsecret", ("c@example.com",))


async def test_secrets_of_new_kinds_are_in_no_response_and_in_no_log(
    http: Browserless, broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    slack = {"kind": "slack", "url": "https://hooks.slack.com/services/T/B/slacksecret"}
    answers = []
    for body in (MAIL, {"kind": "pagerduty", "secret": KEY}, slack):
        name = f"/api/v1/alert-destinations/{body['kind']}"
        answers += [
            await put(http, name, body),
            await http.get(name),
            await http.get("/api/v1/alert-destinations"),
            await put(http, name, {**body, "secret": f"{KEY}mailsecret\n"}),
            await put(http, name, {**body, "headers": {"A": "slacksecret\n"}}),
            await http.ask("POST", f"{name}:test"),
        ]
    assert [answer.status_code for answer in answers] == [201, 200, 200, 400, 400, 200] * 3
    texts = [caplog.text, *[(await answer.get_data()).decode() for answer in answers]]
    for secret in (KEY, "mailsecret", "slacksecret"):
        assert not [text for text in texts if secret in text]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"kind": "pagerduty"}, "Invalid integration key"),
        ({"kind": "pagerduty", "secret": 5}, "must be a string"),
        ({"kind": "email", "url": "smtp://mail.example.com"}, "Give 1 to 20 recipients"),
        (MAIL | {"recipients": "ops@example.com"}, "must be an array"),
        (MAIL | {"recipients": ["ops"]}, "Invalid address of the recipient"),
        (MAIL | {"url": "http://mail.example.com"}, "must begin with smtp://"),
    ],
)
async def test_an_invalid_destination_of_a_new_kind_is_refused(
    http: Browserless, broker: FakeBroker, body: Any, words: str
) -> None:
    answer = await put(http, HOOK, body)
    assert answer.status_code == 400 and words in (await answer.get_json())["detail"]
    assert broker.metadata.image.alert_destinations == {}
