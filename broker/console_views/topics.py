"""The contents of a topic's partitions and the progress of groups. For `console_views.live`."""

from collections.abc import Iterator
from typing import Any

from broker.control.rows.topics import CommittedRow, GroupDetail, GroupRow, MemberRow, PartitionRow
from broker.errors import ApiError, ErrorCode, ProtocolViolation
from broker.groups.messages import DescribedMember
from broker.protocol.codec import decode_data
from broker.services.group_service import GroupService
from broker.services.partitions import Partitions

CONSUMER = "consumer"
VERSION_BYTES = 2


def partition_rows(partitions: Partitions, topic: str) -> Iterator[PartitionRow]:
    """Yield the partitions; none for an unknown topic. Opens no log."""
    hosted = partitions.by_name.get(topic)
    for index in range(0 if hosted is None else hosted.count):
        log = None if hosted is None else hosted.opened_log(index)
        if log is None:
            yield PartitionRow(index, 0, 0, 0, 0)
        else:
            yield PartitionRow(
                index,
                log.log_start_offset,
                log.high_watermark,
                log.size,
                len(log.segments),
                "" if log.offline is None else str(log.offline),
                log.missing,
            )


def group_rows(groups: GroupService) -> Iterator[GroupRow]:
    """Yield the groups that exist at the call."""
    return (
        GroupRow(group.group_id, group.state, group.protocol_type, group.members, groups.lag(group.group_id))
        for group in groups.coordinator.listed()
    )


def group_detail(groups: GroupService, partitions: Partitions, group_id: str) -> GroupDetail | None:
    (described,) = groups.coordinator.described([group_id], missing_is_error=True)
    if described.error is not ErrorCode.NONE:
        return None
    members = tuple(_member(each, described.protocol_type) for each in described.members)
    offsets = tuple(_offsets(groups, partitions, group_id))
    row = GroupRow(group_id, described.state, described.protocol_type, len(members), groups.lag(group_id))
    return GroupDetail(row, described.protocol, members, offsets)


def _offsets(groups: GroupService, partitions: Partitions, group_id: str) -> Iterator[CommittedRow]:
    for topic, committed in sorted(groups.coordinator.committed(group_id).items()):
        for index, offset in sorted(committed.items()):
            end = _end(partitions, topic, index)
            lag = None if end is None else max(end - offset.offset, 0)
            yield CommittedRow(topic, index, offset.offset, end, lag)


def _end(partitions: Partitions, topic: str, index: int) -> int | None:
    try:
        log = partitions.log(topic, index)
    except ApiError:
        return None
    return None if log is None else log.high_watermark


def _member(member: DescribedMember, protocol_type: str) -> MemberRow:
    assigned = tuple(_assigned(member.assignment)) if protocol_type == CONSUMER else ()
    return MemberRow(member.member_id, member.instance_id, member.client_id, member.client_host, assigned)


def _assigned(data: bytes) -> list[tuple[str, int]]:
    """Return the partitions of a ConsumerProtocolAssignment, none when `data` is not one: the leader of the
    group wrote it, and the broker does not validate it.
    """
    try:
        assignment: Any = decode_data("consumer_protocol_assignment", 0)(data, VERSION_BYTES)
    except ProtocolViolation:
        return []
    return [
        (each.topic, partition) for each in assignment.assigned_partitions for partition in each.partitions
    ]
