"""Converts a classic group to its persistent record and back.

Used by transitions that change persistent state, and by `loading`. Independent of the byte format.
"""

from broker.groups.classic.group import Group
from broker.groups.classic.member import Member
from broker.groups.classic.state import State
from broker.groups.records import StoredGroup, StoredMember, encode_group_key, encode_group_value
from broker.groups.replies import Record


def record_of(group: Group) -> Record:
    return encode_group_key(group.group_id), encode_group_value(stored(group))


def tombstone_of(group: Group) -> Record:
    return encode_group_key(group.group_id), None


def stored(group: Group) -> StoredGroup:
    """Return the group's persistent state, with each member's metadata for the selected protocol only."""
    members = tuple(
        StoredMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.protocols[group.protocol or ""],
            member.assignment,
        )
        for member in group.members.values()
    )
    return StoredGroup(
        group.protocol_type or "",
        group.generation_id,
        group.protocol,
        group.leader_id,
        -1 if group.state_ms is None else group.state_ms,
        members,
    )


def restore(group: Group, value: StoredGroup) -> None:
    """Fill a new group: stable if it has members, else empty. The caller starts the sessions."""
    for saved in value.members:
        member = Member(
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
    group.state = State.STABLE if value.members else State.EMPTY
    group.state_ms = None if value.state_ms == -1 else value.state_ms
    group.generation_id = value.generation_id
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    group.leader_id = value.leader
    group.subscriptions = group.read_subscriptions()
