"""Groups of the consumer protocol (KIP-848). For broker.groups.consumer."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from broker.config.kinds import INT_MAX, choices_of, integer, one_of
from broker.config.setting import Setting, setting, settings_of
from broker.errors import ConfigError

UNIFORM: Final = "uniform"
RANGE: Final = "range"

DISABLED, UPGRADE, DOWNGRADE, BIDIRECTIONAL = "disabled", "upgrade", "downgrade", "bidirectional"


@dataclass(frozen=True, slots=True)
class ConsumerGroupConfig:
    session_timeout_ms: int = setting(
        "group.consumer.session.timeout.ms",
        45_000,
        integer(1),
        "A member of a consumer group that sends no heartbeat for this time is removed. A group's own "
        "`consumer.session.timeout.ms` takes precedence.",
        unit="ms",
    )
    min_session_timeout_ms: int = setting(
        "group.consumer.min.session.timeout.ms",
        45_000,
        integer(1),
        "The shortest `consumer.session.timeout.ms` of a group.",
        unit="ms",
    )
    max_session_timeout_ms: int = setting(
        "group.consumer.max.session.timeout.ms",
        60_000,
        integer(1),
        "The longest `consumer.session.timeout.ms` of a group.",
        unit="ms",
    )
    heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms",
        5_000,
        integer(1),
        "The interval of the heartbeats, which the broker tells the members of a consumer group. A group's "
        "own `consumer.heartbeat.interval.ms` takes precedence.",
        unit="ms",
    )
    min_heartbeat_interval_ms: int = setting(
        "group.consumer.min.heartbeat.interval.ms",
        5_000,
        integer(1),
        "The shortest `consumer.heartbeat.interval.ms` of a group.",
        unit="ms",
    )
    max_heartbeat_interval_ms: int = setting(
        "group.consumer.max.heartbeat.interval.ms",
        15_000,
        integer(1),
        "The longest `consumer.heartbeat.interval.ms` of a group.",
        unit="ms",
    )
    max_size: int = setting(
        "group.consumer.max.size",
        1_000,
        integer(1),
        "Maximum number of members of one consumer group. A member that exceeds it is refused with "
        "GROUP_MAX_SIZE_REACHED.",
        kafka_default=str(INT_MAX),
        why="All clients wait while the partitions of a group are assigned.",
    )
    assignors: tuple[str, ...] = setting(
        "group.consumer.assignors",
        (UNIFORM, RANGE),
        choices_of(UNIFORM, RANGE),
        "The assignors that members of consumer groups can select; the first one is the default.",
    )
    migration_policy: str = setting(
        "group.consumer.migration.policy",
        BIDIRECTIONAL,
        one_of(DISABLED, UPGRADE, DOWNGRADE, BIDIRECTIONAL),
        "Whether a group with members changes its protocol: `upgrade` converts a classic group when a member "
        "of the consumer protocol joins, `downgrade` a consumer group when its last member of the consumer "
        "protocol leaves. An empty group changes its protocol with every policy.",
    )
    regex_refresh_interval_ms: int = setting(
        "group.consumer.regex.refresh.interval.ms",
        600_000,
        integer(10_000),
        "The topics of a subscribed regular expression are looked up again after this time, and after topics "
        "were created or deleted, but no more than once in ten seconds.",
        unit="ms",
    )

    @property
    def upgrades(self) -> bool:
        return self.migration_policy in (UPGRADE, BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        return self.migration_policy in (DOWNGRADE, BIDIRECTIONAL)

    def check(self) -> None:
        """Check the rules between keys. Raises ConfigError."""
        self._check_range(
            "session.timeout.ms",
            self.min_session_timeout_ms,
            self.session_timeout_ms,
            self.max_session_timeout_ms,
        )
        self._check_range(
            "heartbeat.interval.ms",
            self.min_heartbeat_interval_ms,
            self.heartbeat_interval_ms,
            self.max_heartbeat_interval_ms,
        )
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                "group.consumer.heartbeat.interval.ms",
                self.heartbeat_interval_ms,
                f"less than group.consumer.session.timeout.ms ({self.session_timeout_ms})",
            )

    @staticmethod
    def _check_range(name: str, least: int, value: int, most: int) -> None:
        if least > most:
            key = f"group.consumer.min.{name}"
            raise ConfigError(key, least, f"at most group.consumer.max.{name} ({most})")
        if not least <= value <= most:
            raise ConfigError(f"group.consumer.{name}", value, f"between {least} and {most}")


class GroupTimes(NamedTuple):
    """The settings of one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


GROUP_KEYS: Final = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")

GROUP_SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        each.key.removeprefix("group."): each
        for _, each in settings_of(ConsumerGroupConfig)
        if each.key.removeprefix("group.") in GROUP_KEYS
    }
)
"""The broker's setting that is the default of each setting of a group."""


def group_times(configs: Mapping[str, str], config: ConsumerGroupConfig) -> GroupTimes:
    """Return the settings of a group with these of its own. A value outside the broker's range, which may
    have changed since, counts as the limit.
    """
    session, heartbeat = (configs.get(key) for key in GROUP_KEYS)
    session_ms = config.session_timeout_ms if session is None else int(session)
    heartbeat_ms = config.heartbeat_interval_ms if heartbeat is None else int(heartbeat)
    return GroupTimes(
        min(max(session_ms, config.min_session_timeout_ms), config.max_session_timeout_ms),
        min(max(heartbeat_ms, config.min_heartbeat_interval_ms), config.max_heartbeat_interval_ms),
    )


def check_group_configs(configs: Mapping[str, str], config: ConsumerGroupConfig) -> None:
    """Check the settings of one group. Raises ConfigError."""
    bounds = (
        (config.min_session_timeout_ms, config.max_session_timeout_ms),
        (config.min_heartbeat_interval_ms, config.max_heartbeat_interval_ms),
    )
    for key, (least, most) in zip(GROUP_KEYS, bounds, strict=True):
        if key in configs:
            value = GROUP_SETTINGS[key].read(configs[key], key=key)
            if not least <= value <= most:
                raise ConfigError(key, value, f"between {least} and {most}")
    times = group_times(configs, config)
    if times.heartbeat_interval_ms >= times.session_timeout_ms:
        raise ConfigError(
            GROUP_KEYS[1],
            times.heartbeat_interval_ms,
            f"less than {GROUP_KEYS[0]} ({times.session_timeout_ms})",
        )
