"""Records of __consumer_offsets in Kafka's format: keys, offsets and classic groups, and the fields that the
values of groups of the other types have in common.

Used by `transition` to write and by `persistence` to read; the members of the other types are in
`consumer.records`, `share.records` and `streams.records`. A key has plain strings. A value of a classic
group has them too; the others begin with their version, and have compact lengths and tagged fields. (Kafka:
OffsetCommitKey 1, OffsetCommitValue 4 or 1, GroupMetadataKey 2, GroupMetadataValue 3)
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import islice
from struct import Struct, pack
from typing import Final, NamedTuple

import msgspec

from broker.common.slices import SLICE, Steps
from broker.coordinator.group.messages import NO_EPOCH, CommittedOffset, Record
from broker.protocol.schema import ZERO_UUID
from broker.records.stored_fields import FlexibleFields, StoredFields, UnreadableRecord, varint

_INT16, _INT32, _INT64 = (Struct(f">{code}") for code in "hiq")
_OFFSET_AND_EPOCH = Struct(">hqi")
_VERSION_AND_OFFSET = Struct(">hq")

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2

_VALUE_VERSION: Final = 0
"""The version of the values with compact lengths."""


class KeyType(IntEnum):
    """What a record is about: the version of its key. (Kafka: CoordinatorRecordType)"""

    GROUP = 3
    PARTITIONS = 4
    MEMBER = 5
    TARGET = 6
    TARGET_OF_MEMBER = 7
    CURRENT = 8
    EXPRESSION = 16

    SHARE_MEMBER = 10
    SHARE_GROUP = 11
    SHARE_TARGET = 12
    SHARE_TARGET_OF_MEMBER = 13
    SHARE_CURRENT = 14
    SHARE_STATES = 15

    STREAMS_GROUP = 17
    STREAMS_MEMBER = 19
    STREAMS_TARGET = 20
    STREAMS_TARGET_OF_MEMBER = 21
    STREAMS_CURRENT = 22
    STREAMS_TOPOLOGY = 23


NAMED: Final = frozenset(
    {
        KeyType.MEMBER,
        KeyType.TARGET_OF_MEMBER,
        KeyType.CURRENT,
        KeyType.EXPRESSION,
        KeyType.SHARE_MEMBER,
        KeyType.SHARE_TARGET_OF_MEMBER,
        KeyType.SHARE_CURRENT,
        KeyType.STREAMS_MEMBER,
        KeyType.STREAMS_TARGET_OF_MEMBER,
        KeyType.STREAMS_CURRENT,
    }
)
"""The types whose keys have a name."""


class GroupKeys(NamedTuple):
    """The types of the records of one type of group. `rest` is of the group too."""

    group: KeyType
    member: KeyType
    target: KeyType
    target_of_member: KeyType
    current: KeyType
    rest: KeyType


class ModernKey(NamedTuple):
    """`name` is the member id or the regular expression; "" for the types without."""

    type: KeyType
    group_id: str
    name: str = ""


def encode_key(key: ModernKey) -> bytes:
    parts = [_INT16.pack(key.type), plain_string(key.group_id)]
    if key.type in NAMED:
        parts.append(plain_string(key.name))
    return b"".join(parts)


def tombstone(key_type: KeyType, group_id: str, name: str = "") -> Record:
    return encode_key(ModernKey(key_type, group_id, name)), None


def tombstones(key_types: Iterable[KeyType], group_id: str, name: str = "") -> list[Record]:
    return [tombstone(each, group_id, name) for each in key_types]


NO_TAGS: Final = b"\0"
"""The end of a struct without tagged fields."""

_TOPIC_ID: Final = b"\1\0\x10"
"""The number of tagged fields; the tag and the size of the topic id of an offset."""


def head() -> bytes:
    """Return the version of a value."""
    return _INT16.pack(_VALUE_VERSION)


def value_of(value: bytes) -> FlexibleFields:
    """Return the fields after the version. Raises UnreadableRecord for another version."""
    reader = FlexibleFields(value)
    version = reader.integer(_INT16)
    if version != _VALUE_VERSION:
        raise UnreadableRecord(f"unsupported value version {version}: expected {_VALUE_VERSION}")
    return reader


SHORT: Final = 127
"""Bytes of a string whose length takes more than one byte."""

_LENGTHS: Final = [varint(length + 1) for length in range(SHORT)]


def plain_string(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff"
    encoded = value.encode()
    return _INT16.pack(len(encoded)) + encoded


def string(value: str | None) -> bytes:
    if value is None:
        return b"\0"
    return string_of(value.encode())


def string_of(encoded: bytes) -> bytes:
    return varint(len(encoded) + 1) + encoded


def strings(values: Collection[str]) -> Steps[bytes]:
    parts = [varint(len(values) + 1)]
    left = iter(values)
    while some := [value.encode() for value in islice(left, SLICE)]:
        parts += [_LENGTHS[len(each)] + each if len(each) < SHORT else string_of(each) for each in some]
        yield
    return b"".join(parts)


def indexes(partitions: Collection[int]) -> bytes:
    """Encode partitions in ascending order."""
    return varint(len(partitions) + 1) + pack(f">{len(partitions)}i", *sorted(partitions))


def decode_indexes(reader: FlexibleFields) -> frozenset[int]:
    """Raises UnreadableRecord."""
    return frozenset(reader.integer(_INT32) for _ in range(reader.count()))


def assignment(partitions: Mapping[bytes, frozenset[int]]) -> Steps[bytes]:
    """Encode partitions by topic id."""
    parts = [varint(len(partitions) + 1)]
    for topic_id, some in partitions.items():
        parts += (topic_id, indexes(some), NO_TAGS)
        yield
    return b"".join(parts)


def decode_assignment(reader: FlexibleFields) -> dict[bytes, frozenset[int]]:
    """Raises UnreadableRecord."""
    found = {}
    for _ in range(reader.count()):
        topic_id = reader.take(16)
        found[topic_id] = decode_indexes(reader)
        reader.skip_tagged()
    return found


def epoch_value(epoch: int) -> bytes:
    """Return the beginning of a value that states an epoch."""
    return head() + _INT32.pack(epoch)


def decode_target_epoch(value: bytes) -> int:
    """Raises UnreadableRecord."""
    return value_of(value).integer(_INT32)


def decode_target(value: bytes) -> dict[bytes, frozenset[int]]:
    """Raises UnreadableRecord."""
    return decode_assignment(value_of(value))


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
    return b"".join((_INT16.pack(1), plain_string(group_id), plain_string(topic), _INT32.pack(partition)))


def encode_offset_value(committed: CommittedOffset) -> bytes:
    stamp = _INT64.pack(committed.commit_ms)
    if committed.expire_ms is None:
        head = _OFFSET_AND_EPOCH.pack(4, committed.offset, committed.leader_epoch)
        topic_id = committed.topic_id
        tagged = NO_TAGS if topic_id == ZERO_UUID else _TOPIC_ID + topic_id
        return b"".join((head, string(committed.metadata), stamp, tagged))
    # Only version 1 has an expiry time; it has neither a leader epoch nor a topic id.
    head, expiry = _VERSION_AND_OFFSET.pack(1, committed.offset), _INT64.pack(committed.expire_ms)
    return b"".join((head, plain_string(committed.metadata), stamp, expiry))


def encode_group_key(group_id: str) -> bytes:
    return _INT16.pack(GROUP_KEY_VERSION) + plain_string(group_id)


def encode_group_value(group: StoredGroup, members: Sequence[EncodedMember]) -> bytes:
    """Encode the group with these members in place of its own, which `encode_member` has encoded."""
    parts = [
        _INT16.pack(3),
        plain_string(group.protocol_type),
        _INT32.pack(group.generation_id),
        plain_string(group.protocol),
        plain_string(group.leader),
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
            plain_string(member_id),
            plain_string(instance_id),
            plain_string(client_id),
            plain_string(client_host),
            _INT32.pack(rebalance_timeout_ms),
            _INT32.pack(session_timeout_ms),
        )
    )


def decode_key(key: bytes) -> OffsetKey | GroupKey | ModernKey | None:
    """Decode a key; None for records of other group types. Raises UnreadableRecord."""
    reader = _Reader(key)
    version = reader.integer(_INT16)
    if version in OFFSET_KEY_VERSIONS:
        return OffsetKey(reader.string(), reader.string(), reader.integer(_INT32))
    if version == GROUP_KEY_VERSION:
        return GroupKey(reader.string())
    if version not in KeyType.__members__.values():
        return None
    key_type = KeyType(version)
    return ModernKey(key_type, reader.string(), reader.string() if key_type in NAMED else "")


def decode_offset_value(value: bytes) -> CommittedOffset:
    """Decode versions 0 to 4. Raises UnreadableRecord."""
    reader = _Reader(value)
    version = reader.version(4)
    if version == 4:
        return _flexible_offset(FlexibleFields(value))
    offset = reader.integer(_INT64)
    epoch = reader.integer(_INT32) if version >= 3 else NO_EPOCH
    metadata, commit_ms = reader.string(), reader.integer(_INT64)
    expire_ms = reader.integer(_INT64) if version == 1 else -1
    return CommittedOffset(offset, epoch, metadata, commit_ms, None if expire_ms == -1 else expire_ms)


def _flexible_offset(reader: FlexibleFields) -> CommittedOffset:
    reader.take(_INT16.size)
    offset, epoch = reader.integer(_INT64), reader.integer(_INT32)
    metadata, commit_ms = reader.string(), reader.integer(_INT64)
    topic_id = reader.tagged().get(0, ZERO_UUID)
    if len(topic_id) != len(ZERO_UUID):
        raise UnreadableRecord(f"a topic id has {len(ZERO_UUID)} bytes, not {len(topic_id)}")
    return CommittedOffset(offset, epoch, metadata, commit_ms, None, topic_id)


def decode_group_value(value: bytes) -> StoredGroup:
    """Decode versions 0 to 3. Raises UnreadableRecord."""
    reader = _Reader(value)
    version = reader.version(3)
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


class _Reader(StoredFields):
    """The fields of a version that is not flexible, whose strings begin with their length in two bytes."""

    __slots__ = ()

    def version(self, newest: int) -> int:
        version = self.integer(_INT16)
        if not 0 <= version <= newest:
            raise UnreadableRecord(f"unsupported value version {version}: expected 0 to {newest}")
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
