"""LeaveGroup: members leave by themselves or are removed by an operator.

Called by `coordinator` with an existing group. (Kafka: GroupCoordinator.handleLeaveGroup; KIP-345 for the
batch.)
"""

from collections.abc import Sequence

from broker.errors import ErrorCode
from broker.groups.classic.group import Group
from broker.groups.classic.rebalance import complete_if_all_joined, rebalance, remove
from broker.groups.replies import LeaveReply, Token
from broker.groups.requests import Leaving
from broker.groups.transition import Transition


def leave(transition: Transition, group: Group, leaving: Sequence[Leaving], token: Token) -> None:
    """Remove all listed members, then rebalance once."""
    before = len(group.members)
    errors = tuple(_leave_one(transition, group, one) for one in leaving)
    transition.reply(token, LeaveReply(ErrorCode.NONE, errors))
    if len(group.members) < before:
        rebalance(transition, group)
    else:
        # The group may have been waiting only for an id that was never used.
        complete_if_all_joined(transition, group)


def _leave_one(transition: Transition, group: Group, leaving: Leaving) -> ErrorCode:
    member_id = leaving.member_id
    if not member_id:
        if leaving.instance_id not in group.static_ids:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_ids[leaving.instance_id]
    elif member_id in group.pending_join:
        transition.timers.cancel(group.pending_join.pop(member_id))
        return ErrorCode.NONE
    elif error := group.check_member(member_id, leaving.instance_id):
        return error
    remove(transition, group, group.members[member_id])
    return ErrorCode.NONE
