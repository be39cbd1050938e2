"""Alert rules and destinations: who may change them, what is valid, and what stays secret."""

import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.controller.alerts import (
    LATEST_MS,
    LONGEST_MATCH,
    LONGEST_WAIT_MS,
    MAX_DESTINATIONS,
    MAX_HEADERS,
    MAX_RULES,
    MAX_SILENCES,
    SHORTEST_REPEAT_MS,
    AlertCondition,
    AlertDestination,
    AlertRule,
    AlertSilence,
    DestinationKind,
    RemoveAlertDestination,
    RemoveAlertRule,
    RemoveAlertSilence,
    SetAlertDestination,
    SetAlertRule,
    SetAlertSilence,
    Severity,
    plan_remove_destination,
    plan_remove_rule,
    plan_remove_silence,
    plan_set_destination,
    plan_set_rule,
    plan_set_silence,
    shown_url,
)
from broker.controller.commands import EntryOutcome
from broker.metadata.actor import Role
from broker.metadata.changes import AuditFilter, ChangeKind
from broker.metadata.store import MetadataStore
from tests.controller.world import World, actor

RULE = AlertRule(AlertCondition.LAG, 1_000.0)
URL = "https://hooks.example/services/T0/secret"
WEBHOOK = DestinationKind.WEBHOOK


def set_rule(
    world: World, name: str = "lag", rule: AlertRule = RULE, role: Role = Role.EDITOR, **more: Any
) -> EntryOutcome:
    return world.do(plan_set_rule, SetAlertRule(name, rule, **more), role)


def set_destination(
    world: World, name: str = "hook", url: str | None = URL, role: Role = Role.ADMIN, **more: Any
) -> EntryOutcome:
    return world.do(plan_set_destination, SetAlertDestination(name, WEBHOOK, url, **more), role)


def test_a_rule_is_set_replaced_and_removed(world: World) -> None:
    assert set_rule(world).ok
    entry = world.image.alert_rules["lag"]
    assert (entry.rule, entry.changed_by) == (RULE, "ann")
    other = replace(RULE, threshold=5.0, severity=Severity.CRITICAL, for_ms=1)
    assert set_rule(world, rule=other, expected_version=entry.version).ok
    assert world.image.alert_rules["lag"].rule == other
    assert world.do(plan_remove_rule, RemoveAlertRule("lag"), Role.EDITOR).ok
    assert world.image.alert_rules == {}
    assert world.do(plan_remove_rule, RemoveAlertRule("lag")).error is ErrorCode.RESOURCE_NOT_FOUND


def test_an_equal_rule_is_no_change(world: World) -> None:
    set_rule(world)
    version = world.image.version
    assert set_rule(world).ok and set_rule(world, "new", validate_only=True).ok
    assert world.image.version == version


def test_roles(world: World) -> None:
    for role, may in ((Role.VIEWER, False), (Role.EDITOR, True), (Role.ADMIN, True)):
        assert set_rule(world, role=role).ok is may
    for role, may in ((Role.VIEWER, False), (Role.EDITOR, False), (Role.ADMIN, True)):
        assert set_destination(world, role=role).ok is may
    for role in (Role.VIEWER, Role.EDITOR):
        removed = world.do(plan_remove_destination, RemoveAlertDestination("hook"), role)
        assert removed.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not world.do(plan_remove_rule, RemoveAlertRule("lag"), Role.VIEWER).ok


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"threshold": 0.0}, ""),
        ({"threshold": -0.001}, "a number from 0"),
        ({"threshold": math.nan}, "a number from 0"),
        ({"threshold": math.inf}, "a number from 0"),
        ({"threshold": 2.0**63}, "a number from 0"),
        ({"condition": AlertCondition.DISK, "threshold": 100.0}, ""),
        ({"condition": AlertCondition.DISK, "threshold": 100.1}, "at most 100"),
        ({"condition": AlertCondition.REQUEST_MEMORY, "threshold": 100.1}, "at most 100"),
        ({"condition": AlertCondition.NETWORK_IDLE, "threshold": 20.0}, ""),
        ({"condition": AlertCondition.NETWORK_IDLE, "threshold": 20.0, "below": True}, ""),
        ({"condition": AlertCondition.NETWORK_IDLE, "threshold": 100.1}, "at most 100"),
        ({"condition": AlertCondition.NETWORK_IDLE, "threshold": 0.0}, "No value is below 0"),
        (
            {"condition": AlertCondition.HANDLER_IDLE, "threshold": 20.0, "below": False},
            "below its threshold",
        ),
        ({"condition": AlertCondition.LAG, "below": True}, "lag fires above its threshold only"),
        ({"condition": AlertCondition.LAG, "below": False}, ""),
        ({"condition": AlertCondition.BYTES_IN, "below": True}, ""),
        ({"condition": AlertCondition.CONNECTIONS, "below": True, "clear": 1_000.0}, ""),
        ({"condition": AlertCondition.CONNECTIONS, "below": True, "clear": 999.0}, "the threshold or more"),
        ({"condition": AlertCondition.THREAD_IDLE, "threshold": 20.0, "clear": 100.0}, ""),
        ({"condition": AlertCondition.THREAD_IDLE, "threshold": 20.0, "clear": 100.1}, "or more, up to 100"),
        ({"condition": AlertCondition.THREAD_IDLE, "threshold": 20.0, "clear": 19.9}, "or more, up to 100"),
        ({"repeat_ms": SHORTEST_REPEAT_MS - 1}, "repeated after 60000 to"),
        ({"repeat_ms": SHORTEST_REPEAT_MS}, ""),
        ({"repeat_ms": LONGEST_WAIT_MS}, ""),
        ({"repeat_ms": LONGEST_WAIT_MS + 1}, "repeated after 60000 to"),
        ({"clear": 1_000.0}, ""),
        ({"clear": 1_000.1}, "from 0 to the threshold"),
        ({"clear": -1.0}, "from 0 to the threshold"),
        ({"for_ms": LONGEST_WAIT_MS}, ""),
        ({"for_ms": LONGEST_WAIT_MS + 1}, "A duration"),
        ({"resolve_after_ms": -1}, "A duration"),
        ({"match": "x" * LONGEST_MATCH}, ""),
        ({"match": "x" * (LONGEST_MATCH + 1)}, "longer than 256"),
        ({"match": "*" + "?" * 100}, ""),
        ({"match": "?" * LONGEST_MATCH}, "The pattern cannot be used: too many wildcards"),
        ({"destinations": ("nowhere",)}, "no destination named nowhere"),
        ({"destinations": ("hook", "hook")}, "each once"),
        ({"destinations": ("hook",)}, ""),
    ],
)
def test_a_rule_is_checked(world: World, changes: dict[str, Any], words: str) -> None:
    set_destination(world)
    outcome = set_rule(world, rule=replace(RULE, **changes))
    assert outcome.ok is not bool(words)
    assert words in (outcome.message or "")


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "a\u202eb", "x" * 65])
def test_names_are_short_and_printable(world: World, name: str) -> None:
    for outcome in (set_rule(world, name), set_destination(world, name)):
        assert outcome.error is ErrorCode.INVALID_REQUEST and "Invalid name" in (outcome.message or "")


@pytest.mark.parametrize(("over", "accepted"), [(-1, True), (0, False)])
def test_there_is_a_largest_number(world: World, over: int, accepted: bool) -> None:
    for number in range(MAX_RULES + over):
        assert set_rule(world, f"r{number}").ok
    for number in range(MAX_DESTINATIONS + over):
        assert set_destination(world, f"d{number}").ok
    assert set_rule(world, "one more").ok is accepted
    assert set_destination(world, "one more").ok is accepted
    assert set_rule(world, "r0", replace(RULE, threshold=1.0)).ok


def test_a_stale_edit_is_refused(world: World) -> None:
    set_rule(world)
    set_destination(world)
    for outcome in (
        set_rule(world, expected_version=0),
        world.do(plan_remove_rule, RemoveAlertRule("lag", 99)),
        set_destination(world, expected_version=0),
        world.do(plan_remove_destination, RemoveAlertDestination("hook", 99)),
    ):
        assert outcome.error is ErrorCode.INVALID_UPDATE_VERSION


def test_a_destination_in_use_stays(world: World) -> None:
    set_destination(world)
    set_rule(world, rule=replace(RULE, destinations=("hook",)))
    outcome = world.do(plan_remove_destination, RemoveAlertDestination("hook"))
    assert (outcome.error, outcome.message) == (
        ErrorCode.POLICY_VIOLATION,
        "The destination is in use, by lag",
    )
    world.do(plan_remove_rule, RemoveAlertRule("lag"))
    assert world.do(plan_remove_destination, RemoveAlertDestination("hook")).ok


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (None, "Give the URL"),
        ("http://hooks.example/", "Invalid URL: http needs hooks.example"),
        ("https://127.0.0.1/", "is not in alerts.destination.hosts"),
        ("https://169.254.169.254/latest/meta-data", "is not in alerts.destination.hosts"),
        ("ftp://hooks.example/", "must begin with"),
        ("https://u:p@hooks.example/", "must not contain a user"),
    ],
)
def test_a_url_that_is_not_allowed_is_refused(world: World, url: str | None, words: str) -> None:
    outcome = set_destination(world, url=url)
    assert outcome.error is ErrorCode.INVALID_REQUEST and words in (outcome.message or "")
    assert world.image.alert_destinations == {}


def test_the_allow_list_is_the_configurations() -> None:
    world = World("alerts.destination.hosts=alertmanager:9093")
    assert set_destination(world, url="http://alertmanager:9093").ok
    assert not set_destination(world, "other", url=URL).ok


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"Authorization": "Bearer x"}, ""),
        ({"X-A": "1", "x-a": "2"}, "given twice"),
        ({"": "x"}, "Invalid name"),
        ({"a b": "x"}, "Invalid name"),
        ({"a:b": "x"}, "Invalid name"),
        ({"Host": "other"}, "set by the broker"),
        ({"content-length": "0"}, "set by the broker"),
        ({"Transfer-Encoding": "chunked"}, "set by the broker"),
        ({"X": "a\r\nHost: other"}, "printable ASCII"),
        ({"X": "m\u00fcller"}, "printable ASCII"),
        ({"X": " x"}, "printable ASCII"),
        ({"X": "x" * 4_096}, ""),
        ({"X": "x" * 4_097}, "printable ASCII"),
        ({f"X-{number}": "x" for number in range(MAX_HEADERS)}, ""),
        ({f"X-{number}": "x" for number in range(MAX_HEADERS + 1)}, "more than 20"),
    ],
)
def test_headers_cannot_change_the_request(world: World, headers: dict[str, str], words: str) -> None:
    outcome = set_destination(world, headers=headers)
    assert outcome.ok is not bool(words)
    assert words in (outcome.message or "")


def test_what_is_omitted_stays_but_no_secret_goes_to_another_host(world: World) -> None:
    set_destination(world, headers={"Authorization": "s3cret"})
    assert set_destination(world, url=None).ok
    assert set_destination(world, url="https://hooks.example/other").ok
    known = world.image.alert_destinations["hook"].destination
    assert known is not None
    assert (known.url, known.headers) == ("https://hooks.example/other", {"Authorization": "s3cret"})
    for url in ("https://evil.example/", "https://hooks.example:444/"):
        outcome = set_destination(world, url=url)
        assert "Give the headers again" in (outcome.message or "")
    assert set_destination(world, url="https://other.example/", headers={}).ok


def test_secrets_are_in_no_repr_and_no_message(world: World) -> None:
    command = SetAlertDestination("hook", WEBHOOK, URL, {"Authorization": "s3cret", "Bad Name": "s3cret"})
    plan = world.plan(plan_set_destination, command)
    set_destination(world, headers={"Authorization": "s3cret"})
    for text in (repr(command), plan.result.message or "", repr(world.image.alert_destinations)):
        assert "s3cret" not in text and "/services/" not in text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (URL, "https://hooks.example/…"),
        ("http://alertmanager:9093/", "http://alertmanager:9093/"),
        ("http://alertmanager:9093", "http://alertmanager:9093/"),
        ("https://h/?token=x", "https://h/…"),
    ],
)
def test_a_url_is_shown_without_what_can_be_secret(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_a_destination_is_encrypted_in_the_metadata(tmp_path: Path, world: World) -> None:
    store = MetadataStore.open(tmp_path / "metadata.sqlite", 1)
    command = SetAlertDestination("hook", WEBHOOK, URL, {"Authorization": "s3cret"})
    store.commit(world.plan(plan_set_destination, command).changes, actor(), 2)
    known = store.image.alert_destinations["hook"].destination
    store.close()
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"s3cret" not in files and b"/services/" not in files
    again = MetadataStore.open(tmp_path / "metadata.sqlite", 3)
    assert again.image.alert_destinations["hook"].destination == known
    (row,) = again.history(AuditFilter(ChangeKind.ALERT_DESTINATION))
    assert row.new is not None and "s3cret" in row.new, "views redact it"
    again.close()


def set_silence(
    world: World, name: str = "works", silence: AlertSilence | None = None, **more: Any
) -> EntryOutcome:
    command = SetAlertSilence(name, silence or AlertSilence(5_000), **more)
    return world.do(plan_set_silence, command, Role.EDITOR)


def test_a_silence_is_set_replaced_and_removed(world: World) -> None:
    assert set_silence(world).ok
    entry = world.image.alert_silences["works"]
    assert (entry.silence, entry.changed_by) == (AlertSilence(5_000), "ann")
    other = AlertSilence(6_000, "lag", "reports*")
    assert set_silence(world, silence=other, expected_version=entry.version).ok
    assert world.image.alert_silences["works"].silence == other
    assert set_silence(world, expected_version=99).error is ErrorCode.INVALID_UPDATE_VERSION
    stale = world.do(plan_remove_silence, RemoveAlertSilence("works", 99))
    assert stale.error is ErrorCode.INVALID_UPDATE_VERSION
    assert world.do(plan_remove_silence, RemoveAlertSilence("works"), Role.EDITOR).ok
    assert world.do(plan_remove_silence, RemoveAlertSilence("works")).error is ErrorCode.RESOURCE_NOT_FOUND


@pytest.mark.parametrize(
    ("silence", "words"),
    [
        (AlertSilence(0), "Invalid end"),
        (AlertSilence(1), ""),
        (AlertSilence(LATEST_MS - 1), ""),
        (AlertSilence(LATEST_MS), "Invalid end"),
        (AlertSilence(1, "a\nb"), "Invalid name of a rule"),
        (AlertSilence(1, match="x" * (LONGEST_MATCH + 1)), "longer than 256"),
        (AlertSilence(1, match="?" * LONGEST_MATCH), "too many wildcards"),
    ],
)
def test_a_silence_is_checked(world: World, silence: AlertSilence, words: str) -> None:
    outcome = set_silence(world, silence=silence)
    assert outcome.ok is not bool(words) and words in (outcome.message or "")


def test_silences_that_ended_make_room(world: World) -> None:
    for number in range(MAX_SILENCES - 1):
        assert set_silence(world, f"s{number}", AlertSilence(1_000 + number)).ok
    assert set_silence(world, "last", AlertSilence(9_000), now_ms=1_000 - 1).ok
    assert len(world.image.alert_silences) == MAX_SILENCES
    full = set_silence(world, "one more", AlertSilence(9_000), now_ms=1_000 - 1)
    assert full.message == f"There are {MAX_SILENCES} silences, which is the maximum"
    # The first ends at 1,000 and the second at 1,001.
    assert set_silence(world, "one more", AlertSilence(9_000), now_ms=1_000).ok
    assert "s0" not in world.image.alert_silences and "s1" in world.image.alert_silences


KEY = "R0123456789abcdefghijklmnopqrstu"
EMAIL, PAGERDUTY = DestinationKind.EMAIL, DestinationKind.PAGERDUTY
MAIL: dict[str, Any] = {"sender": "weir@example.com", "recipients": ("ops@example.com",)}


def set_kind(world: World, kind: DestinationKind, url: str | None, **more: Any) -> EntryOutcome:
    return world.do(plan_set_destination, SetAlertDestination("d", kind, url, **more))


def stored(world: World) -> AlertDestination:
    known = world.image.alert_destinations["d"].destination
    assert known is not None
    return known


@pytest.mark.parametrize(
    ("kind", "url", "more", "words"),
    [
        ("slack", "https://hooks.slack.com/services/T/B/x", {}, ""),
        ("slack", None, {}, "Give the URL of the destination"),
        ("slack", "smtp://mail.example.com", {}, "must begin with https:// or http://"),
        ("slack", "https://hooks.slack.com/", {"headers": {"A": "b"}}, "slack has no headers"),
        ("slack", "https://hooks.slack.com/", {"secret": "x"}, "slack has no secret"),
        ("webhook", "https://a.example/", {"secret": "x"}, "webhook has no secret"),
        ("pagerduty", None, {"secret": KEY}, ""),
        ("pagerduty", "https://events.eu.pagerduty.com/v2/enqueue", {"secret": KEY}, ""),
        ("pagerduty", None, {}, "32 letters and digits"),
        ("pagerduty", None, {"secret": KEY[:-1]}, "32 letters and digits"),
        ("pagerduty", None, {"secret": KEY + "x"}, "32 letters and digits"),
        ("pagerduty", None, {"secret": KEY[:-1] + "-"}, "32 letters and digits"),
        ("email", "smtp://mail.example.com", MAIL, ""),
        ("email", "smtps://mail.example.com:465", MAIL | {"username": "u", "secret": "p"}, ""),
        ("email", None, MAIL, "Give the URL of the mail server"),
        ("email", "https://mail.example.com", MAIL, "smtp://, smtps:// or smtp+plain://"),
        ("email", "smtp://mail.example.com/x", MAIL, "a host and a port only"),
        ("email", "smtp://u:p@mail.example.com", MAIL, "use their fields"),
        ("email", "smtp+plain://mail.example.com", MAIL, "otherwise use smtp or smtps"),
        ("email", "smtp://127.0.0.1", MAIL, "is not in alerts.destination.hosts"),
        ("email", "smtp+plain://relay", MAIL, ""),
        ("email", "smtp+plain://relay", MAIL | {"username": "u", "secret": "p"}, "unencrypted"),
        ("email", "smtp://m.example.com", MAIL | {"username": "u"}, "Give the password"),
        ("email", "smtp://m.example.com", MAIL | {"secret": "p"}, "Give the user"),
        ("email", "smtp://m.example.com", MAIL | {"username": "u\n", "secret": "p"}, "Invalid user"),
        ("email", "smtp://m.example.com", MAIL | {"username": "u", "secret": "p\r\n"}, "Invalid password"),
        ("email", "smtp://m.example.com", MAIL | {"username": "u" * 257, "secret": "p"}, "Invalid user"),
        (
            "email",
            "smtp://m.example.com",
            MAIL | {"username": "u", "secret": "p" * 1_025},
            "Invalid password",
        ),
        ("email", "smtp://m.example.com", MAIL | {"username": "u" * 256, "secret": "p" * 1_024}, ""),
        ("email", "smtp://m.example.com", MAIL | {"sender": ""}, "Give the address of the sender"),
        (
            "email",
            "smtp://m.example.com",
            MAIL | {"sender": "a@b\r\nBcc: c@d"},
            "Invalid address of the sender",
        ),
        ("email", "smtp://m.example.com", MAIL | {"sender": "A <a@b>"}, "Invalid address of the sender"),
        ("email", "smtp://m.example.com", MAIL | {"recipients": ()}, "Give 1 to 20 recipients"),
        ("email", "smtp://m.example.com", MAIL | {"recipients": ("a@b", "a@b")}, "given twice"),
        ("email", "smtp://m.example.com", MAIL | {"recipients": ("a",)}, "Invalid address of the recipient"),
        (
            "email",
            "smtp://m.example.com",
            MAIL | {"recipients": tuple(f"a{each}@b" for each in range(20))},
            "",
        ),
        (
            "email",
            "smtp://m.example.com",
            MAIL | {"recipients": tuple(f"a{each}@b" for each in range(21))},
            "Give 1 to 20",
        ),
        ("email", "smtp://m.example.com", MAIL | {"sender": "a@" + "b" * 252}, ""),
        ("email", "smtp://m.example.com", MAIL | {"sender": "a@" + "b" * 253}, "Invalid address"),
    ],
)
def test_a_destination_of_each_kind_is_checked(
    kind: str, url: str | None, more: dict[str, Any], words: str
) -> None:
    world = World("alerts.destination.hosts=public,relay")
    outcome = set_kind(world, DestinationKind(kind), url, **more)
    assert outcome.ok is not bool(words), outcome.message
    assert words in (outcome.message or "")


def test_pagerduty_has_a_usual_url(world: World) -> None:
    assert set_kind(world, PAGERDUTY, None, secret=KEY).ok
    assert (stored(world).url, stored(world).secret) == ("https://events.pagerduty.com/v2/enqueue", KEY)


def test_a_secret_that_is_omitted_stays_and_goes_to_no_other_host(world: World) -> None:
    login = MAIL | {"username": "u", "secret": "s3cret"}
    assert set_kind(world, EMAIL, "smtp://mail.example.com", **login).ok
    assert set_kind(world, EMAIL, None, recipients=("other@example.com",)).ok
    known = stored(world)
    assert (known.secret, known.username, known.recipients) == ("s3cret", "u", ("other@example.com",))
    for url in ("smtp://evil.example.com", "smtps://mail.example.com", "smtp://mail.example.com:588"):
        outcome = set_kind(world, EMAIL, url)
        assert outcome.message == "Give the password again: the URL leads to another host"
    assert set_kind(world, EMAIL, "smtp://other.example.com", secret="again").ok
    assert set_kind(world, EMAIL, "smtp://third.example.com", secret="", username="").ok
    assert (stored(world).secret, stored(world).username) == ("", "")


def test_another_kind_drops_what_it_does_not_have(world: World) -> None:
    assert set_kind(world, PAGERDUTY, None, secret=KEY).ok
    assert "32 letters" not in (set_kind(world, EMAIL, "smtp://m.example.com", **MAIL).message or "")
    assert stored(world).secret == ""
    assert "32 letters" in (set_kind(world, PAGERDUTY, None).message or "")
    assert set_kind(world, PAGERDUTY, None, secret=KEY).ok
    assert (stored(world).sender, stored(world).recipients) == ("", ())
    assert stored(world).url == "https://events.pagerduty.com/v2/enqueue"


def test_no_secret_of_any_kind_is_in_a_repr_or_a_message(world: World) -> None:
    for command in (
        SetAlertDestination("d", PAGERDUTY, None, secret=KEY),
        SetAlertDestination("d", PAGERDUTY, None, secret=KEY + "!"),
        SetAlertDestination("d", EMAIL, "smtp://m.example.com", username="u", secret=KEY, **MAIL),
        SetAlertDestination("d", EMAIL, "smtp://m.example.com", username="u", secret=KEY + "\n", **MAIL),
        SetAlertDestination("d", EMAIL, "smtp://127.0.0.1", username="u", secret=KEY, **MAIL),
    ):
        outcome = world.do(plan_set_destination, command)
        for text in (repr(command), outcome.message or "", repr(world.image.alert_destinations)):
            assert KEY not in text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("smtp://mail.example.com", "smtp://mail.example.com:587"),
        ("smtps://mail.example.com", "smtps://mail.example.com:465"),
        ("smtp://mail.example.com:2525/", "smtp://mail.example.com:2525"),
        ("smtp://[2001:db8::1]", "smtp://[2001:db8::1]:587"),
    ],
)
def test_a_mail_server_is_shown_with_its_port(url: str, shown: str) -> None:
    assert shown_url(url) == shown
