"""Share groups (KIP-932): their members, the settings of one group, the records in flight, and the topic with
their states. For broker.coordinator.group.share and broker.coordinator.share.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.common.errors import ConfigError
from broker.config.kinds import BOOLEAN, TEXT, ConfigKind, ConfigType, choices_of, integer, one_of, short
from broker.config.sections.groups import GroupTimes, Limited, MemberTimes
from broker.config.setting import Setting

SHARE: Final = "share"
"""The prefix of the settings of one group."""

SIMPLE: Final = "simple"


@dataclass(frozen=True, slots=True)
class ShareGroupConfig:
    session_timeout_ms: int = Setting("group.share.session.timeout.ms", 45_000, integer(1), "ms").described(
        "A member of a share group that sends no heartbeat for this time is removed. A group's own "
        "`share.session.timeout.ms` takes precedence."
    )
    min_session_timeout_ms: int = Setting(
        "group.share.min.session.timeout.ms", 45_000, integer(1), "ms"
    ).described("The shortest `share.session.timeout.ms` of a group.")
    max_session_timeout_ms: int = Setting(
        "group.share.max.session.timeout.ms", 60_000, integer(1), "ms"
    ).described("The longest `share.session.timeout.ms` of a group.")
    heartbeat_interval_ms: int = Setting(
        "group.share.heartbeat.interval.ms", 5_000, integer(1), "ms"
    ).described(
        "The interval of the heartbeats, which the broker sends to the members of a share group. A group's "
        "own `share.heartbeat.interval.ms` takes precedence."
    )
    min_heartbeat_interval_ms: int = Setting(
        "group.share.min.heartbeat.interval.ms", 5_000, integer(1), "ms"
    ).described("The shortest `share.heartbeat.interval.ms` of a group.")
    max_heartbeat_interval_ms: int = Setting(
        "group.share.max.heartbeat.interval.ms", 15_000, integer(1), "ms"
    ).described("The longest `share.heartbeat.interval.ms` of a group.")
    assignment_interval_ms: int = Setting(
        "group.share.assignment.interval.ms", 1_000, integer(0), "ms", dynamic=True
    ).described(
        "Members that join a large share group (more than 512 members, topics and partitions in all) within "
        "this time of its last assignment are assigned partitions together, with the first heartbeat after "
        "that time. In a smaller group each is at once. Kafka waits in groups of any size. A group's own "
        "`share.assignment.interval.ms` takes precedence."
    )
    min_assignment_interval_ms: int = Setting(
        "group.share.min.assignment.interval.ms", 0, integer(0), "ms"
    ).described("The shortest `share.assignment.interval.ms` of a group.")
    max_assignment_interval_ms: int = Setting(
        "group.share.max.assignment.interval.ms", 15_000, integer(0), "ms"
    ).described("The longest `share.assignment.interval.ms` of a group.")
    assignor_offload: bool = Setting(
        "group.share.assignor.offload.enable",
        True,
        BOOLEAN,
        dynamic=True,
        inert="the broker assigns the partitions of a large group in pieces",
        internal=True,
    ).described("Whether a thread in the background assigns the partitions of a share group.")
    max_size: int = Setting("group.share.max.size", 200, integer(1, 1_000)).described(
        "Maximum number of members of one share group. A member that exceeds it is refused with "
        "GROUP_MAX_SIZE_REACHED."
    )
    assignors: tuple[str, ...] = Setting("group.share.assignors", (SIMPLE,), choices_of(SIMPLE)).described(
        "The assignor of share groups."
    )

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
        self.times.check(SHARE)


EARLIEST, LATEST, BY_DURATION = "earliest", "latest", "by_duration"

_DURATION: Final = re.compile(
    r"P(?=.)(?:(\d{1,9})D)?(?:T(?=.)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:[.,](\d{1,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


def duration_ms(reset: str) -> int | None:
    """Return the milliseconds of `by_duration:P...`; None for another reset, or an invalid duration."""
    prefix, _, duration = reset.partition(":")
    found = _DURATION.fullmatch(duration) if prefix == BY_DURATION else None
    if found is None:
        return None
    days, hours, minutes, seconds, fraction = (part or "0" for part in found.groups())
    whole = int(days) * 86_400 + int(hours) * 3_600 + int(minutes) * 60 + int(seconds)
    return whole * 1_000 + int(fraction.ljust(3, "0")[:3])


def _read_reset(text: str) -> str:
    if text not in (EARLIEST, LATEST) and duration_ms(text) is None:
        raise ValueError("not a strategy")
    return text


OFFSET_RESET: Final = Setting(
    "share.auto.offset.reset",
    LATEST,
    ConfigKind(
        ConfigType.STRING,
        "`earliest`, `latest`, or `by_duration:` with a duration in ISO 8601 such as PT1H",
        _read_reset,
    ),
    doc="Where the group begins to read a partition: at its first record, after its last one, or at the "
    "first one of this time ago.",
)

READ_UNCOMMITTED, READ_COMMITTED = "read_uncommitted", "read_committed"

ISOLATION_LEVEL: Final = Setting(
    "share.isolation.level",
    READ_UNCOMMITTED,
    one_of(READ_COMMITTED, READ_UNCOMMITTED),
    doc="Whether the group reads the records of transactions that are not committed.",
)

RENEW_ACKNOWLEDGE: Final = Setting(
    "share.renew.acknowledge.enable",
    True,
    BOOLEAN,
    doc="Whether members can renew the locks of the records that they hold (KIP-1222); if not, a renewal is "
    "refused with INVALID_RECORD_STATE.",
)

DEAD_LETTER_TOPIC: Final = Setting(
    "errors.deadletterqueue.topic.name",
    "",
    TEXT,
    doc="The topic with a dead letter for each record that is rejected, or was delivered too often "
    "(KIP-1191). Empty: none. It must have `errors.deadletterqueue.group.enable`.",
)
DEAD_LETTER_RECORDS: Final = Setting(
    "errors.deadletterqueue.copy.record.enable",
    False,
    BOOLEAN,
    doc="Whether dead letters have the keys and values of the records, or only say where they are.",
)
INTERNAL_NAME: Final = "__"
"""What the name of a dead letter queue cannot begin with."""


def share_group_times(configs: Mapping[str, str], config: ShareGroupConfig) -> GroupTimes:
    """Return the times of the members of a share group with these settings of its own."""
    return config.times.of_group(configs, SHARE)


LOCK_DURATION: Final = "record.lock.duration.ms"
DELIVERY_LIMIT: Final = "delivery.count.limit"
MAX_LOCKS: Final = "partition.max.record.locks"


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
        "that is released or whose lock ends is archived. A group's own `share.delivery.count.limit` takes "
        "precedence."
    )
    min_delivery_count_limit: int = Setting(
        "group.share.min.delivery.count.limit", 2, integer(2, 5)
    ).described("The smallest `share.delivery.count.limit` of a group.")
    max_delivery_count_limit: int = Setting(
        "group.share.max.delivery.count.limit", 10, integer(5, 25)
    ).described("The largest `share.delivery.count.limit` of a group.")
    max_record_locks: int = Setting(
        "group.share.partition.max.record.locks", 2_000, integer(100, 10_000), "records"
    ).described(
        "Maximum number of records of a partition that are in flight in a share group. The records of one "
        "batch are acquired together, so that there can be more. A group's own "
        "`share.partition.max.record.locks` takes precedence."
    )
    min_max_record_locks: int = Setting(
        "group.share.min.partition.max.record.locks", 100, integer(100, 2_000), "records"
    ).described("The smallest `share.partition.max.record.locks` of a group.")
    max_max_record_locks: int = Setting(
        "group.share.max.partition.max.record.locks", 4_000, integer(2_000, 10_000), "records"
    ).described("The largest `share.partition.max.record.locks` of a group.")
    dead_letter_topic_prefix: str = Setting(
        "errors.deadletterqueue.topic.name.prefix", "dlq.", TEXT, dynamic=True
    ).described(
        "What the name of each dead letter queue begins with; a group whose queue has another name writes no "
        "dead letters. Empty: any."
    )
    creates_dead_letter_topics: bool = Setting(
        "errors.deadletterqueue.auto.create.topics.enable",
        False,
        BOOLEAN,
        dynamic=True,
    ).described("Whether a dead letter queue that does not exist is created with its first dead letter.")
    max_sessions: int = Setting("group.share.max.share.sessions", 2_000, integer(1), "sessions").described(
        "Maximum number of share sessions. A member that exceeds it is refused with "
        "SHARE_SESSION_LIMIT_REACHED."
    )

    @property
    def record_lock_duration(self) -> Limited:
        return Limited(
            self.min_record_lock_duration_ms, self.record_lock_duration_ms, self.max_record_lock_duration_ms
        )

    @property
    def delivery_limit(self) -> Limited:
        return Limited(
            self.min_delivery_count_limit, self.delivery_count_limit, self.max_delivery_count_limit
        )

    @property
    def record_locks(self) -> Limited:
        return Limited(self.min_max_record_locks, self.max_record_locks, self.max_max_record_locks)

    @property
    def _limited(self) -> tuple[tuple[Limited, str], ...]:
        return (
            (self.record_lock_duration, LOCK_DURATION),
            (self.delivery_limit, DELIVERY_LIMIT),
            (self.record_locks, MAX_LOCKS),
        )

    def check(self, max_size: int) -> None:
        """Check the rules between keys, with group.share.max.size. Raises ConfigError."""
        for limited, name in self._limited:
            limited.check("group.share", name)
        if self.max_sessions < max_size:
            allowed = f"at least group.share.max.size ({max_size})"
            raise ConfigError("group.share.max.share.sessions", self.max_sessions, allowed)

    def check_group(self, configs: Mapping[str, str]) -> None:
        """Check the settings of one group, which can be read. Raises ConfigError."""
        for limited, name in self._limited:
            limited.check_group(configs, f"{SHARE}.{name}")
        topic = configs.get(DEAD_LETTER_TOPIC.key, "").strip()
        if topic.startswith(INTERNAL_NAME):
            raise ConfigError(
                DEAD_LETTER_TOPIC.key, topic, f"a name that does not begin with {INTERNAL_NAME}"
            )


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
        "share.coordinator.snapshot.update.records.per.snapshot", 500, integer(0, 500), "records"
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
        -1,
        integer(-1),
        "ms",
        inert="the writes of all requests that are handled together are one",
    ).described("How long a write waits for others; -1: for those that arrive together.")
    threads: int = Setting(
        "share.coordinator.threads", 1, integer(1), inert="the handlers of requests do this work"
    ).described("Threads of the share coordinator.")
