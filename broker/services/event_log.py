"""The broker's own event topics: what is to be written waits here, bounded, and is appended in batches.

Offered to by `broker.events` and by the receivers of client telemetry; written by the event writer, once a
second. Offering never waits and never fails: what there is no room for is dropped and counted. Knows nothing
of what the records say; that is `docs/events.md`.
"""

from dataclasses import dataclass, field
from typing import Final

from broker.errors import ApiError
from broker.log.partition import PartitionLog
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from broker.services.partitions import Partitions

BUFFER_BYTES: Final = 8 * 1024 * 1024
"""What may wait for one topic; more than the event writer takes up in a second."""

BATCH_BYTES: Final = 256 * 1024
"""Bytes of records from which on another batch is begun."""

RECORD_OVERHEAD: Final = 64
"""What a record takes beside its key, value and headers, roughly."""


@dataclass(slots=True)
class Waiting:
    """What one topic has in hand; `written` and `dropped` count records since the start."""

    records: list[NewRecord] = field(default_factory=list)
    size: int = 0
    written: int = 0
    dropped: int = 0


class EventLog:
    """`topics` by name, those that anything was ever offered to."""

    def __init__(self, partitions: Partitions, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.topics: dict[str, Waiting] = {}
        self._partitions = partitions
        self._buffer_bytes = buffer_bytes

    def offer(self, topic: str, record: NewRecord) -> bool:
        """Whether there is room for it; else it is dropped."""
        waiting = self.topics.get(topic)
        if waiting is None:
            waiting = self.topics[topic] = Waiting()
        size = _size(record)
        if waiting.size + size > self._buffer_bytes:
            waiting.dropped += 1
            return False
        waiting.size += size
        waiting.records.append(record)
        return True

    def drop(self, topic: str, count: int) -> None:
        """Counts what could not even be offered."""
        self.topics.setdefault(topic, Waiting()).dropped += count

    def missing(self) -> list[str]:
        """Topics that have records and do not exist."""
        known = self._partitions.by_name
        return [name for name, waiting in self.topics.items() if waiting.records and name not in known]

    def write(self, wall_ms: int) -> list[PartitionLog]:
        """Appends what waits for topics that exist, and commits; the logs that have grown.

        Never between somebody's staging and its commit. What the disk or the system refuses is dropped.
        """
        grown = []
        for name, waiting in self.topics.items():
            hosted = self._partitions.by_name.get(name)
            if not waiting.records or hosted is None:
                continue
            records, waiting.records, waiting.size = waiting.records, [], 0
            try:
                log = hosted.log(0)
                assert log is not None
                written = self._append(log, records, wall_ms)
                grown.append(log)
            except (ApiError, OSError):  # no log to be had; or no descriptor, even for loading the codec
                written = 0
            waiting.written += written
            waiting.dropped += len(records) - written
        return grown

    def _append(self, log: PartitionLog, records: list[NewRecord], wall_ms: int) -> int:
        """How many of the records are in the log. Raises ApiError where there is no log to be had."""
        written = 0
        for batch in _in_batches(records):
            try:
                staged = log.stage(
                    build_batch(batch, codec=_codec(batch)), now_wall_ms=wall_ms, internal=True
                )
            except ApiError:  # longer than max.message.bytes, say; the others may fit
                continue
            self._partitions.commit()
            if staged.error is None:
                written += len(batch)
        return written


def _codec(batch: list[NewRecord]) -> Codec:
    """Names repeat themselves from record to record; one that is alone has come compressed, or is small."""
    return Codec.LZ4 if len(batch) > 1 else Codec.NONE


def _in_batches(records: list[NewRecord]) -> list[list[NewRecord]]:
    batches: list[list[NewRecord]] = []
    size = BATCH_BYTES
    for record in records:
        if size >= BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(record)
        size += _size(record)
    return batches


def _size(record: NewRecord) -> int:
    size = RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"")
    return size
