"""Describes a share group, for ShareGroupDescribe and the console."""

from broker.common.errors import ErrorCode
from broker.coordinator.group.messages import DescribedShareGroup, DescribedShareMember
from broker.coordinator.group.share.group import ShareGroup


def describe_members(group: ShareGroup, assignor: str) -> DescribedShareGroup:
    members = tuple(
        DescribedShareMember(
            member.member_id,
            member.rack_id,
            member.epoch,
            member.client_id,
            member.client_host,
            member.topics,
            member.assigned,
        )
        for member in group.members.values()
    )
    return DescribedShareGroup(
        ErrorCode.NONE, group.group_id, group.state.value, group.epoch, group.target_epoch, assignor, members
    )
