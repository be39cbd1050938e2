"""Keys and values of __consumer_offsets in Kafka's format.

Used by `transition` to write and by `persistence` to read. The records of consumer groups are in
`consumer.records`, those of share groups in `coordinator.share.records`. (Kafka: OffsetCommitKey 1,
OffsetCommitValue 3 or 1, GroupMetadataKey 2, GroupMetadataValue 3.)
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

import msgspec

from broker.coordinator.group.consumer.records import ConsumerKey
from broker.coordinator.group.consumer.records import decode_key as decode_consumer_key
from broker.coordinator.group.messages import NO_EPOCH, CommittedOffset
from broker.coordinator.group.share.records import ShareRecordKey
from broker.coordinator.group.share.records import decode_key as decode_share_key
from broker.records.stored_fields import StoredFields, UnreadableRecord

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_OFFSET_AND_EPOCH = Struct(">hqi")
_VERSION_AND_OFFSET = Struct(">hq")


class OffsetKey(msgspec.Struct, frozen=True):
    group_id: str
    topic: str
    partition: int


class GroupKey(msgspec.Struct, frozen=True):
    group_id: str


class StoredMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


EncodedMember = tuple[bytes, bytes, bytes]
"""The result of `encode_member`, the subscription and the assignment."""


class StoredGroup(msgspec.Struct, frozen=True):
    """A group between two rebalances. `state_ms` is the time of its last state change, -1 if not recorded."""

    protocol_type: str
    generation_id: int
    protocol: str | None
    leader: str | None
    state_ms: int
    members: tuple[StoredMember, ...]


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return b"".join((_INT16.pack(1), _string(group_id), _string(topic), _INT32.pack(partition)))


def encode_offset_value(committed: CommittedOffset) -> bytes:
    metadata, stamp = _string(committed.metadata), _INT64.pack(committed.commit_ms)
    if committed.expire_ms is None:
        return b"".join(
            (_OFFSET_AND_EPOCH.pack(3, committed.offset, committed.leader_epoch), metadata, stamp)
        )
    # Only version 1 has an expiry time; it has no leader epoch.
    head, expiry = _VERSION_AND_OFFSET.pack(1, committed.offset), _INT64.pack(committed.expire_ms)
    return b"".join((head, metadata, stamp, expiry))


def encode_group_key(group_id: str) -> bytes:
    return _INT16.pack(GROUP_KEY_VERSION) + _string(group_id)


def encode_group_value(group: StoredGroup, members: Sequence[EncodedMember]) -> bytes:
    """Encode the group with these members in place of its own, which `encode_member` has encoded."""
    parts = [
        _INT16.pack(3),
        _string(group.protocol_type),
        _INT32.pack(group.generation_id),
        _string(group.protocol),
        _string(group.leader),
        _INT64.pack(group.state_ms),
        _INT32.pack(len(members)),
    ]
    for member, subscription, assignment in members:
        parts += (
            member,
            _INT32.pack(len(subscription)),
            subscription,
            _INT32.pack(len(assignment)),
            assignment,
        )
    return b"".join(parts)


def encode_member(
    member_id: str,
    instance_id: str | None,
    client_id: str,
    client_host: str,
    rebalance_timeout_ms: int,
    session_timeout_ms: int,
) -> bytes:
    """Encode what a member keeps from one generation to the next."""
    return b"".join(
        (
            _string(member_id),
            _string(instance_id),
            _string(client_id),
            _string(client_host),
            _INT32.pack(rebalance_timeout_ms),
            _INT32.pack(session_timeout_ms),
        )
    )


def decode_key(key: bytes) -> OffsetKey | GroupKey | ConsumerKey | ShareRecordKey | None:
    """Decode a key; None for records of other group types. Raises UnreadableRecord."""
    reader = _Reader(key)
    version = reader.integer(_INT16)
    if version in OFFSET_KEY_VERSIONS:
        return OffsetKey(reader.string(), reader.string(), reader.integer(_INT32))
    if version == GROUP_KEY_VERSION:
        return GroupKey(reader.string())
    return decode_consumer_key(key) or decode_share_key(key)


def decode_offset_value(value: bytes) -> CommittedOffset:
    """Decode versions 0 to 3. Raises UnreadableRecord."""
    reader = _Reader(value)
    version = reader.version()
    offset = reader.integer(_INT64)
    epoch = reader.integer(_INT32) if version >= 3 else NO_EPOCH
    metadata, commit_ms = reader.string(), reader.integer(_INT64)
    expire_ms = reader.integer(_INT64) if version == 1 else -1
    return CommittedOffset(offset, epoch, metadata, commit_ms, None if expire_ms == -1 else expire_ms)


def decode_group_value(value: bytes) -> StoredGroup:
    """Decode versions 0 to 3. Raises UnreadableRecord."""
    reader = _Reader(value)
    version = reader.version()
    protocol_type, generation_id = reader.string(), reader.integer(_INT32)
    protocol, leader = reader.nullable_string(), reader.nullable_string()
    state_ms = reader.integer(_INT64) if version >= 2 else -1
    members = tuple(_stored_member(reader, version) for _ in range(reader.integer(_INT32)))
    return StoredGroup(protocol_type, generation_id, protocol, leader, state_ms, members)


def _stored_member(reader: "_Reader", version: int) -> StoredMember:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.integer(_INT32) if version >= 1 else -1
    session_timeout_ms = reader.integer(_INT32)
    if rebalance_timeout_ms == -1:
        rebalance_timeout_ms = session_timeout_ms
    return StoredMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        session_timeout_ms,
        reader.take(reader.integer(_INT32)),
        reader.take(reader.integer(_INT32)),
    )


def _string(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff"
    encoded = value.encode()
    return _INT16.pack(len(encoded)) + encoded


class _Reader(StoredFields):
    """The fields of a version that is not flexible, whose strings begin with their length in two bytes."""

    __slots__ = ()

    def version(self) -> int:
        version = self.integer(_INT16)
        if not 0 <= version <= 3:
            raise UnreadableRecord(f"unsupported value version {version}: expected 0 to 3")
        return version

    def nullable_string(self) -> str | None:
        size = self.integer(_INT16)
        if size == -1:
            return None
        return self.text(size)

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise UnreadableRecord(f"unexpected null string before {self._at}")
        return value
