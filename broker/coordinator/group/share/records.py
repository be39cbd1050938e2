"""Keys and values of share groups in __consumer_offsets, in Kafka's format. (Kafka:
ShareGroupMemberMetadata, ShareGroupMetadata, ShareGroupTargetAssignmentMetadata,
ShareGroupTargetAssignmentMember, ShareGroupCurrentMemberAssignment, ShareGroupStatePartitionMetadata; values
of version 0)

`persistence` applies what has been read.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from broker.common.steps import Pace, Steps
from broker.coordinator.group.consumer.assignment import Assignment
from broker.coordinator.group.messages import Record
from broker.coordinator.group.record_fields import (
    INDEXES,
    NO_TAGS,
    assignment,
    decode_assignment,
    decode_indexes,
    head,
    indexes,
    plain_string,
    string,
    strings,
    value_of,
)
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.share.member import STABLE, ShareMember
from broker.coordinator.group.share.state_partitions import ByTopicId, NamedPartitions, StatePartitions
from broker.records.stored_fields import FlexibleFields, varint

_INT8, _INT16, _INT32, _INT64 = (Struct(f">{code}") for code in "bhiq")


class KeyType(IntEnum):
    """The version of a key is its type."""

    MEMBER = 10
    GROUP = 11
    TARGET = 12
    TARGET_OF_MEMBER = 13
    CURRENT = 14
    STATES = 15


class ShareRecordKey(NamedTuple):
    """`name` is the member id; "" for the types without."""

    type: KeyType
    group_id: str
    name: str = ""


class StoredCurrent(NamedTuple):
    """The current assignment of a member."""

    epoch: int
    previous_epoch: int
    assigned: Assignment


OF_MEMBERS: Final = frozenset({KeyType.MEMBER, KeyType.TARGET_OF_MEMBER, KeyType.CURRENT})


def encode_key(key: ShareRecordKey) -> bytes:
    parts = [_INT16.pack(key.type), plain_string(key.group_id)]
    if key.type in OF_MEMBERS:
        parts.append(plain_string(key.name))
    return b"".join(parts)


def tombstone(key_type: KeyType, group_id: str, name: str = "") -> Record:
    return encode_key(ShareRecordKey(key_type, group_id, name)), None


def member_record(group_id: str, member: ShareMember, pace: Pace) -> Steps[Record]:
    parts = (
        head(),
        string(member.rack_id),
        string(member.client_id),
        string(member.client_host),
        (yield from strings(member.topics, pace)),
        NO_TAGS,
    )
    return encode_key(ShareRecordKey(KeyType.MEMBER, group_id, member.member_id)), b"".join(parts)


def epoch_record(group: ShareGroup) -> Record:
    value = head() + _INT32.pack(group.epoch) + _INT64.pack(group.metadata_hash) + NO_TAGS
    return encode_key(ShareRecordKey(KeyType.GROUP, group.group_id)), value


def target_epoch_record(group: ShareGroup) -> Record:
    value = head() + _INT32.pack(group.target_epoch) + NO_TAGS
    return encode_key(ShareRecordKey(KeyType.TARGET, group.group_id)), value


def target_record(group_id: str, member_id: str, target: Assignment, pace: Pace) -> Steps[Record]:
    value = head() + (yield from assignment(target, pace)) + NO_TAGS
    return encode_key(ShareRecordKey(KeyType.TARGET_OF_MEMBER, group_id, member_id)), value


def current_record(group_id: str, member: ShareMember, pace: Pace) -> Steps[Record]:
    parts = (
        head(),
        _INT32.pack(member.epoch),
        _INT32.pack(member.previous_epoch),
        _INT8.pack(STABLE),
        (yield from assignment(member.assigned, pace)),
        NO_TAGS,
    )
    return encode_key(ShareRecordKey(KeyType.CURRENT, group_id, member.member_id)), b"".join(parts)


def states_record(group: ShareGroup, pace: Pace) -> Steps[Record]:
    states = group.states
    parts = [head(), (yield from _named(states.initializing, pace))]
    parts.append((yield from _named(states.initialized, pace)))
    parts.append(varint(len(states.deleting) + 1))
    for topic_id, name in states.deleting.items():
        parts += (topic_id, string(name), NO_TAGS)
        if pace.spent():
            yield
    parts.append(NO_TAGS)
    return encode_key(ShareRecordKey(KeyType.STATES, group.group_id)), b"".join(parts)


def decode_key(key: bytes) -> ShareRecordKey | None:
    """Decode a key; None for records of other types. Raises UnreadableRecord."""
    reader = FlexibleFields(key)
    number = reader.integer(_INT16)
    if number not in KeyType.__members__.values():
        return None
    key_type = KeyType(number)
    group_id = reader.text(reader.integer(_INT16))
    return ShareRecordKey(
        key_type, group_id, reader.text(reader.integer(_INT16)) if key_type in OF_MEMBERS else ""
    )


def decode_member(member_id: str, value: bytes) -> ShareMember:
    """Decode a member without its assignment. Raises UnreadableRecord."""
    reader = value_of(value)
    rack_id, client_id, client_host = reader.nullable_string(), reader.string(), reader.string()
    topics = tuple(reader.string() for _ in range(reader.count()))
    return ShareMember(member_id, rack_id, client_id, client_host, topics)


def decode_epoch(value: bytes) -> tuple[int, int]:
    """Return the group's epoch and the hash of its metadata. Raises UnreadableRecord."""
    reader = value_of(value)
    return reader.integer(_INT32), reader.integer(_INT64)


def decode_target_epoch(value: bytes) -> int:
    """Raises UnreadableRecord."""
    return value_of(value).integer(_INT32)


def decode_target(value: bytes) -> Assignment:
    """Raises UnreadableRecord."""
    return decode_assignment(value_of(value))


def decode_current(value: bytes) -> StoredCurrent:
    """Raises UnreadableRecord."""
    reader = value_of(value)
    epoch, previous_epoch = reader.integer(_INT32), reader.integer(_INT32)
    reader.integer(_INT8)
    return StoredCurrent(epoch, previous_epoch, decode_assignment(reader))


def decode_states(value: bytes) -> StatePartitions:
    """Raises UnreadableRecord."""
    reader = value_of(value)
    initializing, initialized = _decode_named(reader), _decode_named(reader)
    deleting = {}
    for _ in range(reader.count()):
        topic_id = reader.take(16)
        deleting[topic_id] = reader.string()
        reader.skip_tagged()
    return StatePartitions(initializing, initialized, deleting)


def _named(by_topic: ByTopicId, pace: Pace) -> Steps[bytes]:
    parts = [varint(len(by_topic) + 1)]
    for topic_id, (name, partitions) in by_topic.items():
        parts += (topic_id, string(name), indexes(partitions), NO_TAGS)
        if pace.spent(1 + len(partitions) // INDEXES):
            yield
    return b"".join(parts)


def _decode_named(reader: FlexibleFields) -> dict[bytes, NamedPartitions]:
    found = {}
    for _ in range(reader.count()):
        topic_id, name = reader.take(16), reader.string()
        found[topic_id] = NamedPartitions(name, decode_indexes(reader))
        reader.skip_tagged()
    return found
