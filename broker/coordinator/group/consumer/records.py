"""Keys and values of consumer groups in __consumer_offsets, in Kafka's format. (Kafka: ConsumerGroupMetadata,
ConsumerGroupMemberMetadata, ConsumerGroupTargetAssignmentMetadata, ConsumerGroupTargetAssignmentMember,
ConsumerGroupCurrentMemberAssignment, ConsumerGroupRegularExpression; values of version 0)

The records of a member may have thousands of topics, and are encoded in steps. `persistence` applies what has
been read. ConsumerGroupPartitionMetadata, which Kafka 4.0 wrote, has no
meaning here; it is removed with its group.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from broker.common.steps import Pace, Steps, sorted_in_steps
from broker.coordinator.group.consumer.assignment import Assignment
from broker.coordinator.group.consumer.group import ConsumerGroup, ResolvedExpression
from broker.coordinator.group.consumer.member import ClassicProtocols, ConsumerMember, MemberState
from broker.coordinator.group.messages import Record
from broker.coordinator.group.record_fields import (
    NO_TAGS,
    assignment,
    decode_assignment,
    head,
    plain_string,
    string,
    strings,
    value_of,
)
from broker.records.stored_fields import FlexibleFields, varint

_INT8, _INT16, _INT32, _INT64 = (Struct(f">{code}") for code in "bhiq")

_METADATA_HASH: Final = 0
_CLASSIC_MEMBER: Final = 0


class KeyType(IntEnum):
    """The version of a key is its type."""

    GROUP = 3
    PARTITIONS = 4
    MEMBER = 5
    TARGET = 6
    TARGET_OF_MEMBER = 7
    CURRENT = 8
    EXPRESSION = 16


class ConsumerKey(NamedTuple):
    """`name` is the member id or the regular expression; "" for the types without."""

    type: KeyType
    group_id: str
    name: str = ""


class StoredCurrent(NamedTuple):
    """The current assignment of a member."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Assignment
    revoking: Assignment


NAMED: Final = frozenset({KeyType.MEMBER, KeyType.TARGET_OF_MEMBER, KeyType.CURRENT, KeyType.EXPRESSION})


def encode_key(key: ConsumerKey) -> bytes:
    parts = [_INT16.pack(key.type), plain_string(key.group_id)]
    if key.type in NAMED:
        parts.append(plain_string(key.name))
    return b"".join(parts)


def tombstone(key_type: KeyType, group_id: str, name: str = "") -> Record:
    return encode_key(ConsumerKey(key_type, group_id, name)), None


def epoch_record(group: ConsumerGroup) -> Record:
    content = _INT64.pack(group.metadata_hash)
    tagged = varint(1) + varint(_METADATA_HASH) + varint(len(content)) + content
    value = head() + _INT32.pack(group.epoch) + tagged
    return encode_key(ConsumerKey(KeyType.GROUP, group.group_id)), value


def member_record(group_id: str, member: ConsumerMember, pace: Pace) -> Steps[Record]:
    parts = [
        head(),
        string(member.instance_id),
        string(member.rack_id),
        string(member.client_id),
        string(member.client_host),
        (yield from strings(member.topics, pace)),
        string(member.regex),
        _INT32.pack(member.rebalance_timeout_ms),
        string(member.assignor),
    ]
    if member.classic is None:
        parts.append(NO_TAGS)
    else:
        content = _classic(member.classic)
        parts += (varint(1), varint(_CLASSIC_MEMBER), varint(len(content)), content)
    return encode_key(ConsumerKey(KeyType.MEMBER, group_id, member.member_id)), b"".join(parts)


def target_record(group_id: str, member_id: str, target: Assignment, pace: Pace) -> Steps[Record]:
    value = head() + (yield from assignment(target, pace)) + NO_TAGS
    return encode_key(ConsumerKey(KeyType.TARGET_OF_MEMBER, group_id, member_id)), value


def target_epoch_record(group: ConsumerGroup) -> Record:
    value = head() + _INT32.pack(group.target_epoch) + NO_TAGS
    return encode_key(ConsumerKey(KeyType.TARGET, group.group_id)), value


def current_record(group_id: str, member: ConsumerMember, pace: Pace) -> Steps[Record]:
    value = b"".join(
        (
            head(),
            _INT32.pack(member.epoch),
            _INT32.pack(member.previous_epoch),
            _INT8.pack(member.state),
            (yield from assignment(member.assigned, pace)),
            (yield from assignment(member.revoking, pace)),
            NO_TAGS,
        )
    )
    return encode_key(ConsumerKey(KeyType.CURRENT, group_id, member.member_id)), value


def expression_record(group_id: str, regex: str, resolved: ResolvedExpression, pace: Pace) -> Steps[Record]:
    times = _INT64.pack(resolved.version) + _INT64.pack(resolved.wall_ms)
    names = yield from sorted_in_steps(resolved.topics, pace)
    value = head() + (yield from strings(names, pace)) + times + NO_TAGS
    return encode_key(ConsumerKey(KeyType.EXPRESSION, group_id, regex)), value


def decode_key(key: bytes) -> ConsumerKey | None:
    """Decode a key; None for records of other types. Raises UnreadableRecord."""
    reader = FlexibleFields(key)
    number = reader.integer(_INT16)
    if number not in KeyType.__members__.values():
        return None
    key_type = KeyType(number)
    group_id = reader.text(reader.integer(_INT16))
    return ConsumerKey(key_type, group_id, reader.text(reader.integer(_INT16)) if key_type in NAMED else "")


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


def decode_target_epoch(value: bytes) -> int:
    """Raises UnreadableRecord."""
    return value_of(value).integer(_INT32)


def decode_target(value: bytes) -> Assignment:
    """Raises UnreadableRecord."""
    return decode_assignment(value_of(value))


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
