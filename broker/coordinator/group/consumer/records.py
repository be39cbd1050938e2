"""Records of consumer groups in __consumer_offsets, in Kafka's format. (Kafka: ConsumerGroupMetadata,
ConsumerGroupMemberMetadata, ConsumerGroupTargetAssignmentMetadata, ConsumerGroupTargetAssignmentMember,
ConsumerGroupCurrentMemberAssignment, ConsumerGroupRegularExpression; values of version 0)

The records of a member may have thousands of topics, and are encoded in steps. At the start,
`coordinator.group.persistence` calls `apply` for each. A key's last value is applied, in any order of the
keys: `finish` completes the groups. (Kafka: GroupMetadataManager.replay) ConsumerGroupPartitionMetadata,
which Kafka 4.0 wrote, has no meaning here; it goes with its group.
"""

import logging
from struct import Struct
from typing import Final, NamedTuple

from msgspec.structs import replace

from broker.common.slices import Steps, sorted_in_steps
from broker.coordinator.group.consumer.assignment import Assignment, overlap
from broker.coordinator.group.consumer.group import ConsumerGroup, ResolvedExpression
from broker.coordinator.group.consumer.member import ClassicProtocols, ConsumerMember, MemberState
from broker.coordinator.group.messages import Record
from broker.coordinator.group.records import (
    NO_TAGS,
    KeyType,
    ModernKey,
    assignment,
    decode_assignment,
    decode_target,
    decode_target_epoch,
    encode_key,
    head,
    string,
    strings,
    tombstone,
    tombstones,
    value_of,
)
from broker.records.stored_fields import FlexibleFields, varint

logger = logging.getLogger(__name__)


_INT8, _INT16, _INT32, _INT64 = (Struct(f">{code}") for code in "bhiq")

_METADATA_HASH: Final = 0
_CLASSIC_MEMBER: Final = 0


class StoredCurrent(NamedTuple):
    """The current assignment of a member."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Assignment
    revoking: Assignment


def epoch_record(group: ConsumerGroup) -> Record:
    content = _INT64.pack(group.metadata_hash)
    tagged = varint(1) + varint(_METADATA_HASH) + varint(len(content)) + content
    value = head() + _INT32.pack(group.epoch) + tagged
    return encode_key(ModernKey(KeyType.GROUP, group.group_id)), value


def member_record(group_id: str, member: ConsumerMember) -> Steps[Record]:
    parts = [
        head(),
        string(member.instance_id),
        string(member.rack_id),
        string(member.client_id),
        string(member.client_host),
        (yield from strings(member.topics)),
        string(member.regex),
        _INT32.pack(member.rebalance_timeout_ms),
        string(member.assignor),
    ]
    if member.classic is None:
        parts.append(NO_TAGS)
    else:
        content = _classic(member.classic)
        parts += (varint(1), varint(_CLASSIC_MEMBER), varint(len(content)), content)
    return encode_key(ModernKey(KeyType.MEMBER, group_id, member.member_id)), b"".join(parts)


def target_record(group_id: str, member_id: str, target: Assignment) -> Steps[Record]:
    value = head() + (yield from assignment(target)) + NO_TAGS
    return encode_key(ModernKey(KeyType.TARGET_OF_MEMBER, group_id, member_id)), value


def target_epoch_record(group: ConsumerGroup) -> Record:
    value = head() + _INT32.pack(group.target_epoch) + NO_TAGS
    return encode_key(ModernKey(KeyType.TARGET, group.group_id)), value


def current_record(group_id: str, member: ConsumerMember) -> Steps[Record]:
    value = b"".join(
        (
            head(),
            _INT32.pack(member.epoch),
            _INT32.pack(member.previous_epoch),
            _INT8.pack(member.state),
            (yield from assignment(member.assigned)),
            (yield from assignment(member.revoking)),
            NO_TAGS,
        )
    )
    return encode_key(ModernKey(KeyType.CURRENT, group_id, member.member_id)), value


def expression_record(group_id: str, regex: str, resolved: ResolvedExpression) -> Steps[Record]:
    times = _INT64.pack(resolved.version) + _INT64.pack(resolved.wall_ms)
    names = yield from sorted_in_steps(resolved.topics)
    value = head() + (yield from strings(names)) + times + NO_TAGS
    return encode_key(ModernKey(KeyType.EXPRESSION, group_id, regex)), value


def decode_epoch(value: bytes) -> tuple[int, int]:
    """Return the group's epoch and the hash of its metadata. Raises UnreadableRecord."""
    reader = value_of(value)
    epoch, tagged = reader.integer(_INT32), reader.tagged()
    content = tagged.get(_METADATA_HASH)
    return epoch, 0 if content is None else FlexibleFields(content).integer(_INT64)


def decode_member(member_id: str, value: bytes) -> ConsumerMember:
    """Decode a member without its assignment. Raises UnreadableRecord."""
    reader = value_of(value)
    instance_id, rack_id = reader.nullable_string(), reader.nullable_string()
    client_id, client_host = reader.string(), reader.string()
    topics = tuple(reader.string() for _ in range(reader.count()))
    regex, rebalance_timeout_ms = reader.nullable_string(), reader.integer(_INT32)
    assignor, tagged = reader.nullable_string(), reader.tagged()
    content = tagged.get(_CLASSIC_MEMBER)
    return ConsumerMember(
        member_id,
        instance_id,
        rack_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        topics,
        regex,
        assignor,
        None if content is None else _decode_classic(content),
    )


def decode_current(value: bytes) -> StoredCurrent:
    """Decode a member's current assignment; an unknown state is UNKNOWN. Raises UnreadableRecord."""
    reader = value_of(value)
    epoch, previous_epoch = reader.integer(_INT32), reader.integer(_INT32)
    number = reader.integer(_INT8)
    state = MemberState(number) if number in MemberState.__members__.values() else MemberState.UNKNOWN
    return StoredCurrent(epoch, previous_epoch, state, decode_assignment(reader), decode_assignment(reader))


def decode_expression(value: bytes) -> ResolvedExpression:
    """Raises UnreadableRecord."""
    reader = value_of(value)
    topics = frozenset(reader.string() for _ in range(reader.count()))
    return ResolvedExpression(topics, reader.integer(_INT64), reader.integer(_INT64))


def _classic(classic: ClassicProtocols) -> bytes:
    parts = [_INT32.pack(classic.session_timeout_ms), varint(len(classic.protocols) + 1)]
    for name, metadata in classic.protocols:
        parts += (string(name), varint(len(metadata) + 1), metadata, NO_TAGS)
    return b"".join((*parts, NO_TAGS))


def _decode_classic(content: bytes) -> ClassicProtocols:
    reader = FlexibleFields(content)
    session_timeout_ms = reader.integer(_INT32)
    protocols = []
    for _ in range(reader.count()):
        name, metadata = reader.string(), reader.take(reader.count())
        protocols.append((name, metadata))
        reader.skip_tagged()
    return ClassicProtocols(session_timeout_ms, tuple(protocols))


def apply(group: ConsumerGroup, key: ModernKey, value: bytes) -> None:
    """Apply one record to its group. Raises UnreadableRecord."""
    name = key.name
    match key.type:
        case KeyType.GROUP:
            group.set_epoch(*decode_epoch(value))
        case KeyType.TARGET:
            group.target_epoch = decode_target_epoch(value)
        case KeyType.MEMBER:
            known = group.members.get(name, ConsumerMember(name))
            group.members[name] = replace(
                decode_member(name, value),
                epoch=known.epoch,
                previous_epoch=known.previous_epoch,
                state=known.state,
                assigned=known.assigned,
                revoking=known.revoking,
            )
        case KeyType.TARGET_OF_MEMBER:
            group.targets[name] = decode_target(value)
        case KeyType.CURRENT:
            epoch, previous_epoch, state, assigned, revoking = decode_current(value)
            group.members[name] = replace(
                group.members.get(name, ConsumerMember(name)),
                epoch=epoch,
                previous_epoch=previous_epoch,
                state=state,
                assigned=assigned,
                revoking=revoking,
            )
        case KeyType.EXPRESSION:
            group.expressions[name] = decode_expression(value)
        case _:
            pass


def finish(group: ConsumerGroup) -> None:
    """Complete a group after all of its records.

    If damaged records state two owners of a partition, the second member is dropped: its next heartbeat is
    refused with UNKNOWN_MEMBER_ID, and it joins again. If a member has no target, the records of its last
    change are incomplete, and the group's next heartbeat begins an epoch, unless one has begun already.
    """
    members, targets = group.members, group.targets
    group.members, group.targets = {}, {}
    for member_id, member in members.items():
        has = (member.assigned, member.revoking)
        if not overlap(*has) and not any(map(group.owners.has_any, has)):
            group.put(member)
            if member_id in targets:
                group.targets[member_id] = targets[member_id]
        else:
            logger.error(
                "group %s: dropping member %s, whose stored partitions belong to another member",
                group.group_id,
                member_id,
            )
    if group.epoch == group.target_epoch and group.targets.keys() != members.keys():
        group.metadata_hash = ~group.metadata_hash  # it differs from that of the topics


def tombstones_of(group: ConsumerGroup) -> Steps[list[Record]]:
    """Return the tombstones of all records of a group."""
    group_id = group.group_id
    records: list[Record] = []
    for member_id in group.members:
        records += member_tombstones(group_id, member_id)
        yield
    records += (tombstone(KeyType.EXPRESSION, group_id, regex) for regex in group.expressions)
    return records + tombstones((KeyType.TARGET, KeyType.PARTITIONS, KeyType.GROUP), group_id)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    return tombstones((KeyType.CURRENT, KeyType.TARGET_OF_MEMBER, KeyType.MEMBER), group_id, member_id)
