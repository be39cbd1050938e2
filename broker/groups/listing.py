"""Groups as ListGroups and DescribeGroups show them. Called by `coordinator`; read-only."""

from collections.abc import Collection, Iterable
from typing import Final

from broker.errors import ErrorCode
from broker.groups.classic.group import Group
from broker.groups.classic.state import State
from broker.groups.replies import DescribedGroup, DescribedMember, ListedGroup

CLASSIC: Final = "classic"


def listed(groups: Iterable[Group], states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
    """Return the groups in one of the states and of one of the types (KIP-518, KIP-848).

    An empty filter matches all.
    """
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {group_type.strip().lower() for group_type in types}
    if wanted_types and CLASSIC not in wanted_types:
        return []
    return [
        ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC, len(group.members))
        for group in groups
        if not wanted_states or group.state.value.lower() in wanted_states
    ]


def described(group: Group) -> DescribedGroup:
    stable = group.state is State.STABLE
    protocol = (group.protocol or "") if stable else ""
    members = tuple(
        DescribedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.protocols[protocol] if stable else b"",
            member.assignment,
        )
        for member in group.members.values()
    )
    return DescribedGroup(
        ErrorCode.NONE, group.group_id, group.state.value, group.protocol_type or "", protocol, members
    )


def described_missing(group_id: str, *, is_error: bool) -> DescribedGroup:
    """Describe a missing group: Dead, and since DescribeGroups 6 (KIP-1043) also an error."""
    if is_error:
        message = f"Group {group_id} not found."
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, group_id, State.DEAD.value, message=message)
    return DescribedGroup(ErrorCode.NONE, group_id, State.DEAD.value)
