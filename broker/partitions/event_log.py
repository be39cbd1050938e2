"""Bounded buffers for the broker's own event topics, and their records as batches for the partitions.

`broker.monitoring.events` and the client telemetry receivers offer records; the event writer appends them
once a second, to a broker's own logs or to a gateway's topics in the upstream cluster. Offering never waits
and never fails: records beyond the limit are dropped and counted. `docs/events.md` defines the records.
"""

from collections.abc import Callable, Iterator
from typing import Final
from zlib import crc32

import msgspec

from broker.common.errors import ApiError
from broker.log.partition import PartitionLog
from broker.partitions.partitions import Partitions
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec

BUFFER_BYTES: Final = 8 * 1024 * 1024
"""Maximum buffered bytes per topic; more than the event writer appends in a second."""

BATCH_BYTES: Final = 256 * 1024
"""Bytes of records after which a new batch starts."""

COMPRESSED_FROM: Final = 1_024
"""Bytes of records from which a batch is compressed. A quiet broker's batches are smaller, so it never loads
the codecs' library, which would be 2 MB of its memory.
"""

RECORD_OVERHEAD: Final = 64
"""Approximate bytes of a record beyond its key, value and headers."""


class Waiting(msgspec.Struct):
    """The buffered records of one topic. `written` and `dropped` count records since startup."""

    records: list[NewRecord] = msgspec.field(default_factory=list)
    size: int = 0
    written: int = 0
    dropped: int = 0


class EventBuffer:
    """The buffers of all topics, by topic name."""

    def __init__(self, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.topics: dict[str, Waiting] = {}
        self._buffer_bytes = buffer_bytes

    def offer(self, topic: str, record: NewRecord) -> bool:
        """Buffer the record and return True, or drop it if the buffer is full."""
        waiting = self.topics.get(topic)
        if waiting is None:
            waiting = self.topics[topic] = Waiting()
        size = size_of(record)
        if waiting.size + size > self._buffer_bytes:
            waiting.dropped += 1
            return False
        waiting.size += size
        waiting.records.append(record)
        return True

    def drop(self, topic: str, count: int) -> None:
        """Count records that were dropped before they were offered."""
        self.topics.setdefault(topic, Waiting()).dropped += count

    def take(self, topic: str, count: int | None = None) -> list[NewRecord]:
        """Remove the oldest records of a topic, all unless a `count` is given. The caller counts them as
        written or dropped, or puts them back.
        """
        waiting = self.topics[topic]
        if count is None or count >= len(waiting.records):
            records, waiting.records, waiting.size = waiting.records, [], 0
        else:
            records = waiting.records[:count]
            del waiting.records[:count]
            waiting.size -= sum(map(size_of, records))
        return records

    def put_back(self, topic: str, records: list[NewRecord], most_bytes: int) -> None:
        """Buffer records that were taken again, before those of the topic that came meanwhile. The oldest are
        dropped and counted while the topic would have more than `most_bytes`.
        """
        waiting = self.topics[topic]
        size, first = waiting.size, len(records)
        while first and size + size_of(records[first - 1]) <= most_bytes:
            first -= 1
            size += size_of(records[first])
        waiting.records[:0] = records[first:]
        waiting.size = size
        waiting.dropped += first


class EventPartitions:
    """A record's key decides its partition (librdkafka's `consistent` partitioner); batches of records
    without a key go to the partitions in turn.
    """

    def __init__(self) -> None:
        self._turn = 0

    def divide(self, records: list[NewRecord], count: int) -> Iterator[tuple[int, list[NewRecord]]]:
        """Yield the batches of each of `count` partitions."""
        keyed: dict[int, list[NewRecord]] = {}
        others = []
        for record in records:
            if record.key is None:
                others.append(record)
            else:
                keyed.setdefault(crc32(record.key) % count, []).append(record)
        for partition, part in keyed.items():
            for batch in in_batches(part):
                yield partition, batch
        for batch in in_batches(others):
            yield self._turn % count, batch
            self._turn += 1


def codec_of(batch: list[NewRecord]) -> Codec:
    """Compress batches, because names repeat; a single record is small or already compressed."""
    if len(batch) > 1 and sum(map(size_of, batch)) >= COMPRESSED_FROM:
        return Codec.LZ4
    return Codec.NONE


def in_batches(records: list[NewRecord]) -> list[list[NewRecord]]:
    batches: list[list[NewRecord]] = []
    size = BATCH_BYTES
    for record in records:
        if size >= BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(record)
        size += size_of(record)
    return batches


def size_of(record: NewRecord) -> int:
    size = RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"")
    return size


class EventLog(EventBuffer):
    """Buffers whose records the broker appends to its own logs."""

    def __init__(self, partitions: Partitions, buffer_bytes: int = BUFFER_BYTES) -> None:
        super().__init__(buffer_bytes)
        self._partitions = partitions
        self._divided_over = EventPartitions()

    def missing(self) -> list[str]:
        """Return the topics with buffered records that do not exist."""
        known = self._partitions.by_name
        return [name for name, waiting in self.topics.items() if waiting.records and name not in known]

    def write(self, wall_ms: int) -> list[PartitionLog]:
        """Append and commit the records of existing topics; return the logs that have grown.

        Never call it between staging and commit of another append. Drops records that cannot be written.
        """
        grown: dict[PartitionLog, None] = {}
        for name, waiting in self.topics.items():
            hosted = self._partitions.by_name.get(name)
            if not waiting.records or hosted is None:
                continue
            records = self.take(name)
            written = 0
            for partition, batch in self._divided_over.divide(records, hosted.count):
                try:
                    log = hosted.log(partition)
                    assert log is not None
                    written += self._append(log, batch, wall_ms)
                except (ApiError, OSError):  # no log, or no descriptor even to load the codec
                    continue
                grown[log] = None
            waiting.written += written
            waiting.dropped += len(records) - written
        return list(grown)

    def _append(self, log: PartitionLog, batch: list[NewRecord], wall_ms: int) -> int:
        """Return how many of the records were appended. Raises ApiError if the log is unavailable, or the
        batch is larger than max.message.bytes.
        """
        staged = log.stage(build_batch(batch, codec=codec_of(batch)), now_wall_ms=wall_ms, internal=True)
        self._partitions.commit()
        return len(batch) if staged.error is None else 0


Headers = tuple[tuple[str, bytes | None], ...]


class EventOrigin(msgspec.Struct, frozen=True):
    """The origin of an event: headers of every record in an event topic, so that tables of several
    clusters, brokers and gateways can be one.

    `cluster` returns the cluster's id, empty while it is unknown; a gateway's is that of its upstream
    cluster. `gateway` is the gateway's own id, empty for a broker.
    """

    node_id: int
    cluster: Callable[[], str]
    gateway: str = ""

    def headers(self) -> Headers:
        named = {"cluster": self.cluster(), "node": str(self.node_id), "gateway": self.gateway}
        return tuple((name, text.encode()) for name, text in named.items() if text)
