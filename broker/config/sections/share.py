"""Share groups: the records in flight, and the topic with their states (KIP-932). For coordinator.share."""

from dataclasses import dataclass
from typing import Final

from broker.config.kinds import integer, short
from broker.config.sections.member_times import Limited
from broker.config.setting import Setting

LOCK_DURATION: Final = "record.lock.duration.ms"


@dataclass(frozen=True, slots=True)
class SharePartitionConfig:
    record_lock_duration_ms: int = Setting(
        "group.share.record.lock.duration.ms", 30_000, integer(1_000, 3_600_000), "ms"
    ).described(
        "How long a member of a share group holds the records that it has acquired; then others can acquire "
        "them. A group's own `share.record.lock.duration.ms` takes precedence."
    )
    min_record_lock_duration_ms: int = Setting(
        "group.share.min.record.lock.duration.ms", 15_000, integer(1_000, 30_000), "ms"
    ).described("The shortest `share.record.lock.duration.ms` of a group.")
    max_record_lock_duration_ms: int = Setting(
        "group.share.max.record.lock.duration.ms", 60_000, integer(30_000, 3_600_000), "ms"
    ).described("The longest `share.record.lock.duration.ms` of a group.")
    delivery_count_limit: int = Setting("group.share.delivery.count.limit", 5, integer(2, 10)).described(
        "How often a record is delivered to the members of a share group. After the last delivery, a record "
        "that is released or whose lock ends is archived."
    )
    max_record_locks: int = Setting(
        "group.share.partition.max.record.locks", 2_000, integer(100, 10_000), "records"
    ).described(
        "Maximum number of records of a partition that are in flight in a share group. The records of one "
        "batch are acquired together, so that there can be more."
    )
    max_sessions: int = Setting("group.share.max.share.sessions", 2_000, integer(1), "sessions").described(
        "Maximum number of share sessions. A member that exceeds it is refused with "
        "SHARE_SESSION_LIMIT_REACHED."
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
    topic_partitions: int = Setting("share.coordinator.state.topic.num.partitions", 50, integer(1)).described(
        "Partitions of __share_group_state; fixed at its creation."
    )
    topic_replication_factor: int = Setting(
        "share.coordinator.state.topic.replication.factor",
        3,
        short(1),
        inert="every partition has one replica",
    ).described("Replicas of __share_group_state.")
    topic_min_isr: int = Setting(
        "share.coordinator.state.topic.min.isr", 2, short(1), inert="every partition has one replica"
    ).described("`min.insync.replicas` of __share_group_state.")
    topic_segment_bytes: int = Setting(
        "share.coordinator.state.topic.segment.bytes", 104_857_600, integer(1), "bytes"
    ).described("Segment size of __share_group_state.")
    updates_per_snapshot: int = Setting(
        "share.coordinator.snapshot.update.records.per.snapshot", 500, integer(0), "records"
    ).described(
        "Records with changes of one share partition that are written between two with its whole state."
    )
    prune_interval_ms: int = Setting(
        "share.coordinator.state.topic.prune.interval.ms", 300_000, integer(1), "ms"
    ).described("How often obsolete records of __share_group_state are deleted.")
    cold_snapshot_interval_ms: int = Setting(
        "share.coordinator.cold.partition.snapshot.interval.ms", 300_000, integer(1), "ms"
    ).described(
        "The state of a share partition whose last whole record is older than this is written again, if many "
        "records were written after it."
    )
    write_timeout_ms: int = Setting(
        "share.coordinator.write.timeout.ms", 5_000, integer(1), "ms", inert="every partition has one replica"
    ).described("How long a write waits for all replicas.")
    load_buffer_bytes: int = Setting(
        "share.coordinator.load.buffer.size",
        5_242_880,
        integer(1),
        "bytes",
        inert="the broker reads 4 MiB at once",
    ).described("Bytes of __share_group_state that are read at once at the start.")
    append_linger_ms: int = Setting(
        "share.coordinator.append.linger.ms",
        5,
        integer(0),
        "ms",
        inert="the writes of all requests that are handled together are one",
    ).described("How long a write waits for others.")
    threads: int = Setting(
        "share.coordinator.threads", 1, integer(1), inert="the handlers of requests do this work"
    ).described("Threads of the share coordinator.")
