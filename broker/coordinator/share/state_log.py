"""One partition of __share_group_state: its records, the state of each share partition, and the pruning.

Called by `persister`, the only writer of the topic. Keys and values are in Kafka's format: a snapshot has the
whole state of a share partition; a null value forgets it. An update has what changed since the last snapshot
or update. A write adds an update; after a number of them it adds a snapshot, which makes the earlier records
of that share partition obsolete. `prune` writes a snapshot of the states whose last one is old, and deletes
the records before the oldest snapshot, once the rest is flushed. (Kafka: ShareCoordinatorShard,
ShareCoordinatorOffsetsManager; ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey and ShareUpdateValue of
version 0)
"""

import logging
from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.share.states import (
    NOT_SET,
    STORED,
    RecordState,
    SharePartitionKey,
    StateBatch,
    combined,
)
from broker.coordinator.topic_logs import read_batches
from broker.log.partition import PartitionLog
from broker.log.staged import Staged
from broker.records.build import NewRecord, build_batch
from broker.records.stored_fields import FlexibleFields, StoredFields, UnreadableRecord, varint
from broker.records.walk import records

Record = tuple[bytes, bytes | None]

SNAPSHOT: Final = 0
UPDATE: Final = 1

_INT16, _INT32 = Struct(">h"), Struct(">i")
_VALUE_VERSION: Final = 0
_SNAPSHOT: Final = Struct(">hiiiqqq")
_UPDATE: Final = Struct(">hiiq")
_BATCH: Final = Struct(">qqbh")
_COMPLETE: Final = 0
"""The tag of the number of records whose delivery is complete. (Kafka 4.2)"""


MAX_COMPLETE: Final = 0x7FFF_FFFF
"""The highest number of complete records that a message can have."""


class ShareState(NamedTuple):
    """The stored state of a share partition. `batches` are sorted and do not overlap; times in ms.

    `start_offset` is NOT_SET until the first fetch decides it. `stated` is the number of complete records
    that the last writer stated; NOT_SET if it stated none, so that `batches` have it.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    created_ms: int
    written_ms: int
    batches: tuple[StateBatch, ...]
    stated: int = NOT_SET

    @property
    def complete(self) -> int:
        """The number of records from the start offset on that are never delivered again; NOT_SET without a
        start offset.
        """
        if self.stated != NOT_SET or self.start_offset == NOT_SET:
            return self.stated
        complete = sum(each.last - each.first + 1 for each in self.batches if each.state.is_terminal)
        return min(complete, MAX_COMPLETE)

    def after(self, update: "ShareUpdate") -> "ShareState":
        """Return the state after an update. The start offset never moves back."""
        start = max(self.start_offset, update.start_offset)
        return self._replace(
            start_offset=start,
            leader_epoch=max(self.leader_epoch, update.leader_epoch),
            batches=combined(self.batches, update.batches, start),
            stated=update.stated,
        )


class ShareUpdate(NamedTuple):
    """A change of a state. `start_offset` is NOT_SET if it stays; `stated` as in ShareState."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]
    stated: int = NOT_SET


def encode_key(kind: int, key: SharePartitionKey) -> bytes:
    name = key.group_id.encode()
    return b"".join(
        (_INT16.pack(kind), _INT16.pack(len(name)), name, key.topic_id, _INT32.pack(key.partition))
    )


def encode_snapshot(state: ShareState) -> bytes:
    fixed = _SNAPSHOT.pack(_VALUE_VERSION, *state[:6])
    return b"".join((fixed, *_batches(state.batches), _tagged(state.stated)))


def encode_update(update: ShareUpdate) -> bytes:
    fixed = _UPDATE.pack(_VALUE_VERSION, *update[:3])
    return b"".join((fixed, *_batches(update.batches), _tagged(update.stated)))


def decode_key(key: bytes) -> tuple[int, SharePartitionKey] | None:
    """Return the kind and the key; None for a key of another version. Raises UnreadableRecord."""
    reader = StoredFields(key)
    kind = reader.integer(_INT16)
    if kind not in (SNAPSHOT, UPDATE):
        return None
    group_id = reader.text(reader.integer(_INT16))
    return kind, SharePartitionKey(group_id, reader.take(16), reader.integer(_INT32))


def decode_snapshot(value: bytes) -> ShareState:
    """Raises UnreadableRecord."""
    reader, fixed = _begin(value, _SNAPSHOT)
    snapshot_epoch, state_epoch, leader_epoch, start, created_ms, written_ms = fixed
    batches = combined((), _read_batches(reader), start)
    stated = _stated(reader)
    return ShareState(
        snapshot_epoch, state_epoch, leader_epoch, start, created_ms, written_ms, batches, stated
    )


def decode_update(value: bytes) -> ShareUpdate:
    """Raises UnreadableRecord."""
    reader, (snapshot_epoch, leader_epoch, start) = _begin(value, _UPDATE)
    batches = tuple(_read_batches(reader))
    return ShareUpdate(snapshot_epoch, leader_epoch, start, batches, _stated(reader))


def _begin(value: bytes, form: Struct) -> tuple[FlexibleFields, tuple[int, ...]]:
    reader = FlexibleFields(value)
    version, *fixed = form.unpack(reader.take(form.size))
    if version != _VALUE_VERSION:
        raise UnreadableRecord(f"unsupported value version {version}: expected {_VALUE_VERSION}")
    return reader, tuple(fixed)


def _batches(batches: Iterable[StateBatch]) -> Iterable[bytes]:
    packed = [_BATCH.pack(*each) + b"\0" for each in batches]
    return (varint(len(packed) + 1), *packed)


def _read_batches(reader: FlexibleFields) -> Iterable[StateBatch]:
    for _ in range(reader.count()):
        first, last, state, count = _BATCH.unpack(reader.take(_BATCH.size))
        if state not in STORED or first > last:
            raise UnreadableRecord(f"invalid state batch {first} to {last}, state {state}")
        yield StateBatch(first, last, RecordState(state), count)
        reader.skip_tagged()


def _tagged(stated: int) -> bytes:
    """Encode the tagged fields of a value."""
    return b"\0" if stated == NOT_SET else b"\1" + bytes((_COMPLETE, _INT32.size)) + _INT32.pack(stated)


def _stated(reader: FlexibleFields) -> int:
    value = reader.tagged().get(_COMPLETE)
    return NOT_SET if value is None else StoredFields(value).integer(_INT32)


logger = logging.getLogger(__name__)

SPARE: Final = 1_000
"""Records after the last snapshot of a state that `prune` leaves alone, or four times the number of states if
that is more: a log that is not written is not rewritten."""

SNAPSHOTS_AT_ONCE: Final = 128
"""Snapshots that one `prune` writes."""


class KeptState:
    """The state of one share partition, and where its last snapshot is.

    `updates` were written since then, and `staged` records are not committed yet.
    """

    __slots__ = ("snapshot_ms", "snapshot_offset", "staged", "state", "updates")

    def __init__(self, state: ShareState, snapshot_offset: int, snapshot_ms: int) -> None:
        self.state = state
        self.snapshot_offset = snapshot_offset
        self.snapshot_ms = snapshot_ms
        self.updates = 0
        self.staged = 0


class StagedState:
    """A record that the next commit writes. `new` is a whole state, an update, or None for a deletion.

    `is_reset`: it does not continue the state before it.
    """

    __slots__ = ("is_reset", "kept", "key", "new", "staged")

    def __init__(
        self,
        key: SharePartitionKey,
        new: ShareState | ShareUpdate | None,
        kept: KeptState | None,
        staged: Staged,
        *,
        is_reset: bool,
    ) -> None:
        self.key = key
        self.new = new
        self.kept = kept
        self.staged = staged
        self.is_reset = is_reset


class StateLog:
    """A partition's log and the states in it. `updates_per_snapshot`:
    share.coordinator.snapshot.update.records.per.snapshot.
    """

    def __init__(self, log: PartitionLog, updates_per_snapshot: int) -> None:
        self.log = log
        self.states: dict[SharePartitionKey, KeptState] = {}
        self._updates_per_snapshot = updates_per_snapshot
        self._to_delete: tuple[int, int] | None = None
        """The offset before which everything is obsolete, and the end that must be flushed first."""

    def read(self) -> None:
        """Fill `states` from the log, as `read_batches` does."""
        read_batches(self.log, self._read_batch, logger)

    def _read_batch(self, batch: memoryview) -> None:
        for record in records(batch):
            self._replay(record.key, record.value, record.offset)

    def _replay(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        decoded = None if key is None else decode_key(key)
        if decoded is None:
            return
        kind, share_key = decoded
        if kind == SNAPSHOT:
            new = None if value is None else decode_snapshot(value)
            self._apply(share_key, new, offset)
        elif value is not None:
            self._apply(share_key, decode_update(value), offset)

    def _apply(self, key: SharePartitionKey, new: ShareState | ShareUpdate | None, offset: int) -> None:
        kept = self.states.get(key)
        if new is None:
            self.states.pop(key, None)
        elif isinstance(new, ShareState):
            if kept is None:
                self.states[key] = KeptState(new, offset, new.written_ms)
            else:
                kept.state, kept.updates = new, 0
                kept.snapshot_offset, kept.snapshot_ms = offset, new.written_ms
        elif kept is not None and offset > kept.snapshot_offset:
            kept.state = kept.state.after(new)
            kept.updates += 1

    def stage_update(
        self, key: SharePartitionKey, kept: KeptState, update: ShareUpdate, wall_ms: int
    ) -> StagedState:
        """Stage an update, or a snapshot with it if one is due. Raises ApiError as PartitionLog.stage."""
        if kept.updates >= self._updates_per_snapshot and not kept.staged:
            return self.stage_state(key, self._snapshot(kept.state.after(update), wall_ms), wall_ms)
        update = update._replace(snapshot_epoch=kept.state.snapshot_epoch)
        return self._stage(key, update, UPDATE, encode_update(update), wall_ms)

    def stage_state(
        self, key: SharePartitionKey, state: ShareState | None, wall_ms: int, *, is_reset: bool = False
    ) -> StagedState:
        """Stage a whole state, or a deletion. Raises ApiError as PartitionLog.stage."""
        value = None if state is None else encode_snapshot(state)
        return self._stage(key, state, SNAPSHOT, value, wall_ms, is_reset=is_reset)

    def settle(self, staged: StagedState) -> ErrorCode:
        """Apply a committed record, or return the error of one that was not written."""
        if staged.kept is not None:
            staged.kept.staged -= 1
        if staged.staged.error is not None:
            return staged.staged.error
        self._apply(staged.key, staged.new, staged.staged.base_offset)
        return ErrorCode.NONE

    def _stage(
        self,
        key: SharePartitionKey,
        new: ShareState | ShareUpdate | None,
        kind: int,
        value: bytes | None,
        wall_ms: int,
        *,
        is_reset: bool = False,
    ) -> StagedState:
        batch = build_batch([NewRecord(encode_key(kind, key), value, wall_ms)])
        staged = self.log.stage(batch, now_wall_ms=wall_ms, internal=True)
        kept = self.states.get(key)
        if kept is not None:
            kept.staged += 1
        return StagedState(key, new, kept, staged, is_reset=is_reset)

    @staticmethod
    def _snapshot(state: ShareState, wall_ms: int) -> ShareState:
        return state._replace(snapshot_epoch=state.snapshot_epoch + 1, written_ms=wall_ms)

    # Pruning

    def stage_cold(self, wall_ms: int, interval_ms: int) -> list[StagedState]:
        """Stage snapshots of states whose last one is old and has many records after it. Requires that
        nothing is staged. Raises ApiError.
        """
        bound = self.log.high_watermark - max(SPARE, 4 * len(self.states))
        cold = [
            (key, kept.state)
            for key, kept in self.states.items()
            if kept.snapshot_offset < bound and wall_ms - kept.snapshot_ms >= interval_ms and not kept.staged
        ]
        return [
            self.stage_state(key, self._snapshot(state, wall_ms), wall_ms)
            for key, state in cold[:SNAPSHOTS_AT_ONCE]
        ]

    def delete_obsolete(self) -> None:
        """Delete the records before the oldest snapshot, if everything was flushed that the log had when they
        became obsolete.
        """
        log = self.log
        try:
            if self._to_delete is not None:
                start, end = self._to_delete
                if log.recovery_point < end:
                    return
                log.delete_records_before(start)
            start = min((each.snapshot_offset for each in self.states.values()), default=log.high_watermark)
            self._to_delete = (start, log.high_watermark) if start > log.log_start_offset else None
        except ApiError as error:
            logger.warning("%s-%d: obsolete records cannot be removed: %s", log.topic, log.index, error)
