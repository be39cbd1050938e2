"""Consumer groups and their offsets. For broker.coordinator.group."""

from dataclasses import dataclass

from broker.common.errors import ConfigError
from broker.config.kinds import INT_MAX, integer, long
from broker.config.setting import Setting


@dataclass(frozen=True, slots=True)
class GroupConfig:
    min_session_timeout_ms: int = Setting("group.min.session.timeout.ms", 6_000, integer(1), "ms").described(
        "The shortest session timeout that a member can request."
    )
    max_session_timeout_ms: int = Setting(
        "group.max.session.timeout.ms", 1_800_000, integer(1), "ms"
    ).described("The longest session timeout that a member can request.")
    initial_rebalance_delay_ms: int = Setting(
        "group.initial.rebalance.delay.ms", 3_000, integer(0), "ms"
    ).described("How long the first rebalance of an empty group waits for more members.")
    append_linger_ms: int = Setting("group.coordinator.append.linger.ms", 5, integer(0), "ms").described(
        "How long the response to a ConsumerGroupHeartbeat waits that changed the group. Its records are "
        "written at once; Kafka collects those of this time, of all group requests, in one write."
    )
    max_size: int = Setting("group.max.size", 1_000, integer(1)).described(
        "Maximum number of members of one group.",
        kafka_default=str(INT_MAX),
        why="All clients wait while a group begins a generation, which takes two microseconds per member.",
    )
    max_group_bytes: int = Setting("group.max.bytes", 2_097_152, integer(1), "bytes", ours=True).described(
        "Maximum size of the members of one group: their names, their metadata for all protocols, and the "
        "topics that their regular expressions select. A "
        "member that exceeds it is refused with GROUP_MAX_SIZE_REACHED. Also the maximum size of their "
        "assignments; if these are larger, all members receive UNKNOWN_SERVER_ERROR and rejoin, as they do "
        "if the group's record is larger than `message.max.bytes` of __consumer_offsets."
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
