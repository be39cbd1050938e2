"""Dead letters: the records that the broker writes for records that a share group could not process.
(KIP-1191; Kafka: ShareGroupDLQStateManager, ShareGroupDLQRecordFetcher)

`server.parts.dead_letters` calls `DeadLetterWriter` for share partitions with records that are ARCHIVING,
with the log of the group's dead letter queue. A dead letter says where the record is and why it is here, and
has a copy of its key and value if the group wants it. The records are archived after that. A kill in between
leaves them ARCHIVING, so that the next start writes their dead letters again.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from broker.common.clock import Clock
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import SLICE, Slices
from broker.config.sections.share_groups import (
    DEAD_LETTER_RECORDS,
    DEAD_LETTER_TOPIC,
    INTERNAL_NAME,
    SharePartitionConfig,
)
from broker.config.sections.topics import DEAD_LETTER_QUEUE
from broker.coordinator.share.share_partition import SharePartition, Span, UndeliveredRange
from broker.coordinator.share.states import SharePartitionKey
from broker.log.partition import PartitionLog
from broker.metadata.image import Topic
from broker.partitions.partitions import Partitions
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from broker.records.header import HEADER_BYTES, Buffer, header_at
from broker.records.packing import unpacked
from broker.records.walk import RecordSpans, record_spans

logger = logging.getLogger(__name__)

REJECTED: Final = "Offset rejected by client."
DELIVERED_TOO_OFTEN: Final = "Offset delivery count exceeded the threshold."

AT_ONCE: Final = 64
"""Records of a batch of dead letters; ours. Building the batch takes a third of a millisecond."""

BATCH_BYTES: Final = 65_536
"""Bytes of a batch with several dead letters; ours."""

IN_ONE_TURN: Final = 1_024
"""Dead letters of one share partition before others have their turn; ours."""

TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})

RETRIED: Final = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors of the queue that may be over later."""

_RECORD_BYTES: Final = 32
"""More than a record has besides its key, its value and its headers."""

_HEADER_BYTES: Final = 10
"""More than a header has besides its name and its value."""


class DeadLetterSettings(NamedTuple):
    """`topic` is the group's dead letter queue, empty without one; `copies`: with keys and values. Its name
    must begin with `prefix`. `creates`: a missing one is created.
    """

    topic: str = ""
    copies: bool = False
    prefix: str = "dlq."
    creates: bool = False


NO_DEAD_LETTERS: Final = DeadLetterSettings()


def dead_letter_settings(configs: Mapping[str, str], config: SharePartitionConfig) -> DeadLetterSettings:
    """Return the settings of a group with these configs of its own, which are valid."""
    return DeadLetterSettings(
        configs.get(DEAD_LETTER_TOPIC.key, "").strip(),
        bool(DEAD_LETTER_RECORDS.read(configs.get(DEAD_LETTER_RECORDS.key, "false"))),
        config.dead_letter_topic_prefix,
        config.creates_dead_letter_topics,
    )


def has_queue(settings: DeadLetterSettings, topics: Mapping[str, Topic]) -> bool:
    """Return whether the dead letter queue exists; False if it is to be created. (Kafka: validateDlqTopic)

    Raises ApiError INVALID_CONFIG if the group has none, or the topic must not be one.
    """
    name, topic = settings.topic, topics.get(settings.topic)
    if not name:
        raise ApiError(ErrorCode.INVALID_CONFIG, "The group has no dead letter queue")
    if name.startswith(INTERNAL_NAME):
        raise ApiError(ErrorCode.INVALID_CONFIG, f"The topic {name} is internal")
    if topic is not None and not DEAD_LETTER_QUEUE.read(topic.configs.get(DEAD_LETTER_QUEUE.key, "false")):
        raise ApiError(ErrorCode.INVALID_CONFIG, f"The topic {name} does not have {DEAD_LETTER_QUEUE.key}")
    if topic is None and not settings.creates:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"The topic {name} does not exist")
    if not name.startswith(settings.prefix):
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"The name of the topic {name} does not begin with {settings.prefix}"
        )
    return topic is not None


class DeadLetterCounts:
    """What was written for one group since the start: dead letters, batches, and those that failed.

    (Kafka: ShareGroupMetrics)
    """

    __slots__ = ("batches", "failed", "records")

    def __init__(self) -> None:
        self.records = 0
        self.batches = 0
        self.failed = 0


class Copied(NamedTuple):
    """The key and the value of a record."""

    key: bytes | None = None
    value: bytes | None = None


NOT_COPIED: Final = Copied()


class SourceRecords:
    """Reads the records of a log at ascending offsets. Not copied are those in control batches and in gaps,
    those that the log has deleted, and all from one on that cannot be read. `log` None: nothing is copied.
    """

    def __init__(self, log: PartitionLog | None) -> None:
        self._log = log
        self._end = 0
        """The first offset after the current batch."""
        self._data: Buffer = b""
        self._records: Iterator[RecordSpans] = iter(())
        self._head: RecordSpans | None = None

    def find(self, offset: int) -> Slices[Copied]:
        """Return a record; in slices, because a batch may have many before it."""
        if self._log is None or offset < self._log.log_start_offset:
            return NOT_COPIED
        try:
            if offset >= self._end:
                yield from self._open(self._log, offset)
            skipped = 0
            while self._head is not None and self._head.offset < offset:
                self._head = next(self._records, None)
                skipped += 1
                if skipped % SLICE == 0:
                    yield None
        except (ApiError, OSError) as error:
            logger.warning("a record cannot be copied", extra={"offset": offset, "reason": str(error)})
            self._log = None
            return NOT_COPIED
        head = self._head
        if head is None or head.offset != offset:
            return NOT_COPIED
        return Copied(self._bytes(head.key), self._bytes(head.value))

    def _open(self, log: PartitionLog, offset: int) -> Slices[None]:
        """Read the batch with the offset, or the first one after it."""
        self._records, self._head, self._end = iter(()), None, offset + 1
        batch = log.read(log.past_gap(offset), 1, min_one_batch=True).read()
        if len(batch) < HEADER_BYTES:
            return
        header = header_at(batch)
        self._end = header.last_offset + 1
        if header.is_control:
            return
        self._data = yield from unpacked(batch)
        self._records = record_spans(header, self._data)
        self._head = next(self._records, None)

    def _bytes(self, span: tuple[int, int] | None) -> bytes | None:
        return None if span is None else bytes(self._data[span[0] : span[1]])


class _Batch:
    """Dead letters that are written together, and the records that they are for."""

    def __init__(self, most_records: int, most_bytes: int) -> None:
        self.letters: list[NewRecord] = []
        self.spans: list[Span] = []
        self._most_records = most_records
        self._left = most_bytes - HEADER_BYTES

    def takes(self, letter: NewRecord) -> bool:
        """Return whether the dead letter fits; the first one always does."""
        return not self.letters or (
            len(self.letters) < self._most_records and _most_bytes(letter) <= self._left
        )

    def add(self, letter: NewRecord, offset: int, *, is_same_range: bool) -> None:
        self.letters.append(letter)
        self._left -= _most_bytes(letter)
        if is_same_range and self.spans:
            self.spans[-1] = Span(self.spans[-1].first, offset)
        else:
            self.spans.append(Span(offset, offset))


def _most_bytes(letter: NewRecord) -> int:
    size = _RECORD_BYTES + len(letter.key or b"") + len(letter.value or b"")
    return size + sum(_HEADER_BYTES + len(name) + len(value or b"") for name, value in letter.headers)


class DeadLetterWriter:
    """Writes dead letters. `archive` is SharePartitions.archive; `grown` is called with each log that has
    grown. Nobody is charged for the bytes: the broker produces them.
    """

    def __init__(
        self,
        partitions: Partitions,
        clock: Clock,
        archive: Callable[[SharePartitionKey, SharePartition, Iterable[Span]], None],
        grown: Callable[[PartitionLog], None],
    ) -> None:
        self.counts: dict[str, DeadLetterCounts] = {}
        """By group id, of the groups that have written any and exist."""
        self._partitions = partitions
        self._clock = clock
        self._archive = archive
        self._grown = grown

    def counts_of(self, group_id: str) -> DeadLetterCounts:
        return self.counts.setdefault(group_id, DeadLetterCounts())

    def forget(self, group_id: str) -> None:
        """Drop the counts of a group that has been deleted. (Kafka keeps them until it stops)"""
        self.counts.pop(group_id, None)

    def write(
        self, key: SharePartitionKey, share: SharePartition, queue: PartitionLog, *, copies: bool
    ) -> Slices[None]:
        """Write the dead letters of a share partition, at most IN_ONE_TURN, and archive their records.

        Records whose dead letters the queue refuses are archived without. Raises ApiError RETRIED, which
        leaves the records ARCHIVING whose dead letters are not written; so does closing the generator.
        """
        topic = self._partitions.by_id.get(key.topic_id)
        if topic is None:
            return  # its states are deleted soon
        source = SourceRecords(_readable(topic.log, key.partition) if copies else None)
        settings, left = queue.settings, IN_ONE_TURN
        limits = min(AT_ONCE, settings.max_message_records), min(BATCH_BYTES, settings.max_message_bytes)
        batch = _Batch(*limits)
        for part in share.undelivered():
            last = min(part.last, part.first + left - 1)
            for offset in range(part.first, last + 1):
                copied = yield from source.find(offset)
                letter = self._letter(key, topic.name, part, offset, copied)
                is_same_range = offset > part.first
                if not batch.takes(letter):
                    yield from self._append(key, share, queue, batch)
                    batch, is_same_range = _Batch(*limits), False
                batch.add(letter, offset, is_same_range=is_same_range)
                yield None
            left -= last - part.first + 1
            if not left:
                break
        if batch.letters:
            yield from self._append(key, share, queue, batch)

    def _letter(
        self, key: SharePartitionKey, topic: str, part: UndeliveredRange, offset: int, copied: Copied
    ) -> NewRecord:
        headers = {
            "topic": topic,
            "partition": str(key.partition),
            "offset": str(offset),
            "group": key.group_id,
            "delivery.count": str(part.deliveries),
            "message": REJECTED if part.is_rejected else DELIVERED_TOO_OFTEN,
        }
        named = tuple((f"__dlq.errors.{name}", text.encode()) for name, text in headers.items())
        return NewRecord(copied.key, copied.value, self._clock.wall_ms(), named)

    def _append(
        self, key: SharePartitionKey, share: SharePartition, queue: PartitionLog, batch: _Batch
    ) -> Slices[None]:
        """Write a batch, and archive its records. Raises ApiError RETRIED."""
        if share.is_fenced:
            return
        counts = self.counts_of(key.group_id)
        try:
            yield from self._write(counts, queue, batch.letters)
        except ApiError as error:
            if error.code in RETRIED:
                raise
            counts.failed += 1
            logger.warning(
                "dead letters are refused",
                extra={"group": key.group_id, "topic": queue.topic, "reason": str(error)},
            )
        self._archive(key, share, batch.spans)

    def _write(self, counts: DeadLetterCounts, queue: PartitionLog, letters: list[NewRecord]) -> Slices[None]:
        """Append a batch. A dead letter that is too large with its copy has none. Raises ApiError."""
        counts.batches += 1
        wall_ms = self._clock.wall_ms()
        try:
            records = build_batch(letters)
            if queue.inspects_from <= Codec.NONE:
                records = yield from queue.inspect(records, wall_ms)
            staged = queue.stage(records, wall_ms, inspected=True)
        except ApiError as error:
            bare = [each._replace(key=None, value=None) for each in letters]
            if error.code not in TOO_LARGE or bare == letters:
                raise
            yield from self._write(counts, queue, bare)
            return
        self._partitions.commit()
        if staged.error is not None:
            raise ApiError(staged.error, f"{queue.topic}-{queue.index} cannot be written")
        counts.records += len(letters)
        self._grown(queue)


def _readable(log_of: Callable[[int], PartitionLog | None], index: int) -> PartitionLog | None:
    """Return the log to copy from, None if it cannot be opened."""
    try:
        return log_of(index)
    except ApiError:
        return None
