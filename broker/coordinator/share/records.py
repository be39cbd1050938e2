"""Keys and values of __share_group_state in Kafka's format. (Kafka: ShareSnapshotKey, ShareSnapshotValue,
ShareUpdateKey, ShareUpdateValue, version 0)

A snapshot has the whole state of a share partition; a null value forgets it. An update has what changed since
the last snapshot or update.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from broker.coordinator.share.states import STORED, RecordState, SharePartitionKey, StateBatch, combined
from broker.records.stored_fields import FlexibleFields, StoredFields, UnreadableRecord, varint

Record = tuple[bytes, bytes | None]

SNAPSHOT: Final = 0
UPDATE: Final = 1

_INT16, _INT32 = Struct(">h"), Struct(">i")
_VALUE_VERSION: Final = 0
_SNAPSHOT: Final = Struct(">hiiiqqq")
_UPDATE: Final = Struct(">hiiq")
_BATCH: Final = Struct(">qqbh")


class ShareState(NamedTuple):
    """The stored state of a share partition. `batches` are sorted and do not overlap; times in ms.

    `start_offset` is NOT_SET until the first fetch decides it.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    created_ms: int
    written_ms: int
    batches: tuple[StateBatch, ...]

    def after(self, update: "ShareUpdate") -> "ShareState":
        """Return the state after an update. The start offset never moves back."""
        start = max(self.start_offset, update.start_offset)
        return self._replace(
            start_offset=start,
            leader_epoch=max(self.leader_epoch, update.leader_epoch),
            batches=combined(self.batches, update.batches, start),
        )


class ShareUpdate(NamedTuple):
    """A change of a state. `start_offset` is NOT_SET if it stays."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


def encode_key(kind: int, key: SharePartitionKey) -> bytes:
    name = key.group_id.encode()
    return b"".join(
        (_INT16.pack(kind), _INT16.pack(len(name)), name, key.topic_id, _INT32.pack(key.partition))
    )


def encode_snapshot(state: ShareState) -> bytes:
    fixed = _SNAPSHOT.pack(_VALUE_VERSION, *state[:6])
    return b"".join((fixed, *_batches(state.batches), b"\0"))


def encode_update(update: ShareUpdate) -> bytes:
    fixed = _UPDATE.pack(_VALUE_VERSION, *update[:3])
    return b"".join((fixed, *_batches(update.batches), b"\0"))


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
    return ShareState(snapshot_epoch, state_epoch, leader_epoch, start, created_ms, written_ms, batches)


def decode_update(value: bytes) -> ShareUpdate:
    """Raises UnreadableRecord."""
    reader, (snapshot_epoch, leader_epoch, start) = _begin(value, _UPDATE)
    return ShareUpdate(snapshot_epoch, leader_epoch, start, tuple(_read_batches(reader)))


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
