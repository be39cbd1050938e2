"""Consumer groups of the classic and of the consumer protocol (KIP-848), and their offsets. For
broker.coordinator.group.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from broker.common.errors import ChangeRefused, ConfigError
from broker.config.kinds import BOOLEAN, INT_MAX, choices_of, integer, long, one_of
from broker.config.setting import Setting

SESSION, HEARTBEAT = "session.timeout.ms", "heartbeat.interval.ms"
ASSIGNMENT: Final = "assignment.interval.ms"


WITHIN: Final = "in the range {least} to {most} inclusive."
AT_LEAST: Final = "greater than or equal to {least}"
AT_MOST: Final = "less than or equal to {most}"


class Limited(NamedTuple):
    """A setting of the broker, and the limits of that of a group, with Kafka's words for what it must be."""

    least: int
    value: int
    most: int
    allowed: str = WITHIN

    def check(self, prefix: str, name: str) -> None:
        """Check the broker's keys `<prefix>.<name>`, `<prefix>.min.<name>` and max. Raises ConfigError."""
        least, value, most, _ = self
        if least > most:
            raise ConfigError(f"{prefix}.min.{name}", least, f"at most {prefix}.max.{name} ({most})")
        if not least <= value <= most:
            allowed = f"between {prefix}.min.{name} ({least}) and {prefix}.max.{name} ({most})"
            raise ConfigError(f"{prefix}.{name}", value, allowed)

    def of_group(self, configs: Mapping[str, str], key: str) -> int:
        """Return the setting of a group with these of its own. A value outside the broker's range, which may
        have changed since, counts as the limit.
        """
        value = int(configs[key]) if key in configs else self.value
        return min(max(value, self.least), self.most)

    def check_group(self, configs: Mapping[str, str], key: str) -> None:
        """Check the setting of a group, which is a whole number. Raises ConfigError."""
        if key in configs and not self.least <= int(configs[key]) <= self.most:
            allowed = self.allowed.format(least=self.least, most=self.most)
            raise ChangeRefused(key, configs[key], f"{key} must be {allowed}")


class MemberTimes(NamedTuple):
    """The broker's session timeout, heartbeat interval and assignment interval of groups whose partitions it
    assigns. Consumer and share groups have the same keys with another prefix: `consumer`, `share`.
    """

    session: Limited
    heartbeat: Limited
    assignment: Limited = Limited(0, 1_000, 15_000)

    def check(self, prefix: str) -> None:
        """Check the rules between the broker's keys. Raises ConfigError."""
        self.session.check(f"group.{prefix}", SESSION)
        self.heartbeat.check(f"group.{prefix}", HEARTBEAT)
        self.assignment.check(f"group.{prefix}", ASSIGNMENT)
        if self.heartbeat.value >= self.session.value:
            allowed = f"less than group.{prefix}.{SESSION} ({self.session.value})"
            raise ConfigError(f"group.{prefix}.{HEARTBEAT}", self.heartbeat.value, allowed)

    def of_group(self, configs: Mapping[str, str], prefix: str) -> "GroupTimes":
        """Return the settings of a group with these of its own."""
        return GroupTimes(
            self.session.of_group(configs, f"{prefix}.{SESSION}"),
            self.heartbeat.of_group(configs, f"{prefix}.{HEARTBEAT}"),
            self.assignment.of_group(configs, f"{prefix}.{ASSIGNMENT}"),
        )

    def check_group(self, configs: Mapping[str, str], prefix: str) -> None:
        """Check the settings of a group, which are whole numbers. Raises ConfigError."""
        self.session.check_group(configs, f"{prefix}.{SESSION}")
        self.heartbeat.check_group(configs, f"{prefix}.{HEARTBEAT}")
        self.assignment.check_group(configs, f"{prefix}.{ASSIGNMENT}")
        session, heartbeat = f"{prefix}.{SESSION}", f"{prefix}.{HEARTBEAT}"
        times = self.of_group(configs, prefix)
        if times.heartbeat_interval_ms >= times.session_timeout_ms:
            raise ChangeRefused(
                session, times.session_timeout_ms, f"{session} must be greater than {heartbeat}"
            )


class GroupTimes(NamedTuple):
    """The session timeout, heartbeat interval and assignment interval of one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Groups of the classic protocol, and what groups of all protocols share."""

    min_session_timeout_ms: int = Setting("group.min.session.timeout.ms", 6_000, integer(1), "ms").described(
        "The shortest session timeout that a member can request."
    )
    max_session_timeout_ms: int = Setting(
        "group.max.session.timeout.ms", 1_800_000, integer(1), "ms"
    ).described("The longest session timeout that a member can request.")
    initial_rebalance_delay_ms: int = Setting(
        "group.initial.rebalance.delay.ms", 3_000, integer(0), "ms"
    ).described("How long the first rebalance of an empty group waits for more members.")
    append_linger_ms: int = Setting("group.coordinator.append.linger.ms", 5, integer(-1), "ms").described(
        "How long the response to a ConsumerGroupHeartbeat waits that changed the group; -1 or 0: not at "
        "all. Its records are written at once; Kafka collects those of this time, of all group requests, in "
        "one write, and with -1 those of requests that arrive together.",
        kafka_default="-1",
        why="A consumer of librdkafka that unsubscribes when it is told to give up partitions may fail if it "
        "is told so earlier.",
    )
    max_size: int = Setting("group.max.size", 1_000, integer(1)).described(
        "Maximum number of members of one group.",
        kafka_default=str(INT_MAX),
        why="All clients wait while a group begins a generation, which takes two microseconds per member.",
    )
    max_group_bytes: int = Setting("group.max.bytes", 2_097_152, integer(1), "bytes", ours=True).described(
        "Maximum size of the members of one group: their names, their metadata for all protocols, and the "
        "topics that their regular expressions select. A member that exceeds it is refused with "
        "GROUP_MAX_SIZE_REACHED. Also the maximum size of their assignments; if these are larger, all "
        "members receive UNKNOWN_SERVER_ERROR and rejoin, as they do if the group's record is larger than "
        "`message.max.bytes` of __consumer_offsets."
    )
    offset_metadata_max_bytes: int = Setting(
        "offset.metadata.max.bytes", 4_096, integer(0), "bytes"
    ).described("Maximum length of the metadata string that is committed with an offset.")
    offsets_retention_minutes: int = Setting(
        "offsets.retention.minutes", 10_080, integer(1), "minutes"
    ).described("Committed offsets are kept for this time after their group becomes empty.")
    offsets_retention_check_interval_ms: int = Setting(
        "offsets.retention.check.interval.ms", 600_000, long(1), "ms"
    ).described("How often the broker checks for expired offsets.")
    offsets_topic_partitions: int = Setting("offsets.topic.num.partitions", 1, integer(1)).described(
        "Partitions of __consumer_offsets; fixed at its creation.",
        kafka_default="50",
        why="With one broker, there is no load to distribute.",
    )
    offsets_topic_segment_bytes: int = Setting(
        "offsets.topic.segment.bytes", 104_857_600, integer(1), "bytes"
    ).described("Segment size of __consumer_offsets.")

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000

    def check(self) -> None:
        """Check the rule between keys. Raises ConfigError."""
        if self.min_session_timeout_ms > self.max_session_timeout_ms:
            raise ConfigError(
                "group.min.session.timeout.ms",
                self.min_session_timeout_ms,
                f"at most group.max.session.timeout.ms ({self.max_session_timeout_ms})",
            )


CONSUMER: Final = "consumer"
"""The prefix of the settings of one group."""

UNIFORM: Final = "uniform"
RANGE: Final = "range"

DISABLED, UPGRADE, DOWNGRADE, BIDIRECTIONAL = "disabled", "upgrade", "downgrade", "bidirectional"


@dataclass(frozen=True, slots=True)
class ConsumerGroupConfig:
    """Groups of the consumer protocol (KIP-848)."""

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
        "group.consumer.assignment.interval.ms", 1_000, integer(0), "ms", dynamic=True
    ).described(
        "Members that join a large consumer group (more than 512 members, topics and partitions in all) "
        "within this time of its last assignment are assigned partitions together, with the first heartbeat "
        "after that time. In a smaller group each is at once. Kafka waits in groups of any size. A group's "
        "own `consumer.assignment.interval.ms` takes precedence."
    )
    min_assignment_interval_ms: int = Setting(
        "group.consumer.min.assignment.interval.ms", 0, integer(0), "ms"
    ).described("The shortest `consumer.assignment.interval.ms` of a group.")
    max_assignment_interval_ms: int = Setting(
        "group.consumer.max.assignment.interval.ms", 15_000, integer(0), "ms"
    ).described("The longest `consumer.assignment.interval.ms` of a group.")
    assignor_offload: bool = Setting(
        "group.consumer.assignor.offload.enable",
        True,
        BOOLEAN,
        dynamic=True,
        inert="the broker assigns the partitions of a large group in pieces",
        internal=True,
    ).described("Whether a thread in the background assigns the partitions of a consumer group.")
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
            Limited(
                self.min_assignment_interval_ms, self.assignment_interval_ms, self.max_assignment_interval_ms
            ),
        )

    def check(self) -> None:
        """Check the rules between keys. Raises ConfigError."""
        self.times.check(CONSUMER)


def group_times(configs: Mapping[str, str], config: ConsumerGroupConfig) -> GroupTimes:
    """Return the settings of a consumer group with these of its own."""
    return config.times.of_group(configs, CONSUMER)
