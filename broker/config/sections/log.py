"""Storage and durability of records, and the log cleaner. For broker.log and broker.server.disk; settings
that can differ by topic are in .topics.
"""

import os
from dataclasses import dataclass
from sys import float_info
from typing import Final

from broker.common.errors import ConfigError
from broker.config.kinds import BOOLEAN, LONG_MAX, TEXT, decimal, integer, list_of, long, one_of
from broker.config.setting import Setting

ALL_DIRECTORIES: Final = "*"

CORDONED: Final = "cordoned.log.dirs"


@dataclass(frozen=True, slots=True)
class LogConfig:
    dirs: tuple[str, ...] = Setting(
        "log.dirs",
        ("./data",),
        list_of(TEXT.read, "a list of directories", least=1),
        also=(("log.dir", 1),),
        default_spelling="log.dir",
    ).described(
        "The directories of the partitions; the first one also contains the metadata. Missing directories "
        "are created.",
        kafka_default="/tmp/kafka-logs",  # noqa: S108 - Kafka's default, quoted
        why="Records must survive a restart of the machine.",
    )
    cordoned_dirs: tuple[str, ...] = Setting(
        CORDONED, (), list_of(TEXT.read, "a list of directories"), dynamic=True, per_broker=True
    ).described(
        "Directories of log.dirs that get no new partitions and no moved ones, so that they can be emptied; "
        f"`{ALL_DIRECTORIES}` is all of them. While all are cordoned, no topic and no partition can be "
        "created."
    )
    retention_check_interval_ms: int = Setting(
        "log.retention.check.interval.ms", 300_000, long(1), "ms"
    ).described("How often the broker checks for segments to delete.")
    initial_task_delay_ms: int = Setting("log.initial.task.delay.ms", 30_000, long(0), "ms").described(
        "When the broker checks for segments to delete for the first time after its start, or after "
        "log.retention.check.interval.ms if that is less."
    )
    flush_scheduler_interval_ms: int = Setting(
        "log.flush.scheduler.interval.ms", LONG_MAX, long(1), "ms"
    ).described("How often the broker checks for partitions to flush by flush.ms.")
    flush_offset_checkpoint_interval_ms: int = Setting(
        "log.flush.offset.checkpoint.interval.ms", 60_000, integer(0), "ms"
    ).described(
        "How often the broker saves the recovery point of each partition, and flushes the start offsets that "
        "DeleteRecords has advanced."
    )
    producer_id_expiration_ms: int = Setting(
        "producer.id.expiration.ms", 86_400_000, integer(1), "ms", dynamic=True
    ).described("An idempotent producer's state expires after this time without a record from it.")
    producer_id_expiration_check_interval_ms: int = Setting(
        "producer.id.expiration.check.interval.ms", 600_000, integer(1), "ms"
    ).described("How often the broker checks for expired producers.")
    background_threads: int = Setting("background.threads", 10, integer(1), dynamic=True).described(
        "Threads for blocking work outside requests: retention, timed flushes, recovery points and moves "
        "between directories. A dynamic change can at most halve or double the number."
    )
    max_open_files: int = Setting("log.max.open.files", 512, integer(16, 1_000_000), ours=True).described(
        "Maximum number of open segment and index files; for a further one, the least recently used is "
        "closed. Limited to half of RLIMIT_NOFILE."
    )
    transfer: str = Setting("log.transfer", "sendfile", one_of("mmap", "sendfile"), ours=True).described(
        "How fetched records of more than 128 KiB move from the page cache to the socket. mmap copies them "
        "from mappings, which are faster only with send buffers of megabytes."
    )
    mapped_max_bytes: int = Setting(
        "log.mapped.max.bytes", 67_108_864, long(1_048_576), "bytes", ours=True
    ).described("Maximum bytes of segments mapped at once with log.transfer=mmap.")

    @property
    def are_all_cordoned(self) -> bool:
        return all(map(self.is_cordoned, self.dirs))

    def is_cordoned(self, directory: str) -> bool:
        """Return whether a directory of log.dirs gets no new partitions. (KIP-1066)"""
        cordoned = self.cordoned_dirs
        return ALL_DIRECTORIES in cordoned or os.path.abspath(directory) in map(os.path.abspath, cordoned)

    def check(self) -> None:
        """Raises ConfigError."""
        cordoned = ",".join(self.cordoned_dirs)
        if ALL_DIRECTORIES in self.cordoned_dirs:
            if len(self.cordoned_dirs) > 1:
                raise ConfigError(CORDONED, cordoned, f"{ALL_DIRECTORIES} only without other directories")
            return
        directories = set(map(os.path.abspath, self.dirs))
        if not directories.issuperset(map(os.path.abspath, self.cordoned_dirs)):
            raise ConfigError(CORDONED, cordoned, "directories of log.dirs")


LEAST_MAP_BYTES = 1_048_576


@dataclass(frozen=True, slots=True)
class LogCleanerConfig:
    enabled: bool = Setting("log.cleaner.enable", True, BOOLEAN).described(
        "Whether topics with `cleanup.policy=compact` are compacted. Without it they grow without bound."
    )
    threads: int = Setting("log.cleaner.threads", 1, integer(0), dynamic=True).described(
        "Logs that are compacted at the same time. A dynamic change can at most halve or double the number."
    )
    dedupe_buffer_size: int = Setting(
        "log.cleaner.dedupe.buffer.size", 134_217_728, long(LEAST_MAP_BYTES), "bytes", dynamic=True
    ).described(
        "Maximum memory for the offset maps of all cleaner threads. A key takes 24 bytes, whatever its "
        "length. If the dirty part of a log has more keys than its map has room for, several passes clean "
        "it. More than 2 GB for each thread have no effect."
    )
    dedupe_buffer_load_factor: float = Setting(
        "log.cleaner.io.buffer.load.factor", 0.9, decimal(0.01, 1), dynamic=True
    ).described("The share of an offset map that may be used.")
    io_buffer_size: int = Setting(
        "log.cleaner.io.buffer.size", 524_288, integer(0), "bytes", dynamic=True
    ).described("Memory for reading and writing, over all cleaner threads. A larger batch is read alone.")
    io_max_bytes_per_second: float = Setting(
        "log.cleaner.io.max.bytes.per.second",
        float_info.max,
        decimal(0.001, float_info.max),
        "bytes/s",
        dynamic=True,
    ).described("Bytes that all cleaner threads together read and write in a second, on average.")
    backoff_ms: int = Setting("log.cleaner.backoff.ms", 15_000, long(0), "ms", dynamic=True).described(
        "How long a cleaner thread waits when no log is due."
    )
