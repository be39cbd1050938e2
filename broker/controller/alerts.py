"""Plans changes of alert rules, of silences and of the destinations of notifications.

Rules and silences: role editor. Destinations: role admin, since the broker sends requests to them and stores
their secrets; nobody can read a destination's path, query, headers or secret again. Evaluated and sent by
broker.monitoring.alerts.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from broker.common.errors import ErrorCode
from broker.common.patterns import glob
from broker.controller.commands import Command, EntryOutcome
from broker.controller.plan import Plan, Situation
from broker.metadata.actor import Role
from broker.metadata.alerts import (
    DESTINATION,
    EITHER_WAY,
    IDLE,
    PERCENTAGES,
    RULE,
    SILENCE,
    AlertCondition,
    AlertDestination,
    AlertRule,
    AlertSilence,
    DestinationEntry,
    DestinationKind,
    RuleEntry,
    Severity,
    SilenceEntry,
    written,
)
from broker.metadata.changes import Change, ChangeKind
from broker.security.egress import HTTP, PORTS, SMTP, Egress, Endpoint, read_url

__all__ = [
    "AlertCondition",
    "AlertDestination",
    "AlertRule",
    "AlertSilence",
    "DestinationKind",
    "RemoveAlertDestination",
    "RemoveAlertRule",
    "RemoveAlertSilence",
    "SetAlertDestination",
    "SetAlertRule",
    "SetAlertSilence",
    "Severity",
]

MAX_RULES: Final = 200
MAX_DESTINATIONS: Final = 50
MAX_SILENCES: Final = 100
SHORTEST_SILENCE_MS: Final = 1_000
LONGEST_SILENCE_MS: Final = 30 * 86_400_000
LATEST_MS: Final = 2**53
LONGEST_NAME: Final = 64
LONGEST_MATCH: Final = 256
LONGEST_WAIT_MS: Final = 7 * 86_400_000
SHORTEST_REPEAT_MS: Final = 60_000
MAX_TARGETS: Final = 10
MAX_HEADERS: Final = 20
LONGEST_HEADER: Final = 4_096
LONGEST_SECRET: Final = 1_024
LONGEST_USERNAME: Final = 256
LONGEST_ADDRESS: Final = 254
MAX_RECIPIENTS: Final = 20
PAGERDUTY_URL: Final = "https://events.pagerduty.com/v2/enqueue"
BEYOND: Final = 2.0**63

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")
_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
)
_PAGERDUTY_KEY: Final = re.compile(r"[0-9A-Za-z]{32}")
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
    """Create or replace a destination. Returns EntryOutcome. What is None stays as it is, and what the kind
    does not have is dropped. A URL of another origin needs the headers and the secret again, so that no
    secret goes to another host.
    """

    name: str
    kind: DestinationKind
    url: str | None
    headers: Mapping[str, str] | None = None
    expected_version: int | None = None
    validate_only: bool = False
    secret: str | None = None
    username: str | None = None
    sender: str | None = None
    recipients: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"SetAlertDestination(name={self.name!r}, kind={self.kind.value!r}, ...)"


class RemoveAlertDestination(msgspec.Struct, Command["EntryOutcome"], frozen=True):
    """Returns EntryOutcome: POLICY_VIOLATION while a rule names the destination."""

    name: str
    expected_version: int | None = None


class SetAlertSilence(msgspec.Struct, Command["EntryOutcome"], frozen=True):
    """Create or replace a silence. Returns EntryOutcome. Silences that ended before `now_ms`, which is
    wall-clock, are removed.
    """

    name: str
    silence: AlertSilence
    expected_version: int | None = None
    validate_only: bool = False
    now_ms: int = 0


class RemoveAlertSilence(msgspec.Struct, Command["EntryOutcome"], frozen=True):
    name: str
    expected_version: int | None = None
    validate_only: bool = False


def plan_set_rule(command: SetAlertRule, at: Situation) -> Plan[EntryOutcome]:
    known = at.image.alert_rules.get(command.name)
    refusal = _refusal(at, Role.EDITOR, "rule", known, command.expected_version)
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
    known = at.image.alert_rules.get(command.name)
    refusal = _refusal(at, Role.EDITOR, "rule", known, command.expected_version, removed=command.name)
    if refusal is not None:
        return Plan(refusal)
    if command.validate_only:
        return Plan(EntryOutcome())
    return Plan(EntryOutcome(), (Change(ChangeKind.ALERT_RULE, command.name, RULE, None),))


def plan_set_destination(command: SetAlertDestination, at: Situation) -> Plan[EntryOutcome]:
    entry = at.image.alert_destinations.get(command.name)
    refusal = _refusal(at, Role.ADMIN, "destination", entry, command.expected_version)
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
    known = at.image.alert_destinations.get(command.name)
    refusal = _refusal(at, Role.ADMIN, "destination", known, command.expected_version, removed=command.name)
    if refusal is not None:
        return Plan(refusal)
    users = [name for name, each in at.image.alert_rules.items() if command.name in each.rule.destinations]
    if users:
        named = ", ".join(sorted(users)[:3]) + (" and others" if len(users) > 3 else "")
        return Plan(EntryOutcome(ErrorCode.POLICY_VIOLATION, f"The destination is in use, by {named}"))
    return Plan(EntryOutcome(), (Change(ChangeKind.ALERT_DESTINATION, command.name, DESTINATION, None),))


def plan_set_silence(command: SetAlertSilence, at: Situation) -> Plan[EntryOutcome]:
    known = at.image.alert_silences.get(command.name)
    refusal = _refusal(at, Role.EDITOR, "silence", known, command.expected_version)
    if refusal is not None:
        return Plan(refusal)
    wanted = command.silence
    ended = [
        name
        for name, each in at.image.alert_silences.items()
        if each.silence.ends_at_ms <= command.now_ms and name != command.name
    ]
    problem = _name_problem(command.name) or _match_problem(wanted.match)
    if not 0 < wanted.ends_at_ms < LATEST_MS:
        problem = problem or "Invalid end of the silence"
    if wanted.rule and _name_problem(wanted.rule):
        problem = problem or "Invalid name of a rule"
    if known is None and len(at.image.alert_silences) - len(ended) >= MAX_SILENCES:
        problem = problem or f"There are {MAX_SILENCES} silences, which is the maximum"
    if problem:
        return Plan(EntryOutcome(ErrorCode.INVALID_REQUEST, problem))
    if command.validate_only or (known is not None and known.silence == wanted):
        return Plan(EntryOutcome())
    kind = ChangeKind.ALERT_SILENCE
    changes = (Change(kind, command.name, SILENCE, written(wanted)),)
    return Plan(EntryOutcome(), (*changes, *(Change(kind, name, SILENCE, None) for name in ended)))


def plan_remove_silence(command: RemoveAlertSilence, at: Situation) -> Plan[EntryOutcome]:
    known = at.image.alert_silences.get(command.name)
    refusal = _refusal(at, Role.EDITOR, "silence", known, command.expected_version, removed=command.name)
    if refusal is not None:
        return Plan(refusal)
    if command.validate_only:
        return Plan(EntryOutcome())
    return Plan(EntryOutcome(), (Change(ChangeKind.ALERT_SILENCE, command.name, SILENCE, None),))


def _refusal(
    at: Situation,
    role: Role,
    noun: str,
    known: RuleEntry | DestinationEntry | SilenceEntry | None,
    expected: int | None,
    *,
    removed: str = "",
) -> EntryOutcome | None:
    """Return why what is `known` cannot be set, or removed as `removed`: the role, that it is not there, or
    another version than the expected one.
    """
    refusal = at.refusal(role, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if refusal is not None:
        return refusal
    if known is None and removed:
        return EntryOutcome(ErrorCode.RESOURCE_NOT_FOUND, f"There is no {noun} named {removed}")
    version = 0 if known is None else known.version
    if expected in (None, version):
        return None
    message = f"The {noun} is at version {version}, not at {expected}"
    return EntryOutcome(ErrorCode.INVALID_UPDATE_VERSION, message)


def _name_problem(name: str) -> str:
    if 0 < len(name) <= LONGEST_NAME and name.isprintable() and name.strip() == name:
        return ""
    return f"Invalid name: expected 1 to {LONGEST_NAME} printable characters"


def _rule_problem(rule: AlertRule, at: Situation) -> str:
    """Return what is wrong with a rule, "" if nothing is."""
    if not (math.isfinite(rule.threshold) and 0 <= rule.threshold < BEYOND):
        return "The threshold must be a number from 0"
    problem = _side_problem(rule)
    if problem:
        return problem
    for wait_ms in (rule.for_ms, rule.resolve_after_ms):
        if not 0 <= wait_ms <= LONGEST_WAIT_MS:
            return f"A duration must be from 0 to {LONGEST_WAIT_MS} ms"
    if rule.repeat_ms and not SHORTEST_REPEAT_MS <= rule.repeat_ms <= LONGEST_WAIT_MS:
        return f"Notifications are repeated after {SHORTEST_REPEAT_MS} to {LONGEST_WAIT_MS} ms; 0: never"
    problem = _match_problem(rule.match)
    if problem:
        return problem
    if len(rule.destinations) > MAX_TARGETS or len(set(rule.destinations)) != len(rule.destinations):
        return f"A rule has at most {MAX_TARGETS} destinations, each once"
    for name in rule.destinations:
        if name not in at.image.alert_destinations:
            return f"There is no destination named {name}"
    return ""


def _match_problem(match: str) -> str:
    if len(match) > LONGEST_MATCH:
        return f"The pattern is longer than {LONGEST_MATCH} characters"
    try:
        glob(match)
    except ValueError as error:
        return f"The pattern cannot be used: {error}"
    return ""


def _side_problem(rule: AlertRule) -> str:
    """Return what is wrong with the threshold, with `clear` or with the side on which the rule fires."""
    most = BEYOND
    if rule.condition in PERCENTAGES:
        most = 100.0
        if rule.threshold > most:
            return "The threshold is a percentage, so it must be at most 100"
    if rule.below is not None and rule.below != (rule.condition in IDLE) and rule.condition not in EITHER_WAY:
        side = "above" if rule.below else "below"
        return f"A rule for {rule.condition.value} fires {side} its threshold only"
    if rule.fires_below:
        if rule.threshold == 0:
            return "No value is below 0: the threshold must be more"
        if rule.clear is not None and not rule.threshold <= rule.clear <= most:
            return "The value at which the alert is resolved must be the threshold or more" + (
                ", up to 100" if rule.condition in PERCENTAGES else ""
            )
    elif rule.clear is not None and not 0 <= rule.clear <= rule.threshold:
        return "The value at which the alert is resolved must be from 0 to the threshold"
    return ""


def _destination(
    command: SetAlertDestination, known: AlertDestination | None, egress: Egress
) -> AlertDestination:
    """Return the destination with what is kept of the known one. Raises ValueError with the reason."""
    kind = command.kind
    is_mail, has_headers = kind is DestinationKind.EMAIL, kind in _WITH_HEADERS
    url = command.url if command.url is not None else None if known is None else known.url
    if kind is DestinationKind.PAGERDUTY and (not url or (known is not None and known.kind is not kind)):
        url = command.url or PAGERDUTY_URL
    if url is None:
        raise ValueError(f"Give the URL of the {'mail server' if is_mail else 'destination'}")
    try:
        endpoint = egress.check(url, SMTP if is_mail else HTTP)
    except ValueError as error:
        raise ValueError(f"Invalid URL: {error}") from None
    is_moved = known is not None and _origin(known.url) != endpoint.origin
    headers = command.headers if has_headers else {}
    if headers is None:
        headers = {} if known is None else known.headers
        if headers and is_moved:
            raise ValueError("Give the headers again: the URL leads to another host")
    if command.headers and not has_headers:
        raise ValueError(f"A destination of the kind {kind.value} has no headers")
    _check_headers(headers)
    secret = command.secret
    if secret is None and known is not None and known.kind is kind:
        secret = known.secret
        if secret and is_moved:
            raise ValueError(f"Give the {_SECRETS[kind]} again: the URL leads to another host")
    secret = secret or ""
    if kind not in _SECRETS:
        if secret:
            raise ValueError(f"A destination of the kind {kind.value} has no secret of its own")
        return AlertDestination(kind, url, dict(headers))
    if kind is DestinationKind.PAGERDUTY:
        if not _PAGERDUTY_KEY.fullmatch(secret):
            raise ValueError("Invalid integration key: PagerDuty's have 32 letters and digits")
        return AlertDestination(kind, url, dict(headers), secret)
    kept = known if known is not None and known.kind is kind else AlertDestination(kind, url)
    username = kept.username if command.username is None else command.username
    sender = kept.sender if command.sender is None else command.sender
    recipients = kept.recipients if command.recipients is None else command.recipients
    _check_mail(username, secret, sender, recipients)
    if username and endpoint.scheme == "smtp+plain":
        raise ValueError(
            "A user needs smtp:// or smtps://: smtp+plain:// would send the password unencrypted"
        )
    return AlertDestination(kind, url, dict(headers), secret, username, sender, tuple(recipients))


_WITH_HEADERS: Final = (DestinationKind.WEBHOOK, DestinationKind.ALERTMANAGER)
_SECRETS: Final = {DestinationKind.PAGERDUTY: "integration key", DestinationKind.EMAIL: "password"}


def _check_mail(username: str, password: str, sender: str, recipients: Sequence[str]) -> None:
    """Raises ValueError; its message contains no password."""
    if len(username) > LONGEST_USERNAME or not username.isprintable() or not username.isascii():
        raise ValueError(f"Invalid user: expected at most {LONGEST_USERNAME} printable ASCII characters")
    if len(password) > LONGEST_SECRET or not password.isprintable() or not password.isascii():
        raise ValueError(f"Invalid password: expected at most {LONGEST_SECRET} printable ASCII characters")
    if bool(username) != bool(password):
        raise ValueError("Give the password of the user" if username else "Give the user of the password")
    if not 0 < len(recipients) <= MAX_RECIPIENTS:
        raise ValueError(f"Give 1 to {MAX_RECIPIENTS} recipients")
    if len(set(recipients)) != len(recipients):
        raise ValueError("A recipient is given twice")
    for noun, address in (("sender", sender), *(("recipient", each) for each in recipients)):
        if not address:
            raise ValueError(f"Give the address of the {noun}")
        if len(address) > LONGEST_ADDRESS or not _ADDRESS.fullmatch(address) or ".." in address:
            raise ValueError(f"Invalid address of the {noun}: expected one such as ops@example.com")


def _origin(url: str) -> str:
    try:
        return read_url(url, (*HTTP, *SMTP)).origin
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
        endpoint: Endpoint = read_url(url, (*HTTP, *SMTP))
    except ValueError:
        return "…"
    if endpoint.scheme in SMTP:
        usual = endpoint.port == PORTS[endpoint.scheme]
        return f"{endpoint.origin}:{endpoint.port}" if usual else endpoint.origin
    return endpoint.origin + ("/" if endpoint.target == "/" else "/…")
