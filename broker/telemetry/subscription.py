"""A subscription: a parsed config resource of type CLIENT_METRICS. (Kafka: ClientMetricsConfigs)

Made by broker.controller to check a change, and by `manager` to apply it, which sums up all subscriptions
that match a client in an `Effective`. Independent of instances and requests. Ranges and error texts are
Kafka's. Two patterns for one match key must both match (Kafka drops the first).

A pattern comes from an operator and its text from any client, so a backtracking engine (Java's and Python's
are) would allow either to block the broker: see broker.common.patterns.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import msgspec
from crc32c import crc32c

from broker.common.errors import ApiError, ConfigError, ErrorCode
from broker.common.patterns import Pattern
from broker.common.slices import Steps, sorted_in_steps
from broker.config.kinds import INT_MAX, integer, list_of
from broker.config.setting import Setting

ALL_METRICS: Final = "*"

DEFAULT_INTERVAL_MS: Final = 300_000
MIN_INTERVAL_MS: Final = 100
MAX_INTERVAL_MS: Final = 3_600_000

MATCH_KEYS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""The attributes of a client that patterns can match."""


MAX_PREFIXES: Final = 10_000
MAX_CHARACTERS: Final = 262_144
"""Maximum prefixes that a client is sent, and their characters; ours. Java's clients have about 250 metrics,
and compare each with every prefix. Kafka has no maximum.
"""

MAX_READ: Final = 2 * MAX_PREFIXES
MAX_READ_CHARACTERS: Final = 2 * MAX_CHARACTERS
"""Maximum prefixes of all subscriptions that match a client, with those that others cover or repeat, and
their characters; ours. A million prefixes would take a second of processor time for each client.
"""


MAX_PATTERNS: Final = 32
"""Patterns of a subscription; ours. Each takes up to half a megabyte."""

_LIST = list_of(str, "a list without empty items")

SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        setting.key: setting
        for setting in (
            Setting(
                "interval.ms",
                DEFAULT_INTERVAL_MS,
                # The bounds have an error code of their own, see `read_subscription`.
                integer(-INT_MAX - 1),
                "ms",
                doc="Interval at which a matching client pushes its metrics.",
            ),
            Setting(
                "match",
                (),
                _LIST,
                doc="Clients to match: a list of key=regular expression, all of which must match in full. "
                "Keys: " + ", ".join(MATCH_KEYS) + ". An empty list matches every client.",
            ),
            Setting(
                "metrics",
                (),
                _LIST,
                doc="Prefixes of the names of the metrics to push; * selects all metrics, an empty list "
                "none. A prefix that begins with another adds nothing and is left out. If all subscriptions "
                f"that match a client then have more than {MAX_PREFIXES:,} prefixes or {MAX_CHARACTERS:,} "
                f"characters, or had more than {MAX_READ:,} or {MAX_READ_CHARACTERS:,} before, they select "
                "all.",
            ),
        )
    }
)
"""By key, in the order of the keys."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription. `match` is (key, pattern) pairs that must all match; without pairs it matches every
    client.
    """

    name: str
    metrics: frozenset[str] = frozenset()
    interval_ms: int = DEFAULT_INTERVAL_MS
    match: tuple[tuple[str, Pattern], ...] = field(default=(), compare=False)

    def matches(self, facts: Mapping[str, str | None]) -> bool:
        """Return whether all patterns match `facts`, which are by match key; a missing fact or None does
        not match.
        """
        return all(
            (fact := facts.get(key)) is not None and pattern.fullmatch(fact) for key, pattern in self.match
        )


def read_subscription(name: str, configs: Mapping[str, str]) -> Steps[Subscription]:
    """Parse a subscription, in steps of one setting or pattern each.

    Raises ApiError: INVALID_REQUEST for an empty name, an unknown key or an interval out of range,
    INVALID_CONFIG for an invalid number or pattern, or too many patterns.
    """
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in configs:
        subscription_setting(key)
    values = {key: setting.default for key, setting in SETTINGS.items()}
    try:
        for key, text in configs.items():
            values[key] = SETTINGS[key].read(text)
            yield
    except ConfigError as error:
        message = f"Invalid value {error.value} for configuration {error.key}: must be {error.allowed}"
        raise ApiError(ErrorCode.INVALID_CONFIG, message) from error
    interval_ms = values["interval.ms"]
    if not MIN_INTERVAL_MS <= interval_ms <= MAX_INTERVAL_MS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for interval.ms, interval must be between {MIN_INTERVAL_MS} and "
            f"{MAX_INTERVAL_MS} (1 hour)",
        )
    if len(values["match"]) > MAX_PATTERNS:
        problem = f"A subscription can have at most {MAX_PATTERNS} client matching patterns"
        raise ApiError(ErrorCode.INVALID_CONFIG, problem)
    match = []
    for item in values["match"]:
        match.append(read_match(item))
        yield
    return Subscription(name, frozenset(values["metrics"]), interval_ms, tuple(match))


def subscription_setting(key: str) -> Setting:
    """Return the setting of a key. Raises ApiError INVALID_REQUEST for an unknown key."""
    setting = SETTINGS.get(key)
    if setting is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    return setting


def read_match(item: str) -> tuple[str, Pattern]:
    """Parse one `key=pattern`. Raises ApiError INVALID_CONFIG."""
    key, _, text = (part.strip() for part in item.partition("="))
    if not text or "=" in text or key not in MATCH_KEYS:
        raise _illegal(item, f"expected key=pattern, with a key of {', '.join(MATCH_KEYS)}")
    try:
        return key, Pattern(text)
    except ValueError as error:
        raise _illegal(item, str(error)) from error


def _illegal(item: str, why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {item} ({why})")


class Effective(msgspec.Struct, frozen=True):
    """The sum of all subscriptions that match a client: sorted metric prefixes and the interval.

    No prefix begins with another. (ALL_METRICS,) is all metrics, empty is none. `is_over_limit` says that
    too many prefixes became all metrics.
    """

    metrics: tuple[str, ...] = ()
    interval_ms: int = DEFAULT_INTERVAL_MS
    is_over_limit: bool = False

    def subscription_id(self, instance_id: bytes) -> int:
        """Return a signed 32-bit id. (Kafka: computeSubscriptionId, whose set has Java's order)

        It is the same for the same instance and subscription, on every broker and after every restart, and
        changes with the subscription.
        """
        text = f"[{', '.join(self.metrics)}]{self.interval_ms}"
        mixed = crc32c(text.encode()) ^ _java_hash(instance_id)
        return mixed - (mixed >> 31 << 32)


def matching(
    subscriptions: Iterable[Subscription], facts: Mapping[str, str | None]
) -> Steps[list[Subscription]]:
    """Return the subscriptions that match."""
    found = []
    for subscription in list(subscriptions):
        if subscription.matches(facts):
            found.append(subscription)
        yield
    return found


def effective_of(subscriptions: Iterable[Subscription]) -> Steps[Effective]:
    """Return all prefixes and the shortest interval of matching subscriptions; without any, the default one.
    In Kafka the default is the longest, so that a subscription's longer one is taken and has no effect.

    Leaves out prefixes that begin with another, since clients compare the beginnings of names (KIP-714). More
    than MAX_PREFIXES of the rest, or MAX_READ of all, or their characters, become ALL_METRICS.
    """
    prefixes: set[str] = set()
    read = characters = 0
    shortest_ms = MAX_INTERVAL_MS + 1
    selects_all = is_over_limit = False
    for subscription in subscriptions:
        shortest_ms = min(shortest_ms, subscription.interval_ms)
        metrics = subscription.metrics
        selects_all = selects_all or ALL_METRICS in metrics
        if not (selects_all or is_over_limit):
            prefixes |= metrics
            read += len(metrics)
            characters += sum(map(len, metrics))
            is_over_limit = read > MAX_READ or characters > MAX_READ_CHARACTERS
        yield
    interval_ms = shortest_ms if shortest_ms <= MAX_INTERVAL_MS else DEFAULT_INTERVAL_MS
    if selects_all:
        return Effective((ALL_METRICS,), interval_ms)
    shortest = () if is_over_limit else (yield from _uncovered(prefixes))
    if is_over_limit or len(shortest) > MAX_PREFIXES or sum(map(len, shortest)) > MAX_CHARACTERS:
        return Effective((ALL_METRICS,), interval_ms, is_over_limit=True)
    return Effective(shortest, interval_ms)


def _uncovered(prefixes: Collection[str]) -> Steps[tuple[str, ...]]:
    """Return the prefixes that do not begin with another, sorted. In this order, those that begin with one
    follow it. Stops when there are too many.
    """
    found: list[str] = []
    for prefix in (yield from sorted_in_steps(prefixes)):
        if not found or not prefix.startswith(found[-1]):
            found.append(prefix)
            if len(found) > MAX_PREFIXES:
                break
        yield
    return tuple(found)


def _java_hash(uuid: bytes) -> int:
    """Return Uuid.hashCode: the XOR of the four words."""
    words = (int.from_bytes(uuid[at : at + 4], "big") for at in range(0, 16, 4))
    value = 0
    for word in words:
        value ^= word
    return value
