"""Groups as records of __consumer_offsets: written by transitions, read back at the start in log order.

The last record of a key wins. Independent of the byte format, which `records` defines. (Kafka:
GroupMetadataManager.)
"""

from collections.abc import Mapping
from typing import Final

from broker.coordinator.group.any_group import AnyGroup, GroupsById
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.group import ClassicGroup, ClassicGroupMember, ClassicGroupState
from broker.coordinator.group.messages import Offsets, Record
from broker.coordinator.group.records import (
    GroupKey,
    KeyType,
    ModernKey,
    OffsetKey,
    StoredGroup,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_group_value,
    encode_member,
)
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.streams.group import StreamsGroup
from broker.records.stored_fields import UnreadableRecord


def record_of(group: ClassicGroup) -> Record:
    """Return the group's record, with each member's metadata for the selected protocol only."""
    protocol = group.protocol or ""
    members = [
        (member.encoded or encode(member), member.protocols[protocol], member.assignment)
        for member in group.members.values()
    ]
    stored = StoredGroup(
        group.protocol_type or "",
        group.generation_id,
        group.protocol,
        group.leader_id,
        -1 if group.state_ms is None else group.state_ms,
        (),
    )
    return encode_group_key(group.group_id), encode_group_value(stored, members)


def tombstone_of(group: ClassicGroup) -> Record:
    return encode_group_key(group.group_id), None


def encode(member: ClassicGroupMember) -> bytes:
    """Return the unchanging part of a member in the group's record, and keep it."""
    member.encoded = encoded = encode_member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
    )
    return encoded


def _restore(group: ClassicGroup, value: StoredGroup) -> None:
    """Fill a new group: stable if it has members, else empty. The caller starts the sessions."""
    for saved in value.members:
        member = ClassicGroupMember(
            group.group_id,
            saved.member_id,
            saved.instance_id,
            saved.client_id,
            saved.client_host,
            saved.session_timeout_ms,
            saved.rebalance_timeout_ms,
            {value.protocol or "": saved.subscription},
        )
        member.assignment = saved.assignment
        group.add(member, value.protocol_type)
    group.state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
    group.state_ms = None if value.state_ms == -1 else value.state_ms
    group.generation_id = value.generation_id
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    group.leader_id = value.leader
    group.keep_subscriptions()


def replay(groups: GroupsById, key: bytes, value: bytes | None) -> None:
    """Apply one record. Skips records of other group types. Raises UnreadableRecord."""
    match decode_key(key):
        case OffsetKey(group_id, topic, partition):
            _replay_offset(groups, group_id, topic, partition, value)
        case GroupKey(group_id):
            _replay_group(groups, group_id, value)
        case ModernKey() as modern_key:
            _replay_modern(groups, modern_key, value)


def _replay_offset(
    groups: GroupsById, group_id: str, topic: str, partition: int, value: bytes | None
) -> None:
    if value is not None:
        group = groups.get(group_id)
        if group is None:
            group = groups[group_id] = ClassicGroup(group_id)
        group.offsets.setdefault(topic, {})[partition] = decode_offset_value(value)
    elif group_id in groups:
        offsets = groups[group_id].offsets
        by_partition = offsets.get(topic, {})
        if by_partition.pop(partition, None) is not None and not by_partition:
            del offsets[topic]


def _replay_group(groups: GroupsById, group_id: str, value: bytes | None) -> None:
    before = groups.get(group_id)
    if value is None:
        # Another type of group may have taken the place of the classic one, with its offsets.
        if isinstance(before, ClassicGroup):
            _forget_members(groups, before)
        return
    group = ClassicGroup(group_id)
    _restore(group, decode_group_value(value))
    if before is not None:
        group.offsets = before.offsets
    groups[group_id] = group


def _forget_members(groups: GroupsById, group: AnyGroup) -> None:
    """Remove a group, but not offsets whose tombstones have not been read."""
    del groups[group.group_id]
    if group.offsets:
        simple = groups[group.group_id] = ClassicGroup(group.group_id)
        simple.offsets = group.offsets


KINDS: Final[Mapping[KeyType, type[ConsumerGroup | ShareGroup | StreamsGroup]]] = {
    KeyType.EXPRESSION: ConsumerGroup,
    **dict.fromkeys(ConsumerGroup.keys, ConsumerGroup),
    **dict.fromkeys(ShareGroup.keys, ShareGroup),
    **dict.fromkeys(StreamsGroup.keys, StreamsGroup),
}
"""The types of groups by those of their records."""


def _replay_modern(groups: GroupsById, key: ModernKey, value: bytes | None) -> None:
    group, kind = groups.get(key.group_id), KINDS[key.type]
    if not isinstance(group, kind):
        if value is None:
            return
        offsets = _offsets_of_simple(group)
        group = groups[key.group_id] = kind(key.group_id)
        group.offsets = offsets
    if key.type == kind.keys.group and value is None:
        _forget_members(groups, group)
    else:
        group.replay(key, value)


def _offsets_of_simple(group: AnyGroup | None) -> Offsets:
    """Return the offsets that were read before the records of their group. Raises UnreadableRecord."""
    if group is None:
        return {}
    if group.members or not isinstance(group, ClassicGroup):
        raise UnreadableRecord(f"group {group.group_id} has records of two types of groups")
    return group.offsets
