"""Records of share groups in __consumer_offsets, in Kafka's format. (Kafka:
ShareGroupMemberMetadata, ShareGroupMetadata, ShareGroupTargetAssignmentMetadata,
ShareGroupTargetAssignmentMember, ShareGroupCurrentMemberAssignment, ShareGroupStatePartitionMetadata; values
of version 0)
"""

from struct import Struct

from msgspec.structs import replace

from broker.common.slices import Steps
from broker.coordinator.group.messages import Record
from broker.coordinator.group.records import (
    NO_TAGS,
    KeyType,
    ModernKey,
    assignment,
    decode_assignment,
    decode_indexes,
    encode_key,
    epoch_value,
    head,
    indexes,
    string,
    strings,
    value_of,
)
from broker.coordinator.group.share.member import STABLE, ShareMember
from broker.coordinator.group.share.state_partitions import ByTopicId, NamedPartitions, StatePartitions
from broker.records.stored_fields import FlexibleFields, varint

_INT8, _INT16, _INT32, _INT64 = (Struct(f">{code}") for code in "bhiq")


def member_record(group_id: str, member: ShareMember) -> Steps[Record]:
    parts = (
        head(),
        string(member.rack_id),
        string(member.client_id),
        string(member.client_host),
        (yield from strings(member.topics)),
        NO_TAGS,
    )
    return encode_key(ModernKey(KeyType.SHARE_MEMBER, group_id, member.member_id)), b"".join(parts)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    value = epoch_value(epoch) + _INT64.pack(metadata_hash) + NO_TAGS
    return encode_key(ModernKey(KeyType.SHARE_GROUP, group_id)), value


def current_record(group_id: str, member: ShareMember) -> Steps[Record]:
    parts = (
        head(),
        _INT32.pack(member.epoch),
        _INT32.pack(member.previous_epoch),
        _INT8.pack(STABLE),
        (yield from assignment(member.assigned)),
        NO_TAGS,
    )
    return encode_key(ModernKey(KeyType.SHARE_CURRENT, group_id, member.member_id)), b"".join(parts)


def states_record(group_id: str, states: StatePartitions) -> Steps[Record]:
    parts = [head(), (yield from _named(states.initializing))]
    parts.append((yield from _named(states.initialized)))
    parts.append(varint(len(states.deleting) + 1))
    for topic_id, name in states.deleting.items():
        parts += (topic_id, string(name), NO_TAGS)
        yield
    parts.append(NO_TAGS)
    return encode_key(ModernKey(KeyType.SHARE_STATES, group_id)), b"".join(parts)


def decode_member(member: ShareMember, value: bytes) -> ShareMember:
    """Return a member with what it has stated, and the assignment of `member`. Raises UnreadableRecord."""
    reader = value_of(value)
    rack_id, client_id, client_host = reader.nullable_string(), reader.string(), reader.string()
    topics = tuple(reader.string() for _ in range(reader.count()))
    return replace(member, rack_id=rack_id, client_id=client_id, client_host=client_host, topics=topics)


def decode_epoch(value: bytes) -> tuple[int, int]:
    """Return the group's epoch and the hash of its metadata. Raises UnreadableRecord."""
    reader = value_of(value)
    return reader.integer(_INT32), reader.integer(_INT64)


def decode_current(member: ShareMember, value: bytes) -> ShareMember:
    """Return a member with its current assignment. Raises UnreadableRecord."""
    reader = value_of(value)
    epoch, previous_epoch = reader.integer(_INT32), reader.integer(_INT32)
    reader.integer(_INT8)
    assigned = decode_assignment(reader)
    return replace(member, epoch=epoch, previous_epoch=previous_epoch, assigned=assigned)


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


def _named(by_topic: ByTopicId) -> Steps[bytes]:
    parts = [varint(len(by_topic) + 1)]
    for topic_id, (name, partitions) in by_topic.items():
        parts += (topic_id, string(name), indexes(partitions), NO_TAGS)
        yield
    return b"".join(parts)


def _decode_named(reader: FlexibleFields) -> dict[bytes, NamedPartitions]:
    found = {}
    for _ in range(reader.count()):
        topic_id, name = reader.take(16), reader.string()
        found[topic_id] = NamedPartitions(name, decode_indexes(reader))
        reader.skip_tagged()
    return found
