"""Records of streams groups in __consumer_offsets, in Kafka's format. (Kafka: StreamsGroupMetadata,
StreamsGroupMemberMetadata, StreamsGroupTargetAssignmentMetadata, StreamsGroupTargetAssignmentMember,
StreamsGroupCurrentMemberAssignment, StreamsGroupTopology; values of version 0)
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct, pack
from typing import Final, NamedTuple

from msgspec.structs import replace

from broker.common.slices import Steps, run_through, sorted_in_steps
from broker.coordinator.group.messages import Endpoint, Record
from broker.coordinator.group.records import (
    NO_TAGS,
    KeyType,
    ModernKey,
    decode_indexes,
    encode_key,
    epoch_value,
    head,
    indexes,
    string,
    strings,
    value_of,
)
from broker.coordinator.group.streams.assignor import Tasks, TaskSets
from broker.coordinator.group.streams.member import MemberState, StreamsMember
from broker.coordinator.group.streams.tasks import Epochs, MemberTasks
from broker.coordinator.group.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from broker.records.stored_fields import FlexibleFields, varint

_INT8, _INT16, _INT32, _INT64 = (Struct(f">{code}") for code in "bhiq")
_UINT16: Final = Struct(">H")
_PRESENT: Final = b"\x01"
_ABSENT: Final = b"\xff"

NO_TOPOLOGY_EPOCH: Final = -1
"""The topology epoch before a topology is validated, or a description of one is stored."""

_VALIDATED, _CONFIGS, _STORED, _FAILED = range(4)
"""The tags of the group's record."""

_TIMESTAMP: Final = 0
"""The tag of the target assignment's record."""

_EPOCHS: Final = 0
"""The tag of active tasks."""


class StoredEpoch(NamedTuple):
    """The record of a group. `configs` are the settings that the target assignment depends on, sorted."""

    epoch: int
    metadata_hash: int
    validated_topology_epoch: int = NO_TOPOLOGY_EPOCH
    configs: tuple[tuple[str, str], ...] = ()
    stored_description_epoch: int = NO_TOPOLOGY_EPOCH
    failed_description_epoch: int = NO_TOPOLOGY_EPOCH


def epoch_record(group_id: str, stored: StoredEpoch) -> Record:
    tags = {_CONFIGS: _pairs(stored.configs)}
    epochs = {
        _VALIDATED: stored.validated_topology_epoch,
        _STORED: stored.stored_description_epoch,
        _FAILED: stored.failed_description_epoch,
    }
    tags |= {tag: _INT32.pack(epoch) for tag, epoch in epochs.items() if epoch != NO_TOPOLOGY_EPOCH}
    value = epoch_value(stored.epoch) + _INT64.pack(stored.metadata_hash) + _tagged(tags)
    return encode_key(ModernKey(KeyType.STREAMS_GROUP, group_id)), value


def decode_epoch(value: bytes) -> StoredEpoch:
    """Raises UnreadableRecord."""
    reader = value_of(value)
    epoch, metadata_hash = reader.integer(_INT32), reader.integer(_INT64)
    tags = reader.tagged()
    validated, stored, failed = (
        FlexibleFields(tags[tag]).integer(_INT32) if tag in tags else NO_TOPOLOGY_EPOCH
        for tag in (_VALIDATED, _STORED, _FAILED)
    )
    configs = _decode_pairs(FlexibleFields(tags[_CONFIGS])) if _CONFIGS in tags else ()
    return StoredEpoch(epoch, metadata_hash, validated, configs, stored, failed)


def member_record(group_id: str, member: StreamsMember) -> Record:
    endpoint = _ABSENT
    if member.endpoint is not None:
        port = _UINT16.pack(member.endpoint.port)
        endpoint = b"".join((_PRESENT, string(member.endpoint.host), port, NO_TAGS))
    parts = (
        head(),
        string(member.instance_id),
        string(member.rack_id),
        string(member.client_id),
        string(member.client_host),
        _INT32.pack(member.rebalance_timeout_ms),
        _INT32.pack(member.topology_epoch),
        string(member.process_id),
        endpoint,
        _pairs(member.client_tags),
        NO_TAGS,
    )
    return encode_key(ModernKey(KeyType.STREAMS_MEMBER, group_id, member.member_id)), b"".join(parts)


def decode_member(member: StreamsMember, value: bytes) -> StreamsMember:
    """Return a member with what it has stated, and the assignment of `member`. Raises UnreadableRecord."""
    reader = value_of(value)
    instance_id, rack_id = reader.nullable_string(), reader.nullable_string()
    client_id, client_host = reader.string(), reader.string()
    timeout_ms, topology_epoch = reader.integer(_INT32), reader.integer(_INT32)
    process_id = reader.string()
    endpoint = None
    if reader.integer(_INT8) >= 0:
        endpoint = Endpoint(reader.string(), reader.integer(_UINT16))
        reader.skip_tagged()
    return replace(
        member,
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=timeout_ms,
        topology_epoch=topology_epoch,
        process_id=process_id,
        endpoint=endpoint,
        client_tags=_decode_pairs(reader),
    )


def target_epoch_value(epoch: int, assigned_ms: int) -> bytes:
    """`assigned_ms` is the time of the assignment, 0 for none."""
    tags = {_TIMESTAMP: _INT64.pack(assigned_ms)} if assigned_ms else {}
    return epoch_value(epoch) + _tagged(tags)


def decode_target_epoch(value: bytes) -> tuple[int, int]:
    """Return the epoch and the time of the target assignment. Raises UnreadableRecord."""
    reader = value_of(value)
    epoch, tags = reader.integer(_INT32), reader.tagged()
    return epoch, FlexibleFields(tags[_TIMESTAMP]).integer(_INT64) if _TIMESTAMP in tags else 0


def target_value(target: TaskSets) -> Steps[bytes]:
    parts = [head()]
    for tasks in (target.active, target.standby, target.warmup):
        parts.append((yield from _tasks(tasks)))
    return b"".join((*parts, NO_TAGS))


def decode_target(value: bytes) -> TaskSets:
    """Raises UnreadableRecord."""
    reader = value_of(value)
    return TaskSets(_decode_tasks(reader), _decode_tasks(reader), _decode_tasks(reader))


def current_record(group_id: str, member: StreamsMember) -> Steps[Record]:
    parts = [
        head(),
        _INT32.pack(member.epoch),
        _INT32.pack(member.previous_epoch),
        _INT8.pack(member.state),
    ]
    for tasks in (member.assigned, member.revoking):
        parts.append((yield from _epochs(tasks.active)))
        parts.append((yield from _tasks(tasks.standby)))
        parts.append((yield from _tasks(tasks.warmup)))
    parts.append(NO_TAGS)
    return encode_key(ModernKey(KeyType.STREAMS_CURRENT, group_id, member.member_id)), b"".join(parts)


def decode_current(member: StreamsMember, value: bytes) -> StreamsMember:
    """Return a member with its current assignment. Raises UnreadableRecord."""
    reader = value_of(value)
    epoch, previous_epoch = reader.integer(_INT32), reader.integer(_INT32)
    number = reader.integer(_INT8)
    known = number in MemberState.__members__.values()
    state = MemberState(number) if known else MemberState.UNKNOWN
    assigned, revoking = _decode_member_tasks(reader, epoch), _decode_member_tasks(reader, epoch)
    return replace(
        member,
        epoch=epoch,
        previous_epoch=previous_epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
    )


def topology_record(group_id: str, topology: Topology) -> Steps[Record]:
    parts = [head(), _INT32.pack(topology.epoch), varint(len(topology.subtopologies) + 1)]
    for subtopology in topology.subtopologies:
        parts.append((yield from _subtopology(subtopology)))
        yield
    parts.append(NO_TAGS)
    return encode_key(ModernKey(KeyType.STREAMS_TOPOLOGY, group_id)), b"".join(parts)


def _subtopology(subtopology: Subtopology) -> Steps[bytes]:
    parts = [
        string(subtopology.subtopology_id),
        (yield from strings(subtopology.source_topics)),
        (yield from strings(subtopology.source_topic_regex)),
        (yield from _topic_infos(subtopology.state_changelog_topics)),
        (yield from strings(subtopology.repartition_sink_topics)),
        (yield from _topic_infos(subtopology.repartition_source_topics)),
        varint(len(subtopology.copartition_groups) + 1),
    ]
    for group in subtopology.copartition_groups:
        parts += (
            _shorts(group.source_topics),
            _shorts(group.source_topic_regex),
            _shorts(group.repartition_source_topics),
            NO_TAGS,
        )
        yield
    parts.append(NO_TAGS)
    return b"".join(parts)


def decode_topology(value: bytes) -> Topology:
    """Raises UnreadableRecord."""
    reader = value_of(value)
    epoch = reader.integer(_INT32)
    return Topology(epoch, tuple(_decode_subtopology(reader) for _ in range(reader.count())))


def _decode_subtopology(reader: FlexibleFields) -> Subtopology:
    subtopology = Subtopology(
        reader.string(),
        _decode_strings(reader),
        _decode_strings(reader),
        _decode_topic_infos(reader),
        _decode_strings(reader),
        _decode_topic_infos(reader),
        tuple(_decode_copartition_group(reader) for _ in range(reader.count())),
    )
    reader.skip_tagged()
    return subtopology


def _decode_copartition_group(reader: FlexibleFields) -> CopartitionGroup:
    group = CopartitionGroup(_decode_shorts(reader), _decode_shorts(reader), _decode_shorts(reader))
    reader.skip_tagged()
    return group


def _topic_infos(topics: Sequence[TopicInfo]) -> Steps[bytes]:
    parts = [varint(len(topics) + 1)]
    for topic in topics:
        parts += (
            string(topic.name),
            _INT32.pack(topic.partitions),
            _INT16.pack(topic.replication_factor),
            (yield from _pairs_in_steps(topic.configs)),
            NO_TAGS,
        )
        yield
    return b"".join(parts)


def _decode_topic_infos(reader: FlexibleFields) -> tuple[TopicInfo, ...]:
    found = []
    for _ in range(reader.count()):
        name, partitions, factor = reader.string(), reader.integer(_INT32), reader.integer(_INT16)
        found.append(TopicInfo(name, partitions, factor, _decode_pairs(reader)))
        reader.skip_tagged()
    return tuple(found)


def _decode_strings(reader: FlexibleFields) -> tuple[str, ...]:
    return tuple(reader.string() for _ in range(reader.count()))


def _shorts(numbers: Sequence[int]) -> bytes:
    return varint(len(numbers) + 1) + pack(f">{len(numbers)}h", *numbers)


def _decode_shorts(reader: FlexibleFields) -> tuple[int, ...]:
    return tuple(reader.integer(_INT16) for _ in range(reader.count()))


def _pairs(pairs: Sequence[tuple[str, str]]) -> bytes:
    return run_through(_pairs_in_steps(pairs))


def _pairs_in_steps(pairs: Sequence[tuple[str, str]]) -> Steps[bytes]:
    parts = [varint(len(pairs) + 1)]
    for key, value in pairs:
        parts += (string(key), string(value), NO_TAGS)
        yield
    return b"".join(parts)


def _decode_pairs(reader: FlexibleFields) -> tuple[tuple[str, str], ...]:
    found = []
    for _ in range(reader.count()):
        found.append((reader.string(), reader.string()))
        reader.skip_tagged()
    return tuple(found)


def _tasks(tasks: Tasks) -> Steps[bytes]:
    parts = [varint(len(tasks) + 1)]
    for subtopology_id in (yield from sorted_in_steps(tasks)):
        parts += (string(subtopology_id), indexes(tasks[subtopology_id]), NO_TAGS)
        yield
    return b"".join(parts)


def _epochs(tasks: Epochs) -> Steps[bytes]:
    """Encode active tasks, whose epochs are a tagged field."""
    parts = [varint(len(tasks) + 1)]
    for subtopology_id in (yield from sorted_in_steps(tasks)):
        partitions = sorted(tasks[subtopology_id])
        epochs = [tasks[subtopology_id][index] for index in partitions]
        encoded = varint(len(epochs) + 1) + pack(f">{len(epochs)}i", *epochs)
        parts += (string(subtopology_id), indexes(partitions), _tagged({_EPOCHS: encoded}))
        yield
    return b"".join(parts)


def _decode_tasks(reader: FlexibleFields) -> dict[str, frozenset[int]]:
    found = {}
    for _ in range(reader.count()):
        subtopology_id, partitions = reader.string(), decode_indexes(reader)
        reader.skip_tagged()
        if partitions:
            found[subtopology_id] = partitions
    return found


def _decode_member_tasks(reader: FlexibleFields, epoch: int) -> MemberTasks:
    return MemberTasks(_decode_epochs(reader, epoch), _decode_tasks(reader), _decode_tasks(reader))


def _decode_epochs(reader: FlexibleFields, epoch: int) -> Epochs:
    """Decode active tasks. Those without epochs have that of the member, as in Kafka."""
    found: dict[str, Mapping[int, int]] = {}
    for _ in range(reader.count()):
        subtopology_id = reader.string()
        partitions = [reader.integer(_INT32) for _ in range(reader.count())]
        tags = reader.tagged()
        epochs = _decode_integers(FlexibleFields(tags[_EPOCHS])) if _EPOCHS in tags else []
        if len(epochs) != len(partitions):
            epochs = [epoch] * len(partitions)
        if partitions:
            found[subtopology_id] = dict(zip(partitions, epochs, strict=True))
    return found


def _decode_integers(reader: FlexibleFields) -> list[int]:
    count = reader.varint() - 1  # null is allowed
    return [reader.integer(_INT32) for _ in range(max(count, 0))]


def _tagged(tags: Mapping[int, bytes]) -> bytes:
    """Encode tagged fields, in the order of their tags."""
    parts: Iterable[bytes] = (varint(tag) + varint(len(tags[tag])) + tags[tag] for tag in sorted(tags))
    return varint(len(tags)) + b"".join(parts)
