"""Records of consumer groups in __consumer_offsets, in Kafka's format. (Kafka: ConsumerGroupMetadata,
ConsumerGroupMemberMetadata, ConsumerGroupTargetAssignmentMetadata, ConsumerGroupTargetAssignmentMember,
ConsumerGroupCurrentMemberAssignment, ConsumerGroupRegularExpression; values of version 0)

The records of a member may have thousands of topics, and are encoded in steps.
ConsumerGroupPartitionMetadata, which Kafka 4.0 wrote, has no meaning here; it goes with its group.
"""

from struct import Struct, pack
from typing import Final

from msgspec.structs import replace

from broker.common.slices import Steps, sorted_in_steps
from broker.coordinator.group.consumer.assignment import Assignment
from broker.coordinator.group.consumer.assignment_epochs import AssignmentEpochs, of_topic
from broker.coordinator.group.consumer.member import (
    ClassicProtocols,
    ConsumerMember,
    MemberState,
    ResolvedExpression,
)
from broker.coordinator.group.messages import Record
from broker.coordinator.group.records import (
    NO_TAGS,
    KeyType,
    ModernKey,
    encode_key,
    epoch_value,
    head,
    indexes,
    string,
    strings,
    value_of,
)
from broker.records.stored_fields import FlexibleFields, varint

_INT8, _INT16, _INT32, _INT64 = (Struct(f">{code}") for code in "bhiq")

_METADATA_HASH: Final = 0
_CLASSIC_MEMBER: Final = 0
_EPOCHS: Final = 0


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    content = _INT64.pack(metadata_hash)
    tagged = varint(1) + varint(_METADATA_HASH) + varint(len(content)) + content
    return encode_key(ModernKey(KeyType.GROUP, group_id)), epoch_value(epoch) + tagged


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


def current_record(group_id: str, member: ConsumerMember) -> Steps[Record]:
    value = b"".join(
        (
            head(),
            _INT32.pack(member.epoch),
            _INT32.pack(member.previous_epoch),
            _INT8.pack(member.state),
            (yield from _with_epochs(member.assigned, member.since)),
            (yield from _with_epochs(member.revoking, member.since)),
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


def decode_member(member: ConsumerMember, value: bytes) -> ConsumerMember:
    """Return a member with what it has stated, and the assignment of `member`. Raises UnreadableRecord."""
    reader = value_of(value)
    instance_id, rack_id = reader.nullable_string(), reader.nullable_string()
    client_id, client_host = reader.string(), reader.string()
    topics = tuple(reader.string() for _ in range(reader.count()))
    regex, rebalance_timeout_ms = reader.nullable_string(), reader.integer(_INT32)
    assignor, tagged = reader.nullable_string(), reader.tagged()
    content = tagged.get(_CLASSIC_MEMBER)
    return replace(
        member,
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=rebalance_timeout_ms,
        topics=topics,
        regex=regex,
        assignor=assignor,
        classic=None if content is None else _decode_classic(content),
    )


def decode_current(member: ConsumerMember, value: bytes) -> ConsumerMember:
    """Return a member with its current assignment; an unknown state is UNKNOWN. Raises UnreadableRecord."""
    reader = value_of(value)
    epoch, previous_epoch = reader.integer(_INT32), reader.integer(_INT32)
    number = reader.integer(_INT8)
    since: dict[bytes, dict[int, int]] = {}
    assigned, revoking = _decode_with_epochs(reader, epoch, since), _decode_with_epochs(reader, epoch, since)
    return replace(
        member,
        epoch=epoch,
        previous_epoch=previous_epoch,
        state=MemberState(number) if number in MemberState.__members__.values() else MemberState.UNKNOWN,
        assigned=assigned,
        revoking=revoking,
        since={topic_id: of_topic(by_partition) for topic_id, by_partition in since.items()},
    )


def _with_epochs(partitions: Assignment, since: AssignmentEpochs) -> Steps[bytes]:
    """Encode partitions by topic id, with the epochs in which they were received."""
    parts = [varint(len(partitions) + 1)]
    for topic_id, some in partitions.items():
        known = since[topic_id]
        epochs = [known] * len(some) if isinstance(known, int) else [known[at] for at in sorted(some)]
        content = varint(len(epochs) + 1) + pack(f">{len(epochs)}i", *epochs)
        tagged = varint(1) + varint(_EPOCHS) + varint(len(content)) + content
        parts += (topic_id, indexes(some), tagged)
        yield
    return b"".join(parts)


def _decode_with_epochs(
    reader: FlexibleFields, member_epoch: int, since: dict[bytes, dict[int, int]]
) -> Assignment:
    """Decode partitions, and add the epochs in which they were received to `since`. Without epochs they have
    that of the member, as in Kafka.
    """
    found = {}
    for _ in range(reader.count()):
        topic_id = reader.take(16)
        partitions = [reader.integer(_INT32) for _ in range(reader.count())]
        content = reader.tagged().get(_EPOCHS)
        epochs = [] if content is None else _decode_integers(FlexibleFields(content))
        if len(epochs) != len(partitions):
            epochs = [member_epoch] * len(partitions)
        if partitions:
            found[topic_id] = frozenset(partitions)
            since.setdefault(topic_id, {}).update(zip(partitions, epochs, strict=True))
    return found


def _decode_integers(reader: FlexibleFields) -> list[int]:
    count = reader.varint() - 1  # null is allowed
    return [reader.integer(_INT32) for _ in range(max(count, 0))]


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
