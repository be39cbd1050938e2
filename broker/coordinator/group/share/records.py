"""Records of share groups in __consumer_offsets, in Kafka's format. (Kafka:
ShareGroupMemberMetadata, ShareGroupMetadata, ShareGroupTargetAssignmentMetadata,
ShareGroupTargetAssignmentMember, ShareGroupCurrentMemberAssignment, ShareGroupStatePartitionMetadata; values
of version 0)

At the start, `coordinator.group.persistence` calls `apply` for each record. A key's last value is applied, in
any order of the keys: `finish` completes the groups. (Kafka: GroupMetadataManager.replay)
"""

from struct import Struct
from typing import NamedTuple

from msgspec.structs import replace

from broker.common.slices import Steps
from broker.coordinator.group.consumer.assignment import Assignment
from broker.coordinator.group.messages import Record
from broker.coordinator.group.records import (
    NO_TAGS,
    KeyType,
    ModernKey,
    assignment,
    decode_assignment,
    decode_indexes,
    decode_target,
    decode_target_epoch,
    encode_key,
    head,
    indexes,
    string,
    strings,
    tombstones,
    value_of,
)
from broker.coordinator.group.share.group import STABLE, ShareGroup, ShareMember
from broker.coordinator.group.share.state_partitions import ByTopicId, NamedPartitions, StatePartitions
from broker.records.stored_fields import FlexibleFields, varint

_INT8, _INT16, _INT32, _INT64 = (Struct(f">{code}") for code in "bhiq")


class StoredCurrent(NamedTuple):
    """The current assignment of a member."""

    epoch: int
    previous_epoch: int
    assigned: Assignment


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


def epoch_record(group: ShareGroup) -> Record:
    value = head() + _INT32.pack(group.epoch) + _INT64.pack(group.metadata_hash) + NO_TAGS
    return encode_key(ModernKey(KeyType.SHARE_GROUP, group.group_id)), value


def target_epoch_record(group: ShareGroup) -> Record:
    value = head() + _INT32.pack(group.target_epoch) + NO_TAGS
    return encode_key(ModernKey(KeyType.SHARE_TARGET, group.group_id)), value


def target_record(group_id: str, member_id: str, target: Assignment) -> Steps[Record]:
    value = head() + (yield from assignment(target)) + NO_TAGS
    return encode_key(ModernKey(KeyType.SHARE_TARGET_OF_MEMBER, group_id, member_id)), value


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


def states_record(group: ShareGroup) -> Steps[Record]:
    states = group.states
    parts = [head(), (yield from _named(states.initializing))]
    parts.append((yield from _named(states.initialized)))
    parts.append(varint(len(states.deleting) + 1))
    for topic_id, name in states.deleting.items():
        parts += (topic_id, string(name), NO_TAGS)
        yield
    parts.append(NO_TAGS)
    return encode_key(ModernKey(KeyType.SHARE_STATES, group.group_id)), b"".join(parts)


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


def apply(group: ShareGroup, key: ModernKey, value: bytes) -> None:
    """Apply one record to its group. Raises UnreadableRecord."""
    name = key.name
    known = group.members.get(name, ShareMember(name))
    match key.type:
        case KeyType.SHARE_GROUP:
            group.epoch, group.metadata_hash = decode_epoch(value)
        case KeyType.SHARE_TARGET:
            group.target_epoch = decode_target_epoch(value)
        case KeyType.SHARE_MEMBER:
            group.members[name] = replace(
                decode_member(name, value),
                epoch=known.epoch,
                previous_epoch=known.previous_epoch,
                assigned=known.assigned,
            )
        case KeyType.SHARE_TARGET_OF_MEMBER:
            group.targets[name] = decode_target(value)
        case KeyType.SHARE_CURRENT:
            epoch, previous_epoch, assigned = decode_current(value)
            group.members[name] = replace(
                known, epoch=epoch, previous_epoch=previous_epoch, assigned=assigned
            )
        case KeyType.SHARE_STATES:
            group.states = decode_states(value)
        case _:
            pass


def finish(group: ShareGroup) -> None:
    """Complete a group after all of its records.

    If a member has no target, the records of its last change are incomplete, and the group's next heartbeat
    begins an epoch, unless one has begun already.
    """
    members = group.members
    group.members = {}
    for member in members.values():
        group.put(member)
    group.targets = {each: target for each, target in group.targets.items() if each in members}
    if group.epoch == group.target_epoch and group.targets.keys() != members.keys():
        group.metadata_hash = ~group.metadata_hash  # it differs from that of the topics


def tombstones_of(group: ShareGroup) -> list[Record]:
    """Return the tombstones of all records of a group."""
    records: list[Record] = []
    for member_id in group.members:
        records += member_tombstones(group.group_id, member_id)
    return records + tombstones(
        (KeyType.SHARE_TARGET, KeyType.SHARE_STATES, KeyType.SHARE_GROUP), group.group_id
    )


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    return tombstones(
        (KeyType.SHARE_CURRENT, KeyType.SHARE_TARGET_OF_MEMBER, KeyType.SHARE_MEMBER), group_id, member_id
    )
