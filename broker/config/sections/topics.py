"""What a topic is like unless it says otherwise. For broker.log, broker.control and broker.services.

`TopicSettings` is both: its defaults come from the broker's keys (`log.retention.ms`), and each topic's own
settings (`retention.ms`) are laid over them by broker.config.topic.
"""

from dataclasses import dataclass

from broker.config.kinds import BOOLEAN, LONG_MAX, choices_of, integer, long, one_of
from broker.config.setting import setting

_HOURS = 3_600_000
_MINUTES = 60_000


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """How topics come to be."""

    num_partitions: int = setting(
        "num.partitions",
        1,
        integer(1, 10_000),
        "Partitions of a topic that is made without saying how many.",
    )
    default_replication_factor: int = setting(
        "default.replication.factor",
        1,
        integer(1, 32_767),
        "Replicas of a topic that is made without saying how many. With one broker, more than 1 is refused.",
    )
    auto_create_topics: bool = setting(
        "auto.create.topics.enable",
        True,
        BOOLEAN,
        "Whether asking for the metadata of a topic that does not exist makes it.",
    )
    delete_topics: bool = setting(
        "delete.topic.enable",
        True,
        BOOLEAN,
        "Whether topics can be deleted.",
    )


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """How one topic's records are kept."""

    cleanup_policy: tuple[str, ...] = setting(
        "log.cleanup.policy",
        ("delete",),
        choices_of("delete", "compact"),
        "`delete` removes segments by age and size. A topic with `compact` alone is kept whole.",
        topic_key="cleanup.policy",
        dynamic=True,
    )
    compression_type: str = setting(
        "compression.type",
        "producer",
        one_of("producer"),
        "Batches are stored as the producer compressed them.",
        topic_key="compression.type",
    )
    file_delete_delay_ms: int = setting(
        "log.segment.delete.delay.ms",
        60_000,
        long(0),
        "How long the file of a deleted segment stays.",
        unit="ms",
        topic_key="file.delete.delay.ms",
        dynamic=True,
    )
    flush_messages: int = setting(
        "log.flush.interval.messages",
        LONG_MAX,
        long(1),
        "A partition is flushed to the disk when this many records have not been.",
        unit="records",
        topic_key="flush.messages",
        dynamic=True,
    )
    flush_ms: int = setting(
        "log.flush.interval.ms",
        LONG_MAX,
        long(0),
        "A record is flushed to the disk after this long at the latest.",
        unit="ms",
        topic_key="flush.ms",
        dynamic=True,
    )
    index_interval_bytes: int = setting(
        "log.index.interval.bytes",
        4_096,
        integer(0),
        "Bytes of records between two entries of the index.",
        unit="bytes",
        topic_key="index.interval.bytes",
        dynamic=True,
    )
    max_message_bytes: int = setting(
        "message.max.bytes",
        1_048_588,
        integer(0),
        "The largest batch, compressed, that is taken.",
        unit="bytes",
        topic_key="max.message.bytes",
        dynamic=True,
    )
    max_message_records: int = setting(
        "message.max.records",
        262_144,
        integer(1),
        "Records in the largest batch that is taken, however well it is compressed; where every record is "
        "read (see `record.validation`), their headers count as well. A larger batch is refused with "
        "MESSAGE_TOO_LARGE, on which a producer splits it. No uncompressed batch within the default "
        "`message.max.bytes` has more.",
        unit="records",
        topic_key="max.message.records",
        dynamic=True,
        ours=True,
    )
    message_timestamp_after_max_ms: int = setting(
        "log.message.timestamp.after.max.ms",
        3_600_000,
        long(0),
        "How far a record's CreateTime may lie ahead of the broker's clock.",
        unit="ms",
        topic_key="message.timestamp.after.max.ms",
        dynamic=True,
    )
    message_timestamp_before_max_ms: int = setting(
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        long(0),
        "How far a record's CreateTime may lie behind the broker's clock.",
        unit="ms",
        topic_key="message.timestamp.before.max.ms",
        dynamic=True,
    )
    message_timestamp_type: str = setting(
        "log.message.timestamp.type",
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whose time a record carries: the producer's, or the broker's at the append.",
        topic_key="message.timestamp.type",
        dynamic=True,
    )
    min_insync_replicas: int = setting(
        "min.insync.replicas",
        1,
        integer(1),
        "Replicas that a produce with acks=all needs. There is one: more than 1 refuses such produces.",
        topic_key="min.insync.replicas",
        dynamic=True,
    )
    record_validation: str = setting(
        "record.validation",
        "compressed",
        one_of("header", "compressed", "full"),
        "Of which produced batches every record is read before they are taken, beside header and CRC, "
        "which are always checked. `compressed`: of compressed ones, as Kafka does; a batch that cannot be "
        "unpacked or has not the records that its header says is refused with CORRUPT_MESSAGE and reaches no "
        "consumer. `full`: of uncompressed ones as well, as Kafka does. `header`: of none. Compacted topics, "
        "and topics with `message.timestamp.before.max.ms`, have all records read in any case. What each "
        "costs: [benchmarks.md](benchmarks.md#what-validation-costs).",
        topic_key="record.validation",
        dynamic=True,
        ours=True,
    )
    retention_bytes: int = setting(
        "log.retention.bytes",
        -1,
        long(-1),
        "Oldest segments of a partition larger than this are deleted; -1: never.",
        unit="bytes",
        topic_key="retention.bytes",
        dynamic=True,
    )
    retention_ms: int = setting(
        "log.retention.ms",
        168 * _HOURS,
        long(-1),
        "Segments whose newest record is older than this are deleted; -1: never.",
        unit="ms",
        also=(("log.retention.minutes", _MINUTES), ("log.retention.hours", _HOURS)),
        topic_key="retention.ms",
        dynamic=True,
    )
    segment_bytes: int = setting(
        "log.segment.bytes",
        1_073_741_824,
        integer(14),
        "A segment is closed when the next batch would make it larger than this.",
        unit="bytes",
        topic_key="segment.bytes",
        dynamic=True,
    )
    segment_index_bytes: int = setting(
        "log.index.size.max.bytes",
        10_485_760,
        integer(4),
        "A segment is closed when its index is this large.",
        unit="bytes",
        topic_key="segment.index.bytes",
        dynamic=True,
    )
    segment_ms: int = setting(
        "log.roll.ms",
        168 * _HOURS,
        long(1),
        "A segment is closed when its first record is older than this.",
        unit="ms",
        also=(("log.roll.hours", _HOURS),),
        topic_key="segment.ms",
        dynamic=True,
    )

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def uses_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"
