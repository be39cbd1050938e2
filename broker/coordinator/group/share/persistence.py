"""Share groups read back from __consumer_offsets at the start.

Called by `coordinator.group.persistence` for each record. A key's last value is applied, in any order of the
keys: `finish` completes the groups. (Kafka: GroupMetadataManager.replay)
"""

from msgspec.structs import replace

from broker.coordinator.group.messages import Record
from broker.coordinator.group.modern_group import NO_EPOCH
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.share.member import ShareMember
from broker.coordinator.group.share.records import (
    KeyType,
    ShareRecordKey,
    decode_current,
    decode_epoch,
    decode_member,
    decode_states,
    decode_target,
    decode_target_epoch,
    tombstone,
)
from broker.coordinator.group.share.state_partitions import StatePartitions


def apply(group: ShareGroup, key: ShareRecordKey, value: bytes | None) -> None:
    """Apply one record to its group. Raises UnreadableRecord."""
    if value is None:
        _apply_tombstone(group, key)
        return
    name = key.name
    known = group.members.get(name, ShareMember(name))
    match key.type:
        case KeyType.GROUP:
            group.epoch, group.metadata_hash = decode_epoch(value)
        case KeyType.TARGET:
            group.target_epoch = decode_target_epoch(value)
        case KeyType.MEMBER:
            group.members[name] = replace(
                decode_member(name, value),
                epoch=known.epoch,
                previous_epoch=known.previous_epoch,
                assigned=known.assigned,
            )
        case KeyType.TARGET_OF_MEMBER:
            group.targets[name] = decode_target(value)
        case KeyType.CURRENT:
            epoch, previous_epoch, assigned = decode_current(value)
            group.members[name] = replace(
                known, epoch=epoch, previous_epoch=previous_epoch, assigned=assigned
            )
        case KeyType.STATES:
            group.states = decode_states(value)


def _apply_tombstone(group: ShareGroup, key: ShareRecordKey) -> None:
    match key.type:
        case KeyType.TARGET:
            group.target_epoch = NO_EPOCH
        case KeyType.MEMBER:
            group.members.pop(key.name, None)
        case KeyType.TARGET_OF_MEMBER:
            group.targets.pop(key.name, None)
        case KeyType.CURRENT if key.name in group.members:
            group.members[key.name] = group.members[key.name].without_assignment()
        case KeyType.STATES:
            group.states = StatePartitions()
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
    types = (KeyType.TARGET, KeyType.STATES, KeyType.GROUP)
    return [*records, *(tombstone(each, group.group_id) for each in types)]


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    types = (KeyType.CURRENT, KeyType.TARGET_OF_MEMBER, KeyType.MEMBER)
    return [tombstone(each, group_id, member_id) for each in types]
