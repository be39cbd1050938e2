"""Consumer groups read back from __consumer_offsets at the start.

Called by `coordinator.group.persistence` for each record. A key's last value is applied, in any order of the
keys: `finish` completes the groups. (Kafka: GroupMetadataManager.replay)
"""

import logging
from typing import Final

from msgspec.structs import replace

from broker.common.steps import Pace, Steps
from broker.coordinator.group.consumer.assignment import overlap
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.group.consumer.records import (
    decode_current,
    decode_epoch,
    decode_expression,
    decode_member,
)
from broker.coordinator.group.messages import Record
from broker.coordinator.group.record_fields import (
    KeyType,
    ModernKey,
    decode_target,
    decode_target_epoch,
    tombstone,
    tombstones,
)

logger = logging.getLogger(__name__)

RECORDS_OF_MEMBER: Final = 3


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


def tombstones_of(group: ConsumerGroup, pace: Pace) -> Steps[list[Record]]:
    """Return the tombstones of all records of a group. Pauses after a few members."""
    group_id = group.group_id
    records: list[Record] = []
    for member_id in group.members:
        records += member_tombstones(group_id, member_id)
        if pace.spent(RECORDS_OF_MEMBER):
            yield
    records += (tombstone(KeyType.EXPRESSION, group_id, regex) for regex in group.expressions)
    return records + tombstones((KeyType.TARGET, KeyType.PARTITIONS, KeyType.GROUP), group_id)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    return tombstones((KeyType.CURRENT, KeyType.TARGET_OF_MEMBER, KeyType.MEMBER), group_id, member_id)
