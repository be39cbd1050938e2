"""Topic creation and topic settings. For broker.log, broker.controller and broker.partitions.

The defaults of `TopicSettings` come from the broker's keys (`log.retention.ms`); `topic_settings` lays
each topic's settings (`retention.ms`) over them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from broker.config.kinds import (
    BOOLEAN,
    LONG_MAX,
    ConfigKind,
    ConfigType,
    choices_of,
    decimal,
    integer,
    long,
    one_of,
)
from broker.config.sections.quotas import TopicThrottles
from broker.config.setting import Setting, settings_of

NO_TIERED_STORAGE: Final = "this broker has no tiered storage"
LEAST_SEGMENT: Final = 14
"""The least internal.segment.bytes (Kafka: any number), and segment.bytes of an earlier version."""

_HOURS = 3_600_000
_MINUTES = 60_000


LARGEST_RECORD: Final = 2_147_483_639
"""As much as Kafka can allocate."""

_PRODUCER: Final = "producer"
_CODECS: Final = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def _read_gzip_level(text: str) -> int:
    level: int = integer(-1, 9).read(text)
    if level == 0:
        raise ValueError("not a level")
    return level


GZIP_LEVEL: Final = ConfigKind(ConfigType.INT, "a whole number from 1 to 9, or -1", _read_gzip_level)


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """The creation of topics."""

    num_partitions: int = Setting("num.partitions", 1, integer(1, 10_000)).described(
        "Partitions of a topic that is created without a count."
    )
    default_replication_factor: int = Setting("default.replication.factor", 1, integer(1, 32_767)).described(
        "Replicas of a topic that is created without a count. With one broker, more than 1 is refused."
    )
    auto_create_topics: bool = Setting("auto.create.topics.enable", True, BOOLEAN).described(
        "Whether a Metadata request for a topic that does not exist creates it."
    )
    delete_topics: bool = Setting("delete.topic.enable", True, BOOLEAN).described(
        "Whether topics can be deleted."
    )


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Storage settings of one topic."""

    cleanup_policy: tuple[str, ...] = Setting(
        "log.cleanup.policy",
        ("delete",),
        choices_of("delete", "compact", least=0),
        topic_key="cleanup.policy",
        dynamic=True,
    ).described(
        "`delete` removes segments by age and size. `compact` keeps the last record of each key "
        "([compaction.md](compaction.md)). Both can be set. An empty list keeps all records."
    )
    compression_type: str = Setting(
        "compression.type",
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        topic_key="compression.type",
        dynamic=True,
    ).described(
        "The compression of stored batches. `producer`: as the producer compressed them. With any other, the "
        "broker compresses each batch that arrives otherwise again, in a thread."
    )
    compression_gzip_level: int = Setting(
        "compression.gzip.level", -1, GZIP_LEVEL, topic_key="compression.gzip.level", dynamic=True
    ).described("The level of `compression.type=gzip`; -1 is the default of zlib.")
    compression_lz4_level: int = Setting(
        "compression.lz4.level", 9, integer(1, 17), topic_key="compression.lz4.level", dynamic=True
    ).described(
        "The level of `compression.type=lz4`. As in Kafka, 9 is the fast compressor, and any other level is "
        "the high compressor, which is slower."
    )
    compression_zstd_level: int = Setting(
        "compression.zstd.level", 3, integer(-131_072, 22), topic_key="compression.zstd.level", dynamic=True
    ).described("The level of `compression.type=zstd`.")
    delete_retention_ms: int = Setting(
        "log.cleaner.delete.retention.ms",
        24 * _HOURS,
        long(0),
        "ms",
        topic_key="delete.retention.ms",
        dynamic=True,
    ).described(
        "How long a compacted log keeps a tombstone, and a marker whose transaction has no records left, "
        "after a pass of the cleaner that found nothing older."
    )
    file_delete_delay_ms: int = Setting(
        "log.segment.delete.delay.ms", 60_000, long(0), "ms", topic_key="file.delete.delay.ms", dynamic=True
    ).described("How long the file of a deleted segment remains on disk.")
    flush_messages: int = Setting(
        "log.flush.interval.messages", LONG_MAX, long(1), "records", topic_key="flush.messages", dynamic=True
    ).described("The broker flushes a partition when it has this many unflushed records.")
    flush_ms: int = Setting(
        "log.flush.interval.ms",
        LONG_MAX,
        long(0),
        "ms",
        topic_key="flush.ms",
        dynamic=True,
        null_default=True,
    ).described("The broker flushes a record at the latest after this time.")
    index_interval_bytes: int = Setting(
        "log.index.interval.bytes", 4_096, integer(0), "bytes", topic_key="index.interval.bytes", dynamic=True
    ).described("Bytes of records between two index entries.")
    remote_copy_lag_bytes: int = Setting(
        "log.remote.copy.lag.bytes",
        -1,
        long(-1),
        "bytes",
        topic_key="remote.copy.lag.bytes",
        dynamic=True,
        inert=NO_TIERED_STORAGE,
    ).described(
        "How many bytes of newer records a segment waits for before it is copied to remote storage; -1: as "
        "local.retention.bytes."
    )
    remote_copy_lag_ms: int = Setting(
        "log.remote.copy.lag.ms",
        0,
        long(-1),
        "ms",
        topic_key="remote.copy.lag.ms",
        dynamic=True,
        inert=NO_TIERED_STORAGE,
    ).described("How long a segment waits before it is copied to remote storage; -1: as local.retention.ms.")
    local_retention_bytes: int = Setting(
        "log.local.retention.bytes",
        -2,
        long(-2),
        "bytes",
        topic_key="local.retention.bytes",
        dynamic=True,
        inert=NO_TIERED_STORAGE,
    ).described("How much of a log with remote storage remains here; -2: as log.retention.bytes.")
    local_retention_ms: int = Setting(
        "log.local.retention.ms",
        -2,
        long(-2),
        "ms",
        topic_key="local.retention.ms",
        dynamic=True,
        inert=NO_TIERED_STORAGE,
    ).described("How long segments of a log with remote storage remain here; -2: as log.retention.ms.")
    max_compaction_lag_ms: int = Setting(
        "log.cleaner.max.compaction.lag.ms",
        LONG_MAX,
        long(1),
        "ms",
        topic_key="max.compaction.lag.ms",
        dynamic=True,
    ).described(
        "A log whose oldest dirty record is older is compacted, whatever its dirty ratio; its active segment "
        "is rolled after this time too."
    )
    max_message_bytes: int = Setting(
        "message.max.bytes", 1_048_588, integer(0), "bytes", topic_key="max.message.bytes", dynamic=True
    ).described("Maximum size of a batch, after compression.")
    max_decompressed_message_bytes: int = Setting(
        "max.decompressed.message.bytes",
        LARGEST_RECORD,
        integer(1, LARGEST_RECORD),
        "bytes",
        topic_key="max.decompressed.message.bytes",
        dynamic=True,
    ).described(
        "Maximum size of one record of a compressed batch, without compression; a batch with a larger record "
        "is refused with INVALID_RECORD. Below the default, the records of compressed batches are always "
        "read, whatever `record.validation` says. Records that are stored already stay readable; in Kafka, "
        "their compaction and lookups by timestamp fail."
    )
    max_message_records: int = Setting(
        "message.max.records",
        262_144,
        integer(1),
        "records",
        topic_key="max.message.records",
        dynamic=True,
        ours=True,
    ).described(
        "Maximum number of records in a batch, regardless of its compression; if every record is read (see "
        "`record.validation`), headers count as well. A larger batch is refused with MESSAGE_TOO_LARGE, "
        "and the producer splits it. Uncompressed batches within the default `message.max.bytes` cannot "
        "have more."
    )
    message_timestamp_after_max_ms: int = Setting(
        "log.message.timestamp.after.max.ms",
        3_600_000,
        long(0),
        "ms",
        topic_key="message.timestamp.after.max.ms",
        dynamic=True,
    ).described("How far a record's CreateTime can be ahead of the broker's clock.")
    message_timestamp_before_max_ms: int = Setting(
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        long(0),
        "ms",
        topic_key="message.timestamp.before.max.ms",
        dynamic=True,
    ).described("How far a record's CreateTime can be behind the broker's clock.")
    message_timestamp_type: str = Setting(
        "log.message.timestamp.type",
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        topic_key="message.timestamp.type",
        dynamic=True,
    ).described("The timestamp of a record: the producer's, or the broker's at the append.")
    min_cleanable_dirty_ratio: float = Setting(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        decimal(0, 1),
        topic_key="min.cleanable.dirty.ratio",
        dynamic=True,
    ).described(
        "A log is compacted when a greater share of its bytes is dirty: written since the last pass of the "
        "cleaner."
    )
    min_compaction_lag_ms: int = Setting(
        "log.cleaner.min.compaction.lag.ms", 0, long(0), "ms", topic_key="min.compaction.lag.ms", dynamic=True
    ).described("Segments with a record that is younger are not compacted.")
    min_insync_replicas: int = Setting(
        "min.insync.replicas",
        1,
        integer(1),
        topic_key="min.insync.replicas",
        dynamic=True,
        inert="every partition has one replica",
    ).described(
        "Replicas that a produce with acks=all requires; as in Kafka at most as many as a partition has."
    )
    preallocate: bool = Setting(
        "log.preallocate",
        False,
        BOOLEAN,
        topic_key="preallocate",
        dynamic=True,
        inert="the file systems that the broker is for gain nothing by it",
    ).described("Whether the file of a new segment is made as large as a segment can become.")
    record_validation: str = Setting(
        "record.validation",
        "compressed",
        one_of("header", "compressed", "full"),
        topic_key="record.validation",
        dynamic=True,
        ours=True,
    ).described(
        "Batches whose records are read before the append; header and CRC are always checked. "
        "`compressed`: compressed batches, as in Kafka; a batch that cannot be decompressed or does not "
        "match its header is refused with INVALID_RECORD and never reaches a consumer. `full`: "
        "uncompressed batches as well, as in Kafka. `header`: none. Compacted topics and topics with "
        "`message.timestamp.before.max.ms` always read all records. For the costs see "
        "[benchmarks.md](benchmarks-figures.md#what-validation-costs)."
    )
    retention_bytes: int = Setting(
        "log.retention.bytes", -1, long(-1), "bytes", topic_key="retention.bytes", dynamic=True
    ).described("The oldest segments of a larger partition are deleted; -1: no limit.")
    retention_ms: int = Setting(
        "log.retention.ms",
        168 * _HOURS,
        long(-1),
        "ms",
        also=(("log.retention.minutes", _MINUTES), ("log.retention.hours", _HOURS)),
        topic_key="retention.ms",
        dynamic=True,
        default_spelling="log.retention.hours",
    ).described("Segments whose newest record is older are deleted; -1: no limit.")
    segment_bytes: int = Setting(
        "log.segment.bytes",
        1_073_741_824,
        integer(1_048_576),
        "bytes",
        topic_key="segment.bytes",
        dynamic=True,
        stored=integer(LEAST_SEGMENT),
    ).described("A segment is rolled before a batch that would make it larger.")
    segment_index_bytes: int = Setting(
        "log.index.size.max.bytes",
        10_485_760,
        integer(4),
        "bytes",
        topic_key="segment.index.bytes",
        dynamic=True,
    ).described("A segment is rolled when its index has this size.")
    segment_jitter_ms: int = Setting(
        "log.roll.jitter.ms",
        0,
        long(0),
        "ms",
        also=(("log.roll.jitter.hours", _HOURS),),
        topic_key="segment.jitter.ms",
        dynamic=True,
        default_spelling="log.roll.jitter.hours",
    ).described(
        "A segment is rolled earlier by a random time up to this, so that not all are rolled at once."
    )
    segment_ms: int = Setting(
        "log.roll.ms",
        168 * _HOURS,
        long(1),
        "ms",
        also=(("log.roll.hours", _HOURS),),
        topic_key="segment.ms",
        dynamic=True,
        default_spelling="log.roll.hours",
    ).described("A segment is rolled when its first record is older.")

    unclean_leader_election_enable: bool = Setting(
        "unclean.leader.election.enable",
        False,
        BOOLEAN,
        topic_key="unclean.leader.election.enable",
        dynamic=True,
        inert="each partition has one replica",
    ).described("Whether a replica that lacks records can become the leader.")

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def recompresses(self) -> bool:
        """Whether batches may have to be compressed anew."""
        return self.compression_type != _PRODUCER

    def codec_for(self, codec: int) -> int:
        """Return the codec of a stored batch that arrives with `codec`, as in its attributes."""
        return _CODECS.get(self.compression_type, codec)

    @property
    def limits_records(self) -> bool:
        """Whether the size of single records is limited."""
        return self.max_decompressed_message_bytes < LARGEST_RECORD

    @property
    def compression_level(self) -> int | None:
        """The level of `compression_type`; None if it has none."""
        match self.compression_type:
            case "gzip":
                return self.compression_gzip_level
            case "lz4":
                return self.compression_lz4_level
            case "zstd":
                return self.compression_zstd_level
        return None

    @property
    def max_segment_ms(self) -> int:
        """How old the first record of a segment may become before the segment is rolled. (Kafka:
        maxSegmentMs)
        """
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @property
    def uses_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"


def _read_false(text: str) -> bool:
    if BOOLEAN.read(text):
        raise ValueError("tiered storage is disabled")
    return False


UNTIERED: Final = ConfigKind(
    ConfigType.BOOLEAN, "false, because tiered storage is disabled", _read_false, BOOLEAN.write
)


@dataclass(frozen=True, slots=True)
class TieredStorage:
    """Tiered storage (KIP-405), which this broker does not have: topics accept the keys, with a warning.

    Topic-only keys, as in Kafka; `TopicSettings` has those with a default of the broker.
    """

    remote_storage_enable: bool = Setting(
        "remote.storage.enable", False, UNTIERED, topic_key="remote.storage.enable"
    ).described("Whether segments are copied to remote storage.")
    remote_log_copy_disable: bool = Setting(
        "remote.log.copy.disable",
        False,
        BOOLEAN,
        topic_key="remote.log.copy.disable",
        inert=NO_TIERED_STORAGE,
    ).described("Whether no further segments are copied to remote storage.")
    remote_log_delete_on_disable: bool = Setting(
        "remote.log.delete.on.disable",
        False,
        BOOLEAN,
        topic_key="remote.log.delete.on.disable",
        inert=NO_TIERED_STORAGE,
    ).described("Whether the end of tiered storage deletes what is in remote storage.")


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Dead letter queues of share groups (KIP-1191). Topic-only, as in Kafka."""

    group_enable: bool = Setting(
        "errors.deadletterqueue.group.enable",
        False,
        BOOLEAN,
        topic_key="errors.deadletterqueue.group.enable",
    ).described("Whether the topic can be the dead letter queue of a share group.")


@dataclass(frozen=True, slots=True)
class InternalSettings:
    """Settings for tests, as Kafka has them."""

    segment_bytes: int | None = Setting(
        "internal.segment.bytes",
        None,
        integer(LEAST_SEGMENT),
        "bytes",
        topic_key="internal.segment.bytes",
        internal=True,
    ).described("The topic's `segment.bytes` if it is set: smaller segments than that allows, for tests.")


TOPIC_ONLY: Final = (TopicThrottles, TieredStorage, DeadLetters, InternalSettings)
"""Sections whose keys have no default of the broker."""

TOPIC_SETTINGS: Final[dict[str, Setting]] = {
    described.topic_key: described
    for section in (TopicSettings, *TOPIC_ONLY)
    for _, described in settings_of(section)
    if described.topic_key is not None
}
"""By the topic's key: `retention.ms`, not `log.retention.ms`."""

DEAD_LETTER_QUEUE: Final = TOPIC_SETTINGS["errors.deadletterqueue.group.enable"]

_FIELDS: Final[dict[str, str]] = {
    described.topic_key: field.name
    for field, described in settings_of(TopicSettings)
    if described.topic_key is not None
}

_THROTTLES: Final[dict[str, str]] = {
    described.key: field.name for field, described in settings_of(TopicThrottles)
}


_INTERNAL: Final[dict[str, str]] = {
    described.key: field.name for field, described in settings_of(InternalSettings)
}
"""Their fields of TopicSettings, whose own values they replace."""


def topic_settings(defaults: TopicSettings, configs: Mapping[str, str]) -> TopicSettings:
    """Return the effective settings of a topic. Raises ConfigError; KeyError for a key that topics do not
    have.
    """
    if not configs:
        return defaults
    return replace(defaults, **(_values(_FIELDS, configs) | _values(_INTERNAL, configs)))


def topic_throttles(configs: Mapping[str, str]) -> TopicThrottles:
    """Return which replicas of a topic are throttled. Raises ConfigError."""
    return TopicThrottles(**_values(_THROTTLES, configs))


def _values(fields: Mapping[str, str], configs: Mapping[str, str]) -> dict[str, Any]:
    read = {key: TOPIC_SETTINGS[key].read_stored(text, key=key) for key, text in configs.items()}
    return {fields[key]: value for key, value in read.items() if key in fields}


def default_text(defaults: TopicSettings, key: str) -> str | None:
    """Return the default of a topic's key, as text."""
    described = TOPIC_SETTINGS[key]
    return described.write(getattr(defaults, _FIELDS[key]) if key in _FIELDS else described.default)
