"""Share groups: the records in flight, and the topic with their states (KIP-932). For coordinator.share."""

from dataclasses import dataclass
from typing import Final

from broker.config.kinds import integer, short
from broker.config.sections.member_times import Limited
from broker.config.setting import setting

LOCK_DURATION: Final = "record.lock.duration.ms"


@dataclass(frozen=True, slots=True)
class SharePartitionConfig:
    record_lock_duration_ms: int = setting(
        "group.share.record.lock.duration.ms",
        30_000,
        integer(1_000, 3_600_000),
        "How long a member of a share group holds the records that it has acquired; then others can acquire "
        "them. A group's own `share.record.lock.duration.ms` takes precedence.",
        unit="ms",
    )
    min_record_lock_duration_ms: int = setting(
        "group.share.min.record.lock.duration.ms",
        15_000,
        integer(1_000, 30_000),
        "The shortest `share.record.lock.duration.ms` of a group.",
        unit="ms",
    )
    max_record_lock_duration_ms: int = setting(
        "group.share.max.record.lock.duration.ms",
        60_000,
        integer(30_000, 3_600_000),
        "The longest `share.record.lock.duration.ms` of a group.",
        unit="ms",
    )
    delivery_count_limit: int = setting(
        "group.share.delivery.count.limit",
        5,
        integer(2, 10),
        "How often a record is delivered to the members of a share group. After the last delivery, a record "
        "that is released or whose lock ends is archived.",
    )
    max_record_locks: int = setting(
        "group.share.partition.max.record.locks",
        2_000,
        integer(100, 10_000),
        "Maximum number of records of a partition that are in flight in a share group. The records of one "
        "batch are acquired together, so that there can be more.",
        unit="records",
    )
    max_sessions: int = setting(
        "group.share.max.share.sessions",
        2_000,
        integer(1),
        "Maximum number of share sessions. A member that exceeds it is refused with "
        "SHARE_SESSION_LIMIT_REACHED.",
        unit="sessions",
    )

    @property
    def record_lock_duration(self) -> Limited:
        return Limited(
            self.min_record_lock_duration_ms, self.record_lock_duration_ms, self.max_record_lock_duration_ms
        )

    def check(self) -> None:
        """Check the rules between keys. Raises ConfigError."""
        self.record_lock_duration.check("group.share", LOCK_DURATION)


@dataclass(frozen=True, slots=True)
class ShareCoordinatorConfig:
    topic_partitions: int = setting(
        "share.coordinator.state.topic.num.partitions",
        50,
        integer(1),
        "Partitions of __share_group_state; fixed at its creation.",
    )
    topic_replication_factor: int = setting(
        "share.coordinator.state.topic.replication.factor",
        3,
        short(1),
        "Replicas of __share_group_state.",
        inert="every partition has one replica",
    )
    topic_min_isr: int = setting(
        "share.coordinator.state.topic.min.isr",
        2,
        short(1),
        "`min.insync.replicas` of __share_group_state.",
        inert="every partition has one replica",
    )
    topic_segment_bytes: int = setting(
        "share.coordinator.state.topic.segment.bytes",
        104_857_600,
        integer(1),
        "Segment size of __share_group_state.",
        unit="bytes",
    )
    updates_per_snapshot: int = setting(
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        integer(0),
        "Records with changes of one share partition that are written between two with its whole state.",
        unit="records",
    )
    prune_interval_ms: int = setting(
        "share.coordinator.state.topic.prune.interval.ms",
        300_000,
        integer(1),
        "How often obsolete records of __share_group_state are deleted.",
        unit="ms",
    )
    cold_snapshot_interval_ms: int = setting(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        300_000,
        integer(1),
        "The state of a share partition whose last whole record is older than this is written again, if many "
        "records were written after it.",
        unit="ms",
    )
    write_timeout_ms: int = setting(
        "share.coordinator.write.timeout.ms",
        5_000,
        integer(1),
        "How long a write waits for all replicas.",
        unit="ms",
        inert="every partition has one replica",
    )
    load_buffer_bytes: int = setting(
        "share.coordinator.load.buffer.size",
        5_242_880,
        integer(1),
        "Bytes of __share_group_state that are read at once at the start.",
        unit="bytes",
        inert="the broker reads 4 MiB at once",
    )
    append_linger_ms: int = setting(
        "share.coordinator.append.linger.ms",
        5,
        integer(0),
        "How long a write waits for others.",
        unit="ms",
        inert="the writes of all requests that are handled together are one",
    )
    threads: int = setting(
        "share.coordinator.threads",
        1,
        integer(1),
        "Threads of the share coordinator.",
        inert="the handlers of requests do this work",
    )
