"""The coordinator of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup and DescribeGroups.

`membership` and `rebalance` do the work for classic groups; `consumer.classic_members` and `migration` for
members of the classic protocol in groups of the other. (Kafka: the classic part of GroupMetadataManager)
"""

from collections.abc import Callable, Sequence
from functools import partial

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps, run_through
from broker.config.sections.groups import GroupConfig
from broker.coordinator.group import membership, rebalance
from broker.coordinator.group.any_group import GroupsById
from broker.coordinator.group.consumer import classic_members, migration
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.group import ClassicGroup, ClassicGroupState
from broker.coordinator.group.groups import METADATA_AT_ONCE, Groups, is_large
from broker.coordinator.group.messages import (
    DescribedGroup,
    DescribedMember,
    Effects,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeavingMember,
    Now,
    SyncReply,
    SyncRequest,
    Token,
)
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.streams.group import StreamsGroup
from broker.coordinator.group.timers import GroupTimer, TimerKind
from broker.coordinator.group.transition import Transition


class ClassicCoordinator:
    """`new_uuid` makes the part of a member id that distinguishes members with the same client id."""

    def __init__(self, groups: Groups, config: GroupConfig, new_uuid: Callable[[], str]) -> None:
        self._groups = groups
        self._config = config
        self._new_uuid = new_uuid

    def join(self, request: JoinRequest, token: Token, now: Now) -> Steps[Effects]:
        """Handle a JoinGroup.

        The reply follows when the rebalance ends, or at once without a rebalance or on an error. Pauses where
        the group is a large one of the consumer protocol.
        """
        groups = self._groups
        transition = groups.transition(now)
        error = self._check_join(request)
        if error:
            transition.reply(token, JoinReply(error, request.member_id))
            return transition.effects
        found = groups.get(request.group_id)
        if isinstance(found, ShareGroup) or (isinstance(found, StreamsGroup) and found.members):
            transition.reply(token, JoinReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))
            return transition.effects
        if isinstance(found, ConsumerGroup) and found.members:
            return (yield from self._join_consumers(found, request, token, now))
        if isinstance(found, ConsumerGroup | StreamsGroup):
            migration.to_empty_classic(transition, groups.by_id, found)
        group = groups.get_or_create_classic(request.group_id)
        membership.join(transition, group, request, token, self._new_id(request))
        groups.discard_if_blank(group)
        return transition.effects

    def sync(self, request: SyncRequest, token: Token, now: Now) -> Steps[Effects]:
        """Handle a SyncGroup. The reply follows when the leader's assignment has arrived. Pauses for a
        member of a consumer group.
        """
        transition = self._groups.transition(now)
        group = self._groups.get(request.group_id)
        if group is None or isinstance(group, ShareGroup | StreamsGroup):
            transition.reply(token, SyncReply(_missing(request.group_id)))
        elif isinstance(group, ConsumerGroup):
            transition.reply(token, (yield from classic_members.sync(transition, group, request)))
        else:
            membership.sync(transition, group, request, token)
        return transition.effects

    def heartbeat(
        self, group_id: str, generation_id: int, member_id: str, instance_id: str | None, now: Now
    ) -> ErrorCode:
        """Handle a Heartbeat, which only restarts the member's session."""
        group = self._groups.get(group_id)
        if group is None or isinstance(group, ShareGroup | StreamsGroup):
            return _missing(group_id)
        transition = self._groups.transition(now)
        if isinstance(group, ConsumerGroup):
            return classic_members.heartbeat(transition, group, generation_id, member_id, instance_id)
        return membership.heartbeat(transition, group, generation_id, member_id, instance_id)

    def leave(
        self, group_id: str, leaving: Sequence[LeavingMember], token: Token, now: Now
    ) -> Steps[Effects]:
        """Handle a LeaveGroup for one or more members. Pauses where the group is a large one of the consumer
        protocol.
        """
        transition = self._groups.transition(now)
        group = self._groups.get(group_id)
        if not group_id:  # it may exist, because offsets can be committed to it
            transition.reply(token, LeaveReply(ErrorCode.INVALID_GROUP_ID))
        elif isinstance(group, ConsumerGroup):
            transition, reply = yield from self._leave_consumers(group, leaving, now)
            transition.reply(token, reply)
        elif isinstance(group, ClassicGroup):
            membership.leave(transition, group, leaving, token)
        else:
            transition.reply(token, LeaveReply(ErrorCode.NONE, (ErrorCode.UNKNOWN_MEMBER_ID,) * len(leaving)))
        return transition.effects

    def described(self, group_id: str, *, missing_is_error: bool) -> DescribedGroup:
        """Handle DescribeGroups for one group.

        A missing group and one of another type are Dead, and from version 6 (KIP-1043) an error.
        """
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return _described(group)
        if not missing_is_error:
            return DescribedGroup(ErrorCode.NONE, group_id, ClassicGroupState.DEAD.value)
        message = f"Group {group_id} " + ("not found." if group is None else "is not a classic group.")
        return DescribedGroup(
            ErrorCode.GROUP_ID_NOT_FOUND, group_id, ClassicGroupState.DEAD.value, message=message
        )

    def timer_expired(self, transition: Transition, group: ClassicGroup, timer: GroupTimer) -> None:
        """Handle the due timer of a classic group."""
        match timer.kind:
            case TimerKind.SESSION:
                rebalance.session_expired(transition, group, timer.member_id)
                self._groups.discard_if_blank(group)
            case TimerKind.JOIN_PHASE:
                rebalance.join_phase_expired(transition, group)
            case TimerKind.SYNC_PHASE:
                rebalance.sync_phase_expired(transition, group)
            case _:
                pass  # the timer of a member before its group changed its protocol

    def _check_join(self, request: JoinRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        config = self._config
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if request.member_id and self._is_blank(request.group_id):
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def _is_blank(self, group_id: str) -> bool:
        """Return whether no classic member has an id yet: no group, or an empty one of another type."""
        group = self._groups.get(group_id)
        return group is None or (isinstance(group, ConsumerGroup | StreamsGroup) and group.is_empty)

    def _new_id(self, request: JoinRequest) -> str:
        return "" if request.member_id else f"{request.instance_id or request.client_id}-{self._new_uuid()}"

    def _join_consumers(
        self, group: ConsumerGroup, request: JoinRequest, token: Token, now: Now
    ) -> Steps[Effects]:
        """Handle a JoinGroup of a member of the classic protocol in a group of the other."""
        groups = self._groups
        new_id = self._new_id(request)
        transition = groups.transition(now)
        metadata = sum(len(each) for _, each in request.protocols)
        try:
            if metadata > METADATA_AT_ONCE or is_large(group, (), groups.topics):
                yield from groups.in_turn(request.group_id, request.member_id, now)
                transition, reply = yield from groups.changed(
                    request.group_id, now, partial(_join_consumer_group, request, new_id)
                )
            else:
                reply = run_through(_join_consumer_group(request, new_id, transition, groups.by_id))
        except ApiError as error:
            reply = JoinReply(error.code, request.member_id)
        transition.reply(token, reply)
        return transition.effects

    def _leave_consumers(
        self, group: ConsumerGroup, leaving: Sequence[LeavingMember], now: Now
    ) -> Steps[tuple[Transition, LeaveReply]]:
        """Handle a LeaveGroup of members of the classic protocol in a group of the other."""
        groups = self._groups
        transition = groups.transition(now)
        if not is_large(group, (), groups.topics):
            return transition, run_through(migration.leave(transition, groups.by_id, group, leaving))
        change = partial(_leave_consumer_group, group.group_id, leaving)
        try:
            return (yield from groups.changed(group.group_id, now, change))
        except ApiError as error:
            return transition, LeaveReply(error.code)


def _join_consumer_group(
    request: JoinRequest, new_id: str, transition: Transition, groups: GroupsById
) -> Steps[JoinReply]:
    group = groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup) or not group.members:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # it has changed meanwhile
    return (yield from migration.join(transition, groups, group, request, new_id))


def _leave_consumer_group(
    group_id: str, leaving: Sequence[LeavingMember], transition: Transition, groups: GroupsById
) -> Steps[LeaveReply]:
    group = groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # it has changed meanwhile
    return (yield from migration.leave(transition, groups, group, leaving))


def _missing(group_id: str) -> ErrorCode:
    """Return the error for a member of a missing group."""
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID


def _described(group: ClassicGroup) -> DescribedGroup:
    stable = group.state is ClassicGroupState.STABLE
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
