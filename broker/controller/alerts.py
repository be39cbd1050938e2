"""Plans changes of alert rules and of the destinations of notifications.

Rules: role editor. Destinations: role admin, since the broker sends requests to them and stores their
secrets; nobody can read a destination's path, query or headers again. Evaluated and sent by
broker.monitoring.alerts.
"""

import math
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from broker.common.errors import ErrorCode
from broker.common.patterns import glob
from broker.controller.commands import Command, EntryOutcome
from broker.controller.plan import Plan, Situation
from broker.metadata.actor import Role
from broker.metadata.alerts import (
    DESTINATION,
    RULE,
    AlertCondition,
    AlertDestination,
    AlertRule,
    DestinationKind,
    Severity,
    written,
)
from broker.metadata.changes import Change, ChangeKind
from broker.security.egress import Egress, HttpEndpoint, read_url

__all__ = [
    "AlertCondition",
    "AlertDestination",
    "AlertRule",
    "DestinationKind",
    "RemoveAlertDestination",
    "RemoveAlertRule",
    "SetAlertDestination",
    "SetAlertRule",
    "Severity",
]

MAX_RULES: Final = 200
MAX_DESTINATIONS: Final = 50
LONGEST_NAME: Final = 64
LONGEST_MATCH: Final = 256
LONGEST_WAIT_MS: Final = 7 * 86_400_000
MAX_TARGETS: Final = 10
MAX_HEADERS: Final = 20
LONGEST_HEADER: Final = 4_096
BEYOND: Final = 2.0**63

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")
_OUR_HEADERS: Final = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that frame the request."""


class SetAlertRule(msgspec.Struct, Command["EntryOutcome"], frozen=True):
    """Create or replace a rule. Returns EntryOutcome. `expected_version` as in `QuotaAlteration`."""

    name: str
    rule: AlertRule
    expected_version: int | None = None
    validate_only: bool = False


class RemoveAlertRule(msgspec.Struct, Command["EntryOutcome"], frozen=True):
    name: str
    expected_version: int | None = None
    validate_only: bool = False


class SetAlertDestination(msgspec.Struct, Command["EntryOutcome"], frozen=True):
    """Create or replace a destination. Returns EntryOutcome. `url` or `headers` None: as they are. A URL of
    another origin needs the headers again, so that no secret goes to another host.
    """

    name: str
    kind: DestinationKind
    url: str | None
    headers: Mapping[str, str] | None = None
    expected_version: int | None = None
    validate_only: bool = False

    def __repr__(self) -> str:
        return f"SetAlertDestination(name={self.name!r}, kind={self.kind.value!r}, ...)"


class RemoveAlertDestination(msgspec.Struct, Command["EntryOutcome"], frozen=True):
    """Returns EntryOutcome: POLICY_VIOLATION while a rule names the destination."""

    name: str
    expected_version: int | None = None


def plan_set_rule(command: SetAlertRule, at: Situation) -> Plan[EntryOutcome]:
    refusal = at.refusal(Role.EDITOR, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    known = at.image.alert_rules.get(command.name)
    refusal = refusal or _stale("rule", None if known is None else known.version, command.expected_version)
    if refusal is not None:
        return Plan(refusal)
    problem = _name_problem(command.name) or _rule_problem(command.rule, at)
    if known is None and len(at.image.alert_rules) >= MAX_RULES:
        problem = problem or f"There are {MAX_RULES} rules, which is the maximum"
    if problem:
        return Plan(EntryOutcome(ErrorCode.INVALID_REQUEST, problem))
    if command.validate_only or (known is not None and known.rule == command.rule):
        return Plan(EntryOutcome())
    return Plan(EntryOutcome(), (Change(ChangeKind.ALERT_RULE, command.name, RULE, written(command.rule)),))


def plan_remove_rule(command: RemoveAlertRule, at: Situation) -> Plan[EntryOutcome]:
    refusal = at.refusal(Role.EDITOR, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if refusal is not None:
        return Plan(refusal)
    known = at.image.alert_rules.get(command.name)
    if known is None:
        return Plan(
            EntryOutcome(ErrorCode.RESOURCE_NOT_FOUND, f"There is no alert rule named {command.name}")
        )
    stale = _stale("rule", known.version, command.expected_version)
    if stale is not None:
        return Plan(stale)
    if command.validate_only:
        return Plan(EntryOutcome())
    return Plan(EntryOutcome(), (Change(ChangeKind.ALERT_RULE, command.name, RULE, None),))


def plan_set_destination(command: SetAlertDestination, at: Situation) -> Plan[EntryOutcome]:
    refusal = at.refusal(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    entry = at.image.alert_destinations.get(command.name)
    version = None if entry is None else entry.version
    refusal = refusal or _stale("destination", version, command.expected_version)
    if refusal is not None:
        return Plan(refusal)
    known = None if entry is None else entry.destination
    problem = _name_problem(command.name)
    if entry is None and len(at.image.alert_destinations) >= MAX_DESTINATIONS:
        problem = problem or f"There are {MAX_DESTINATIONS} destinations, which is the maximum"
    wanted = None
    try:
        wanted = _destination(command, known, Egress(at.config.alerts.destination_hosts))
    except ValueError as error:
        problem = problem or str(error)
    if problem or wanted is None:
        return Plan(EntryOutcome(ErrorCode.INVALID_REQUEST, problem))
    if command.validate_only or wanted == known:
        return Plan(EntryOutcome())
    return Plan(
        EntryOutcome(), (Change(ChangeKind.ALERT_DESTINATION, command.name, DESTINATION, written(wanted)),)
    )


def plan_remove_destination(command: RemoveAlertDestination, at: Situation) -> Plan[EntryOutcome]:
    refusal = at.refusal(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if refusal is not None:
        return Plan(refusal)
    known = at.image.alert_destinations.get(command.name)
    if known is None:
        return Plan(
            EntryOutcome(ErrorCode.RESOURCE_NOT_FOUND, f"There is no destination named {command.name}")
        )
    stale = _stale("destination", known.version, command.expected_version)
    if stale is not None:
        return Plan(stale)
    users = [name for name, each in at.image.alert_rules.items() if command.name in each.rule.destinations]
    if users:
        named = ", ".join(sorted(users)[:3]) + (" and others" if len(users) > 3 else "")
        return Plan(EntryOutcome(ErrorCode.POLICY_VIOLATION, f"The destination is in use, by {named}"))
    return Plan(EntryOutcome(), (Change(ChangeKind.ALERT_DESTINATION, command.name, DESTINATION, None),))


def _stale(noun: str, version: int | None, expected: int | None) -> EntryOutcome | None:
    if expected in (None, version or 0):
        return None
    message = f"The {noun} is at version {version or 0}, not at {expected}"
    return EntryOutcome(ErrorCode.INVALID_UPDATE_VERSION, message)


def _name_problem(name: str) -> str:
    if 0 < len(name) <= LONGEST_NAME and name.isprintable() and name.strip() == name:
        return ""
    return f"Invalid name: expected 1 to {LONGEST_NAME} printable characters"


def _rule_problem(rule: AlertRule, at: Situation) -> str:
    """Return what is wrong with a rule, "" if nothing is."""
    if not (math.isfinite(rule.threshold) and 0 <= rule.threshold < BEYOND):
        return "The threshold must be a number from 0"
    if rule.condition is AlertCondition.DISK and rule.threshold > 100:
        return "The threshold is a percentage, so it must be at most 100"
    if rule.clear is not None and not 0 <= rule.clear <= rule.threshold:
        return "The value at which the alert is resolved must be from 0 to the threshold"
    for wait_ms in (rule.for_ms, rule.resolve_after_ms):
        if not 0 <= wait_ms <= LONGEST_WAIT_MS:
            return f"A duration must be from 0 to {LONGEST_WAIT_MS} ms"
    if len(rule.match) > LONGEST_MATCH:
        return f"The pattern is longer than {LONGEST_MATCH} characters"
    try:
        glob(rule.match)
    except ValueError as error:
        return f"The pattern cannot be used: {error}"
    if len(rule.destinations) > MAX_TARGETS or len(set(rule.destinations)) != len(rule.destinations):
        return f"A rule has at most {MAX_TARGETS} destinations, each once"
    for name in rule.destinations:
        if name not in at.image.alert_destinations:
            return f"There is no destination named {name}"
    return ""


def _destination(
    command: SetAlertDestination, known: AlertDestination | None, egress: Egress
) -> AlertDestination:
    """Return the destination with what is kept of the known one. Raises ValueError with the reason."""
    url = command.url
    if url is None:
        if known is None:
            raise ValueError("Give the URL of the destination")
        url = known.url
    try:
        endpoint = egress.check(url)
    except ValueError as error:
        raise ValueError(f"Invalid URL: {error}") from None
    headers = command.headers
    if headers is None:
        headers = {} if known is None else known.headers
        if known is not None and headers and _origin(known.url) != endpoint.origin:
            raise ValueError("Give the headers again: the URL leads to another host")
    _check_headers(headers)
    return AlertDestination(command.kind, url, dict(headers))


def _origin(url: str) -> str:
    try:
        return read_url(url).origin
    except ValueError:
        return ""


def _check_headers(headers: Mapping[str, str]) -> None:
    """Raises ValueError; its message contains no value."""
    if len(headers) > MAX_HEADERS:
        raise ValueError(f"There are more than {MAX_HEADERS} headers")
    lower = [name.lower() for name in headers]
    if len(set(lower)) != len(lower):
        raise ValueError("A header is given twice")
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError("Invalid name of a header")
        if name.lower() in _OUR_HEADERS:
            raise ValueError(f"The header {name} is set by the broker")
        if (
            len(value) > LONGEST_HEADER
            or not value.isascii()
            or not value.isprintable()
            or value != value.strip()
        ):
            raise ValueError(f"Invalid value of the header {name}: expected printable ASCII")


def shown_url(url: str) -> str:
    """Return the URL without what can be secret."""
    try:
        endpoint: HttpEndpoint = read_url(url)
    except ValueError:
        return "…"
    return endpoint.origin + ("/" if endpoint.target == "/" else "/…")
