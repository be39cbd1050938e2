"""Where records lie and how they are kept safe. For broker.log; what can differ by topic is in .topics."""

from dataclasses import dataclass

from broker.config.kinds import LONG_MAX, TEXT, integer, list_of, long, one_of
from broker.config.setting import setting


@dataclass(frozen=True, slots=True)
class LogConfig:
    dirs: tuple[str, ...] = setting(
        "log.dirs",
        ("./data",),
        list_of(TEXT.read, "a list of directories", least=1),
        "Where the partitions lie; the metadata lies in the first. They are made when they are missing.",
        also=(("log.dir", 1),),
        kafka_default="/tmp/kafka-logs",  # noqa: S108 - Kafka's default, quoted
        why="Records should survive a restart of the machine.",
    )
    retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        300_000,
        long(1),
        "How often segments that may be deleted are looked for.",
        unit="ms",
    )
    flush_scheduler_interval_ms: int = setting(
        "log.flush.scheduler.interval.ms",
        LONG_MAX,
        long(1),
        "How often partitions that flush.ms says are due are looked for.",
        unit="ms",
    )
    flush_offset_checkpoint_interval_ms: int = setting(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        integer(0),
        "How often the recovery point of each partition is written down.",
        unit="ms",
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        86_400_000,
        integer(1),
        "An idempotent producer's sequence is forgotten after this long without a record from it.",
        unit="ms",
        dynamic=True,
    )
    producer_id_expiration_check_interval_ms: int = setting(
        "producer.id.expiration.check.interval.ms",
        600_000,
        integer(1),
        "How often expired producers are looked for.",
        unit="ms",
    )
    background_threads: int = setting(
        "background.threads",
        10,
        integer(1),
        "Threads for blocking work that no request waits for: retention, timed flushes, recovery points and "
        "moves between directories. While the broker runs: from half to double of what there are.",
        dynamic=True,
    )
    max_open_files: int = setting(
        "log.max.open.files",
        512,
        integer(16, 1_000_000),
        "Segment and index files held open at once; the longest unused one is closed for the next. "
        "Never more than half of RLIMIT_NOFILE.",
        ours=True,
    )
    transfer: str = setting(
        "log.transfer",
        "mmap",
        one_of("mmap", "sendfile"),
        "How fetched records go from the page cache to the socket. A page of a mapped file that the disk "
        "cannot read kills the process; sendfile answers with an error instead, and is slower.",
        ours=True,
    )
    mapped_max_bytes: int = setting(
        "log.mapped.max.bytes",
        67_108_864,
        long(1_048_576),
        "The most bytes of segments mapped at once with log.transfer=mmap.",
        unit="bytes",
        ours=True,
    )
