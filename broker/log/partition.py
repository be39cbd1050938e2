"""One partition's log: batches in, slices out (Kafka's UnifiedLog without replication).

Called by the Produce and Fetch handlers through the store, by the groups' and events' writers, and by
recovery and retention. Knows batches, offsets and segments; no request, no task, no clock.

An append has two steps. `stage` checks a batch, gives it its offsets and queues it; `commit` writes
everything that is queued with one system call. Only then do readers see it: `next_offset` runs ahead of
`high_watermark` in between. What cannot be written is taken back whole, as if it had never been staged.
"""

from bisect import bisect_right
from operator import attrgetter
from typing import Final, NamedTuple

from broker.config.rooms.topics import TopicSettings
from broker.errors import ApiError, ErrorCode
from broker.log.disk import OpenFiles
from broker.log.producers import Producers, TakenBatch, sequence_after
from broker.log.segment import Segment
from broker.log.slice import EMPTY, FileSlice
from broker.log.windows import Transfer
from broker.records.header import APPEND_TIME_FLAG, CONTROL_FLAG, PREFIX, TRANSACTIONAL_FLAG, HeaderFields
from broker.records.rewrite import stamp_append_time
from broker.records.validate import check_batch

_UNUSUAL: Final = APPEND_TIME_FLAG | CONTROL_FLAG | TRANSACTIONAL_FLAG
_MOST_MARKS: Final = 1_024
_FARTHEST: Final = 0x7FFF_FFFF
"""How far an offset may lie from the base of its segment: indexes store the distance in four bytes."""

_base_offset = attrgetter("base_offset")
_write_prefix = PREFIX.pack_into


class Staged:
    """A batch that will be written by the next commit; its offsets are valid if `error` is None after that.

    `log_append_time` is -1 unless the topic stamps its records. `duplicate`: the batch is in the log already,
    under the offsets given here, and is not written again.
    """

    __slots__ = (
        "base_offset",
        "duplicate",
        "error",
        "last_offset",
        "log_append_time",
        "log_start_offset",
        "max_timestamp",
        "size",
    )

    def __init__(
        self,
        base_offset: int,
        last_offset: int,
        log_start_offset: int,
        log_append_time: int,
        max_timestamp: int,
        size: int,
        duplicate: bool = False,
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_start_offset = log_start_offset
        self.log_append_time = log_append_time
        self.max_timestamp = max_timestamp
        self.size = size
        self.duplicate = duplicate
        self.error: ErrorCode | None = None


class FailedAppend(NamedTuple):
    """What a commit could not write, and took back."""

    partition: "PartitionLog"
    staged: list[Staged]
    error: OSError


class Shared(NamedTuple):
    """What the partitions of a store have in common. `dirty` are those with staged batches, in order of
    arrival.
    """

    files: OpenFiles
    transfer: Transfer
    dirty: list["PartitionLog"]
    failed: list[FailedAppend]


class _Mark(NamedTuple):
    """Where a reader that asks for a certain offset starts."""

    segment: Segment
    position: int
    batch_bytes: int


class PartitionLog:
    """Everything here belongs to the event loop's thread."""

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: bytes,
        directory: str,
        settings: TopicSettings,
        shared: Shared,
        segments: list[Segment],
        *,
        log_start_offset: int = 0,
        end_offset: int = 0,
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.directory = directory
        self.settings = settings
        self.segments = segments
        self.producers = Producers()
        self.offline: OSError | None = None
        self.log_start_offset = log_start_offset
        self.high_watermark = end_offset
        self.next_offset = end_offset
        self._shared = shared
        self._staged: list[Staged] = []
        self._buffers: list[memoryview] = []
        self._marks: dict[int, _Mark] = {}
        self._end = segments[-1].size
        self._max_bytes = settings.max_message_bytes
        self._latest_ms = settings.message_timestamp_after_max_ms
        self._roll_bytes = self._roll_ms = self._roll_offset = -1

    @property
    def log_end_offset(self) -> int:
        """One past the last record that readers may see."""
        return self.high_watermark

    @property
    def size(self) -> int:
        """Bytes of records."""
        return sum(segment.size for segment in self.segments)

    def stage(
        self, records: memoryview, *, now_wall_ms: int, leader_epoch: int = 0, internal: bool = False
    ) -> Staged:
        """Takes one batch, writing its offset and the epoch into the (writable) buffer, which the caller
        keeps as it is until the commit.

        Raises ApiError as records.validate, producers and the topic's settings have it, KAFKA_STORAGE_ERROR
        when the log is offline or a new segment cannot be made. Then nothing has changed.
        """
        if self.offline is not None:
            raise self._is_offline()
        header = check_batch(records, self._max_bytes)
        base_offset, length, _, _, _, attributes, delta, _, max_timestamp, producer_id, epoch, sequence, _ = (
            header
        )
        stamp = -1
        if attributes & _UNUSUAL or base_offset or max_timestamp > now_wall_ms + self._latest_ms:
            self._check_unusual(header, now_wall_ms, internal)
        if producer_id >= 0:
            taken = self.producers.check(producer_id, epoch, sequence, delta)
            if taken is not None:
                return self._again(taken)
        size = length + 12
        offset = self.next_offset
        last_offset = offset + delta
        if (
            self._end + size > self._roll_bytes
            or max_timestamp > self._roll_ms
            or last_offset > self._roll_offset
        ):
            self._make_room(size, max_timestamp, last_offset)
            offset = self.next_offset
            last_offset = offset + delta
        if self.settings.uses_append_time:
            stamp = max_timestamp = now_wall_ms
            stamp_append_time(records, now_wall_ms)
        _write_prefix(records, 0, offset, length, leader_epoch)
        if producer_id >= 0:
            batch = TakenBatch(sequence, sequence_after(sequence, delta), offset, last_offset, max_timestamp)
            self.producers.add(producer_id, epoch, batch, now_wall_ms)
        staged = Staged(offset, last_offset, self.log_start_offset, stamp, max_timestamp, size)
        if not self._staged:
            self._shared.dirty.append(self)
        self._staged.append(staged)
        self._buffers.append(records)
        self._end += size
        self.next_offset = last_offset + 1
        return staged

    def commit(self) -> None:
        """Writes what is staged. A failure is noted in every Staged and in the store's list; nothing is
        raised.
        """
        staged, self._staged = self._staged, []
        buffers, self._buffers = self._buffers, []
        if not staged:
            return
        segment = self.segments[-1]
        position = segment.size
        try:
            segment.append(buffers, staged, self.settings.index_interval_bytes)
        except OSError as error:
            self._take_back(staged, error)
            return
        self.producers.settle()
        self.high_watermark = self.next_offset
        marks = self._marks
        if len(marks) >= _MOST_MARKS:
            marks.clear()
        first = staged[0]
        marks[first.base_offset] = _Mark(segment, position, first.size)

    def read(self, offset: int, max_bytes: int, *, min_one_batch: bool) -> FileSlice:
        """Bytes from the batch that holds `offset` on, at most `max_bytes`, so that the last batch may be cut
        off.

        When the first batch is larger than that: it alone and whole with `min_one_batch`, nothing without. At
        the high watermark: nothing. Raises ApiError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
        """
        mark = self._marks.get(offset)
        if mark is None:
            mark = self._find(offset)
            if mark is None:
                return EMPTY
        segment, position, batch_bytes = mark
        length = segment.size - position
        if length > max_bytes:
            length = max_bytes
        if length < batch_bytes:
            if not min_one_batch:
                return EMPTY
            length = batch_bytes
        shared = self._shared
        try:
            return FileSlice(shared.files.get(segment.path), position, length, shared.transfer)
        except OSError as error:
            raise _storage_error(error) from error

    def _find(self, offset: int) -> _Mark | None:
        if self.offline is not None:
            raise self._is_offline()
        if not self.log_start_offset <= offset <= self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{offset} is outside of {self.log_start_offset} to {self.high_watermark}",
            )
        segments = self.segments
        try:
            for segment in segments[max(bisect_right(segments, offset, key=_base_offset) - 1, 0) :]:
                found = segment.locate(offset)
                if found is not None:
                    if len(self._marks) >= _MOST_MARKS:
                        self._marks.clear()
                    mark = self._marks[offset] = _Mark(segment, found.position, found.header.size)
                    return mark
        except OSError as error:
            raise _storage_error(error) from error
        return None

    def _again(self, taken: TakenBatch) -> Staged:
        stamp = taken.max_timestamp if self.settings.uses_append_time else -1
        return Staged(
            taken.base_offset, taken.last_offset, self.log_start_offset, stamp, taken.max_timestamp, 0, True
        )

    def _check_unusual(self, header: HeaderFields, now_wall_ms: int, internal: bool) -> None:
        attributes, max_timestamp = header[5], header[8]
        if header[0] != 0:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"The baseOffset of the record batch in the append to {self.topic}-{self.index} should be 0,"
                f" but it is {header[0]}",
            )
        if attributes & APPEND_TIME_FLAG:
            raise ApiError(
                ErrorCode.INVALID_TIMESTAMP, "A producer does not set the timestamp type LogAppendTime"
            )
        if attributes & CONTROL_FLAG and not internal:
            raise ApiError(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records")
        if attributes & TRANSACTIONAL_FLAG and not internal:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "No transaction is ongoing for this producer")
        if max_timestamp > now_wall_ms + self._latest_ms and not self.settings.uses_append_time:
            raise ApiError(
                ErrorCode.INVALID_TIMESTAMP,
                f"Timestamp {max_timestamp} is more than {self._latest_ms} ms ahead of the broker's clock",
            )

    def _make_room(self, size: int, max_timestamp: int, last_offset: int) -> None:
        """Sees to it that the active segment takes the batch, by rolling if it must. Raises ApiError."""
        active, settings = self.segments[-1], self.settings
        if self._end == 0:
            self._roll_ms = max_timestamp + settings.segment_ms
        elif self._roll_ms < 0:
            first = next(active.batches(), None)
            self._roll_ms = settings.segment_ms + (first.header.max_timestamp if first else max_timestamp)
        self._roll_bytes = settings.segment_bytes
        self._roll_offset = active.base_offset + _FARTHEST
        fits = self._end + size <= self._roll_bytes and last_offset <= self._roll_offset
        if self._end == 0 or (fits and max_timestamp <= self._roll_ms):
            return
        self.roll()
        self._make_room(size, max_timestamp, self.next_offset + last_offset - self.next_offset)

    def roll(self) -> None:
        """Closes the active segment and opens the next. Raises ApiError."""
        self.commit()
        active = self.segments[-1]
        try:
            active.seal()
            fresh = Segment(self._shared.files, self.directory, self.next_offset)
            fresh.open()
        except OSError as error:
            raise _storage_error(error) from error
        self.segments.append(fresh)
        self._end = 0
        self._roll_ms = -1

    def _take_back(self, staged: list[Staged], error: OSError) -> None:
        for each in staged:
            each.error = ErrorCode.KAFKA_STORAGE_ERROR
        self.producers.undo()
        self.next_offset = self.high_watermark
        self._end = self.segments[-1].size
        self._shared.failed.append(FailedAppend(self, staged, error))

    def _is_offline(self) -> ApiError:
        return ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic}-{self.index} is offline: {self.offline}"
        )


def _storage_error(error: OSError) -> ApiError:
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
