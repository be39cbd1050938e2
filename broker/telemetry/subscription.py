"""A subscription: a parsed config resource of type CLIENT_METRICS. (Kafka: ClientMetricsConfigs)

Made by broker.control to check a change, and by `manager` to apply it. Independent of instances and
requests. Ranges and error texts are Kafka's. Differences: two patterns for one match key must both match
(Kafka drops the first), and a pattern is RE2's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from broker.config.kinds import INT_MAX, integer, list_of
from broker.config.setting import Setting
from broker.errors import ApiError, ConfigError, ErrorCode
from broker.telemetry.patterns import Pattern, compile_pattern

ALL_METRICS: Final = "*"

DEFAULT_INTERVAL_MS: Final = 300_000
LEAST_INTERVAL_MS: Final = 100
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
                "Interval at which a matching client pushes its metrics.",
                unit="ms",
            ),
            Setting(
                "match",
                (),
                _LIST,
                "Clients to match: a list of key=regular expression, all of which must match in full. Keys: "
                + ", ".join(MATCH_KEYS)
                + ". An empty list matches every client.",
            ),
            Setting(
                "metrics",
                (),
                _LIST,
                "Prefixes of the names of the metrics to push; * selects all metrics, an empty list none.",
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


def read_subscription(name: str, configs: Mapping[str, str]) -> Subscription:
    """Parse a subscription.

    Raises ApiError: INVALID_REQUEST for an empty name, an unknown key or an interval out of range,
    INVALID_CONFIG for an invalid number or pattern.
    """
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in configs:
        subscription_setting(key)
    values = {key: setting.default for key, setting in SETTINGS.items()}
    try:
        values |= {key: SETTINGS[key].read(text) for key, text in configs.items()}
    except ConfigError as error:
        words = f"Invalid value {error.value} for configuration {error.key}: must be {error.allowed}"
        raise ApiError(ErrorCode.INVALID_CONFIG, words) from error
    interval_ms = values["interval.ms"]
    if not LEAST_INTERVAL_MS <= interval_ms <= MAX_INTERVAL_MS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for interval.ms, interval must be between {LEAST_INTERVAL_MS} and "
            f"{MAX_INTERVAL_MS} (1 hour)",
        )
    return Subscription(
        name, frozenset(values["metrics"]), interval_ms, tuple(read_match(item) for item in values["match"])
    )


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
        return key, compile_pattern(text)
    except ValueError as error:
        raise _illegal(item, str(error)) from error


def _illegal(item: str, why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {item} ({why})")
