"""The log cleaner. For broker.log.cleaner and broker.server.disk; settings that can differ by topic are in
.topics.
"""

from dataclasses import dataclass
from sys import float_info

from broker.config.kinds import BOOLEAN, decimal, integer, long
from broker.config.setting import setting

LEAST_MAP_BYTES = 1_048_576


@dataclass(frozen=True, slots=True)
class LogCleanerConfig:
    enabled: bool = setting(
        "log.cleaner.enable",
        True,
        BOOLEAN,
        "Whether topics with `cleanup.policy=compact` are compacted. Without it they grow without bound.",
    )
    threads: int = setting(
        "log.cleaner.threads",
        1,
        integer(0),
        "Logs that are compacted at the same time. A dynamic change can at most halve or double the number.",
        dynamic=True,
    )
    dedupe_buffer_size: int = setting(
        "log.cleaner.dedupe.buffer.size",
        134_217_728,
        long(LEAST_MAP_BYTES),
        "Maximum memory for the offset maps of all cleaner threads. A key takes 24 bytes, whatever its "
        "length. If the dirty part of a log has more keys than its map has room for, several passes clean "
        "it. More than 2 GB for each thread have no effect.",
        unit="bytes",
        dynamic=True,
    )
    dedupe_buffer_load_factor: float = setting(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        decimal(0.01, 1),
        "The share of an offset map that may be used.",
        dynamic=True,
    )
    io_buffer_size: int = setting(
        "log.cleaner.io.buffer.size",
        524_288,
        integer(0),
        "Memory for reading and writing, over all cleaner threads. A larger batch is read alone.",
        unit="bytes",
        dynamic=True,
    )
    io_max_bytes_per_second: float = setting(
        "log.cleaner.io.max.bytes.per.second",
        float_info.max,
        decimal(0.001, float_info.max),
        "Bytes that all cleaner threads together read and write in a second, on average.",
        unit="bytes/s",
        dynamic=True,
    )
    backoff_ms: int = setting(
        "log.cleaner.backoff.ms",
        15_000,
        long(0),
        "How long a cleaner thread waits when no log is due.",
        unit="ms",
        dynamic=True,
    )
