"""Alert rules and destinations: who may change them, what is valid, and what stays secret."""

import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.controller.alerts import (
    LONGEST_MATCH,
    LONGEST_WAIT_MS,
    MAX_DESTINATIONS,
    MAX_HEADERS,
    MAX_RULES,
    AlertCondition,
    AlertRule,
    DestinationKind,
    RemoveAlertDestination,
    RemoveAlertRule,
    SetAlertDestination,
    SetAlertRule,
    Severity,
    plan_remove_destination,
    plan_remove_rule,
    plan_set_destination,
    plan_set_rule,
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
