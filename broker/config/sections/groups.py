"""Consumer groups and their offsets. For broker.coordinator.group."""

from dataclasses import dataclass

from broker.common.errors import ConfigError
from broker.config.kinds import INT_MAX, integer, long
from broker.config.setting import setting


@dataclass(frozen=True, slots=True)
class GroupConfig:
    min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms",
        6_000,
        integer(1),
        "The shortest session timeout that a member can request.",
        unit="ms",
    )
    max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms",
        1_800_000,
        integer(1),
        "The longest session timeout that a member can request.",
        unit="ms",
    )
    initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        3_000,
        integer(0),
        "How long the first rebalance of an empty group waits for more members.",
        unit="ms",
    )
    append_linger_ms: int = setting(
        "group.coordinator.append.linger.ms",
        5,
        integer(0),
        "How long the response to a ConsumerGroupHeartbeat waits that changed the group. Its records are "
        "written at once; Kafka collects those of this time, of all group requests, in one write.",
        unit="ms",
    )
    max_size: int = setting(
        "group.max.size",
        1_000,
        integer(1),
        "Maximum number of members of one group.",
        kafka_default=str(INT_MAX),
        why="All clients wait while a group begins a generation, which takes two microseconds per member.",
    )
    max_group_bytes: int = setting(
        "group.max.bytes",
        2_097_152,
        integer(1),
        "Maximum size of the members of one group: their names, their metadata for all protocols, and the "
        "topics that their regular expressions select. A "
        "member that exceeds it is refused with GROUP_MAX_SIZE_REACHED. Also the maximum size of their "
        "assignments; if these are larger, all members receive UNKNOWN_SERVER_ERROR and rejoin, as they do "
        "if the group's record is larger than `message.max.bytes` of __consumer_offsets.",
        unit="bytes",
        ours=True,
    )
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes",
        4_096,
        integer(0),
        "Maximum length of the metadata string that is committed with an offset.",
        unit="bytes",
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes",
        10_080,
        integer(1),
        "Committed offsets are kept for this time after their group becomes empty.",
        unit="minutes",
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms",
        600_000,
        long(1),
        "How often the broker checks for expired offsets.",
        unit="ms",
    )
    offsets_topic_partitions: int = setting(
        "offsets.topic.num.partitions",
        1,
        integer(1),
        "Partitions of __consumer_offsets; fixed at its creation.",
        kafka_default="50",
        why="With one broker, there is no load to distribute.",
    )
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes",
        104_857_600,
        integer(1),
        "Segment size of __consumer_offsets.",
        unit="bytes",
    )

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
