"""Groups of the consumer protocol (KIP-848). For broker.coordinator.group.consumer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.config.kinds import INT_MAX, choices_of, integer, one_of
from broker.config.sections.member_times import GroupTimes, Limited, MemberTimes
from broker.config.setting import Setting

CONSUMER: Final = "consumer"
"""The prefix of the settings of one group."""

UNIFORM: Final = "uniform"
RANGE: Final = "range"

DISABLED, UPGRADE, DOWNGRADE, BIDIRECTIONAL = "disabled", "upgrade", "downgrade", "bidirectional"


@dataclass(frozen=True, slots=True)
class ConsumerGroupConfig:
    session_timeout_ms: int = Setting(
        "group.consumer.session.timeout.ms", 45_000, integer(1), "ms"
    ).described(
        "A member of a consumer group that sends no heartbeat for this time is removed. A group's own "
        "`consumer.session.timeout.ms` takes precedence."
    )
    min_session_timeout_ms: int = Setting(
        "group.consumer.min.session.timeout.ms", 45_000, integer(1), "ms"
    ).described("The shortest `consumer.session.timeout.ms` of a group.")
    max_session_timeout_ms: int = Setting(
        "group.consumer.max.session.timeout.ms", 60_000, integer(1), "ms"
    ).described("The longest `consumer.session.timeout.ms` of a group.")
    heartbeat_interval_ms: int = Setting(
        "group.consumer.heartbeat.interval.ms", 5_000, integer(1), "ms"
    ).described(
        "The interval of the heartbeats, which the broker sends to the members of a consumer group. A "
        "group's own `consumer.heartbeat.interval.ms` takes precedence."
    )
    min_heartbeat_interval_ms: int = Setting(
        "group.consumer.min.heartbeat.interval.ms", 5_000, integer(1), "ms"
    ).described("The shortest `consumer.heartbeat.interval.ms` of a group.")
    max_heartbeat_interval_ms: int = Setting(
        "group.consumer.max.heartbeat.interval.ms", 15_000, integer(1), "ms"
    ).described("The longest `consumer.heartbeat.interval.ms` of a group.")
    assignment_interval_ms: int = Setting(
        "group.consumer.assignment.interval.ms", 1_000, integer(0), "ms"
    ).described(
        "Members that join a large consumer group (more than 512 members, topics and partitions in all) "
        "within this time of its last assignment are assigned partitions together, with the first heartbeat "
        "after that time. In a smaller group each is at once. Kafka waits in groups of any size."
    )
    max_size: int = Setting("group.consumer.max.size", 1_000, integer(1)).described(
        "Maximum number of members of one consumer group. A member that exceeds it is refused with "
        "GROUP_MAX_SIZE_REACHED.",
        kafka_default=str(INT_MAX),
        why="All clients wait while the partitions of a group are assigned.",
    )
    assignors: tuple[str, ...] = Setting(
        "group.consumer.assignors", (UNIFORM, RANGE), choices_of(UNIFORM, RANGE)
    ).described("The assignors that members of consumer groups can select; the first one is the default.")
    migration_policy: str = Setting(
        "group.consumer.migration.policy", BIDIRECTIONAL, one_of(DISABLED, UPGRADE, DOWNGRADE, BIDIRECTIONAL)
    ).described(
        "Whether a group with members changes its protocol: `upgrade` converts a classic group when a member "
        "of the consumer protocol joins, `downgrade` a consumer group when its last member of the consumer "
        "protocol leaves. An empty group changes its protocol with every policy."
    )
    regex_refresh_interval_ms: int = Setting(
        "group.consumer.regex.refresh.interval.ms", 600_000, integer(10_000), "ms"
    ).described(
        "The topics of a subscribed regular expression are looked up again after this time, and after topics "
        "were created or deleted, but no more than once in ten seconds."
    )

    @property
    def upgrades(self) -> bool:
        return self.migration_policy in (UPGRADE, BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        return self.migration_policy in (DOWNGRADE, BIDIRECTIONAL)

    @property
    def times(self) -> MemberTimes:
        return MemberTimes(
            Limited(self.min_session_timeout_ms, self.session_timeout_ms, self.max_session_timeout_ms),
            Limited(
                self.min_heartbeat_interval_ms, self.heartbeat_interval_ms, self.max_heartbeat_interval_ms
            ),
        )

    def check(self) -> None:
        """Check the rules between keys. Raises ConfigError."""
        self.times.check(CONSUMER)


def group_times(configs: Mapping[str, str], config: ConsumerGroupConfig) -> GroupTimes:
    """Return the settings of a consumer group with these of its own."""
    return config.times.of_group(configs, CONSUMER)
