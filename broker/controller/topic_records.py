"""Reads and produces records of a topic on an operator's request. Run by `Control` as operations.

Both are in the audit trail: who read which records of which topic, and who produced one, where. The contents
are not.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final, Protocol

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.controller.commands import Command
from broker.controller.control import Control
from broker.controller.plan import Done, Situation
from broker.log.partition import PartitionLog
from broker.metadata.actor import Role
from broker.metadata.changes import READ, Change, ChangeKind
from broker.metadata.image import is_internal
from broker.partitions.partitions import HostedTopic, Partitions
from broker.partitions.record_expression import MAX_LENGTH as MAX_CONDITION
from broker.partitions.record_expression import Condition, ConditionError
from broker.partitions.record_reader import (
    Cut,
    FoundRecord,
    FoundRecords,
    PartitionPosition,
    Range,
    ReadLimits,
    RecordFilter,
    Stop,
    UnreadableBatch,
    read_records,
)
from broker.records.build import NewRecord, build_batch

__all__ = [
    "MAX_CONDITION",
    "BrowseRecords",
    "Condition",
    "ConditionError",
    "Cut",
    "FoundRecord",
    "FoundRecords",
    "PartitionPosition",
    "ProduceRecord",
    "ProducedRecord",
    "RecordFilter",
    "Start",
    "StartKind",
    "Stop",
    "TopicRecords",
    "UnreadableBatch",
]

MAX_WHOLE: Final = 1_048_576
"""Bytes kept of each key and value if whole ones are wanted; ours, the default of max.message.bytes."""

MAX_DOWNLOAD: Final = 67_108_864
"""Bytes of the one record that is wanted whole; ours, the most that a batch is decompressed to."""

MAX_PARTITIONS: Final = 1_000
"""Partitions that one reading can concern; ours."""

_MAX_NAMED: Final = 20
"""Partitions that the audit trail names."""


class StartKind(StrEnum):
    """EARLIEST: the first record. LATEST: the last `value` records. OFFSET and TIMESTAMP: from `value` on, an
    offset of each partition, or milliseconds since the epoch.
    """

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"


class Start(msgspec.Struct, frozen=True):
    kind: StartKind
    value: int = 0


class BrowseRecords(msgspec.Struct, Command["FoundRecords"], frozen=True):
    """Reads records. Role: console.browse.role. Raises ApiError.

    `partitions`: empty for all. `positions` continues an earlier reading instead of `start`: (partition,
    offset) pairs. At most `limit` records are found. `is_whole` keeps keys and values up to MAX_WHOLE bytes,
    else console.browse.max.shown.bytes. `is_download`: the one record is wanted to the last byte.
    `is_following`: the reader asks again for what comes later, so a continued reading that finds nothing
    leaves no trace.
    """

    topic: str
    start: Start
    partitions: tuple[int, ...] = ()
    positions: tuple[tuple[int, int], ...] = ()
    wanted: RecordFilter = RecordFilter()
    limit: int = 50
    is_whole: bool = False
    is_download: bool = False
    is_following: bool = False


class ProduceRecord(msgspec.Struct, Command["ProducedRecord"], frozen=True):
    """Appends one record. Role: editor. Returns ProducedRecord, raises ApiError.

    `partition` None: that of the key, by Kafka's partitioner, or without a key each partition in turn. A
    `value` of None is a tombstone.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None


class ProducedRecord(msgspec.Struct, frozen=True):
    partition: int
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    timestamp_ms: int


class RunSlices(Protocol):
    def __call__(self, slices: Slices[FoundRecords]) -> Awaitable[FoundRecords]:
        """Run the slices with other tasks in between, and decompression in a thread."""


class TopicRecords:
    """The operations. `now_ms` is monotonic; `grown` is called with a log that has a new record."""

    def __init__(
        self,
        partitions: Partitions,
        run: RunSlices,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        grown: Callable[[PartitionLog], None],
    ) -> None:
        self._partitions = partitions
        self._run = run
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._grown = grown
        self._turn = 0

    def register(self, control: Control) -> None:
        control.add_operation(BrowseRecords, self.browse)
        control.add_operation(ProduceRecord, self.produce)

    async def browse(self, command: BrowseRecords, at: Situation) -> Done[FoundRecords]:
        """Run BrowseRecords."""
        limits = read_limits(command, at)
        hosted = self._hosted(command.topic)
        found = await self._run(self._read(hosted, command, limits))
        return Done(found, reading_notes(command, found))

    def _read(self, hosted: HostedTopic, command: BrowseRecords, limits: ReadLimits) -> Slices[FoundRecords]:
        positions = dict(command.positions)
        ranges = []
        for index in selected(command, hosted.count):
            log = hosted.open_logs.get(index)
            if log is None:
                ranges.append(Range(index, None, 0, 0))
                continue
            log.check_usable()
            end = log.high_watermark
            if index in positions:
                start: int = positions[index]
            else:
                start = yield from _start(command.start, log, end)
            ranges.append(Range(index, log, min(max(start, log.log_start_offset), end), end))
            yield None
        newest = command.start.kind is StartKind.LATEST
        return (yield from read_records(ranges, command.wanted, limits, self._now_ms, newest=newest))

    async def produce(self, command: ProduceRecord, at: Situation) -> Done[ProducedRecord]:
        """Run ProduceRecord. Does not wait for the flush of flush.messages."""
        at.require(Role.EDITOR, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        hosted = self._hosted(command.topic)
        refuse_internal(hosted.name)
        index = self._partition_of(command, hosted)
        log = hosted.log(index)
        if log is None:
            raise no_partition(hosted.name, index, hosted.count)
        wall_ms = self._wall_ms()
        record = NewRecord(command.key, command.value, wall_ms, command.headers)
        staged = log.stage(build_batch([record]), now_wall_ms=wall_ms)
        self._partitions.commit()
        if staged.error is not None:
            raise ApiError(staged.error, "The record could not be written.")
        self._grown(log)
        return produced_at(command.topic, ProducedRecord(index, staged.base_offset, wall_ms))

    def _partition_of(self, command: ProduceRecord, hosted: HostedTopic) -> int:
        if command.partition is not None:
            return command.partition
        if command.key is not None:
            return partition_for_key(command.key, hosted.count)
        self._turn += 1
        return self._turn % hosted.count

    def _hosted(self, name: str) -> HostedTopic:
        hosted = self._partitions.by_name.get(name)
        if hosted is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {name} does not exist.")
        return hosted


def refuse_internal(topic: str) -> None:
    """Raise ApiError for a topic that no operator writes to."""
    if is_internal(topic):
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is internal: only the broker writes to it."
        )


def produced_at(topic: str, produced: ProducedRecord) -> Done[ProducedRecord]:
    text = f"partition {produced.partition}, offset {produced.offset}"
    return Done(produced, (Change(ChangeKind.RECORDS, topic, "produced", text),))


def read_limits(command: BrowseRecords, at: Situation) -> ReadLimits:
    """Return the limits of a reading. Raises ApiError for a missing role, or a limit out of range."""
    console = at.config.console
    at.require(Role[console.browse_role.upper()], ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not 1 <= command.limit <= console.browse_max_records:
        most = console.browse_max_records
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"The limit must be from 1 to {most} records (console.browse.max.records).",
        )
    if command.is_download:
        kept = MAX_DOWNLOAD
    else:
        kept = MAX_WHOLE if command.is_whole else console.browse_max_shown_bytes
    return ReadLimits(command.limit, console.browse_max_read_bytes, console.browse_max_ms, kept)


def selected(command: BrowseRecords, count: int) -> list[int]:
    """Return the partitions to read, of `count`. Raises ApiError UNKNOWN_TOPIC_OR_PARTITION."""
    named = [index for index, _ in command.positions] or command.partitions or range(count)
    if len(named) > MAX_PARTITIONS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{len(named)} partitions are too many for one reading; select at most {MAX_PARTITIONS}.",
        )
    for index in named:
        if not 0 <= index < count:
            raise no_partition(command.topic, index, count)
    return sorted(set(named))


def no_partition(topic: str, index: int, count: int) -> ApiError:
    return ApiError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"{topic} has no partition {index}; it has the partitions 0 to {count - 1}.",
    )


def _start(start: Start, log: PartitionLog, end: int) -> Slices[int]:
    match start.kind:
        case StartKind.EARLIEST:
            return log.log_start_offset
        case StartKind.LATEST:
            return end - start.value
        case StartKind.OFFSET:
            return start.value
    found = yield from log.offset_for_timestamp(start.value)
    return end if found is None else found[0]


def reading_notes(command: BrowseRecords, found: FoundRecords) -> tuple[Change, ...]:
    """Return the row of the audit trail that says what was read: none for a reading that waited for new
    records in vain.
    """
    if command.is_following and command.positions and not found.records:
        return ()
    return (_reading_note(command, found),)


def _reading_note(command: BrowseRecords, found: FoundRecords) -> Change:
    if command.positions:
        begun = "continued"
    elif command.start.kind is StartKind.TIMESTAMP:
        begun = f"from {_moment(command.start.value)}"
    elif command.start.kind is StartKind.EARLIEST:
        begun = "from the earliest"
    else:
        words = "the latest" if command.start.kind is StartKind.LATEST else "from offset"
        begun = f"{words} {command.start.value}"
    indexes = [each.partition for each in found.positions]
    named = ", ".join(map(str, indexes[:_MAX_NAMED]))
    if len(indexes) > _MAX_NAMED:
        named += f" and {len(indexes) - _MAX_NAMED} more"
    noun = "partition" if len(indexes) == 1 else "partitions"
    filters = [
        text
        for text, part in (
            ("by key", command.wanted.key),
            ("by text", command.wanted.contains),
            ("by a condition", command.wanted.condition),
        )
        if part is not None
    ]
    filtered = (
        f", filtered {', '.join(filters[:-1])}{' and ' if filters[1:] else ''}{filters[-1]}"
        if filters
        else ""
    )
    counted = f"{len(found.records)} record{'' if len(found.records) == 1 else 's'}"
    text = f"{counted} of {noun} {named}, {begun}{filtered}"
    return Change(ChangeKind.RECORDS, command.topic, READ, text)


def _moment(epoch_ms: int) -> str:
    """Return a time of clients, which can be beyond every calendar, as text."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{epoch_ms} ms"


_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFF_FFFF


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition to which Kafka's Java producer sends records with this key.

    (Kafka: BuiltInPartitioner.partitionForKey)
    """
    return (murmur2(key) & 0x7FFF_FFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return the hash as an unsigned number of 32 bits. (Kafka: Utils.murmur2)"""
    value = _SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _MASK
        part = (part ^ part >> 24) * _FACTOR & _MASK
        value = value * _FACTOR & _MASK ^ part
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    value = (value ^ value >> 13) * _FACTOR & _MASK
    return value ^ value >> 15
