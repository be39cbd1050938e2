"""The group coordinator: the public interface to this broker's groups.

Called by `services`, which writes the records and sends the responses. Holds the groups and the pending
requests; `membership` and `rebalance` implement group behaviour, `offsets` the committed offsets.

A call returns at once. A JoinGroup or SyncGroup whose token is not among the replies is pending: a later call
returns its reply. (Kafka: GroupCoordinatorService and GroupMetadataManager, for classic groups.)
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import uuid4

from broker.config.sections.groups import GroupConfig
from broker.errors import ErrorCode
from broker.groups import offsets, rebalance
from broker.groups.group import Group, State
from broker.groups.membership import heartbeat, join, leave, sync
from broker.groups.messages import (
    CommitReply,
    CommitRequest,
    CommittedOffset,
    DeleteReply,
    DescribedGroup,
    DescribedMember,
    Effects,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeavingMember,
    ListedGroup,
    Now,
    OffsetDeleteReply,
    SyncReply,
    SyncRequest,
    Token,
)
from broker.groups.persistence import replay, tombstone_of
from broker.groups.rollback import roll_back
from broker.groups.timers import Kind, Timer, Timers
from broker.groups.transition import PendingRequests, Transition

CLASSIC: Final = "classic"

GROUPS_AT_ONCE: Final = 256
"""Groups processed between two pauses."""

OFFSETS_AT_ONCE: Final = 64
"""Offsets dropped between two pauses, each of which writes a record."""

NO_OFFSETS: Final[Mapping[str, Mapping[int, CommittedOffset]]] = {}

FAILED_TIMER_RETRY_MS: Final = 5_000
"""Retry delay of a timer whose handler raised; ours. Without a retry, the members would wait forever."""

OnTimerFailure = Callable[[str, Exception], None]
"""Receives the group id and the unexpected exception of its timer."""


class GroupCoordinator:
    """The coordinator, one per broker.

    `new_uuid` makes the part of a member id that distinguishes members with the same client id.
    """

    def __init__(self, config: GroupConfig, new_uuid: Callable[[], str] = lambda: str(uuid4())) -> None:
        self._config = config
        self._new_uuid = new_uuid
        self._groups: dict[str, Group] = {}
        self._timers = Timers()
        self._pending: PendingRequests = {}
        self._retention = Timer(Kind.RETENTION)

    # Starting and stopping

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of __consumer_offsets, in log order. Raises UnreadableRecord."""
        replay(self._groups, key, value)

    def loaded(self, now: Now) -> Effects:
        """Start the sessions after all records are replayed, and rebalance groups above `group.max.size`."""
        transition = self._transition(now)
        transition.set_timer(self._retention, self._config.offsets_retention_check_interval_ms)
        for group in self._groups.values():
            for member in group.members.values():
                rebalance.start_session(transition, member)
            if len(group.members) > self._config.max_size:
                rebalance.prepare(transition, group)
        return transition.effects

    def release(self) -> Effects:
        """Complete all pending requests at shutdown so that clients look for a coordinator again."""
        effects = Effects()
        for token, request in self._pending.items():
            effects.replies.append((token, replace(request.superseded, error=ErrorCode.NOT_COORDINATOR)))
            request.tokens[request.member_id] = None
        self._pending.clear()
        return effects

    # Time

    def next_deadline(self) -> int | None:
        """Return the monotonic time in milliseconds of the next `expire`; None if no timer is set."""
        return self._timers.next_deadline()

    def expire(self, now: Now, on_failure: OnTimerFailure | None = None) -> Effects:
        """Handle expired timers: sessions, rebalance phases, offset retention.

        If one group's handler raises, the others continue, `on_failure` is called, and the timer is retried
        `FAILED_TIMER_RETRY_MS` later; without `on_failure` the exception propagates.
        """
        transition = self._transition(now)
        while (timer := self._timers.pop_due(now.ms)) is not None:
            try:
                self._handle_timer(transition, timer)
            except Exception as error:
                if on_failure is None:
                    raise
                on_failure(timer.group_id, error)
                transition.set_timer(timer, FAILED_TIMER_RETRY_MS)
        return transition.effects

    def forget(self, token: Token) -> bool:
        """Drop the pending request of a disconnected client. The member stays until its session expires."""
        request = self._pending.pop(token, None)
        if request is None:
            return False
        request.tokens[request.member_id] = None
        return True

    # Membership

    def join(self, request: JoinRequest, token: Token, now: Now) -> Effects:
        """Handle a JoinGroup.

        The reply follows when the rebalance ends, or at once without a rebalance or on an error.
        """
        transition = self._transition(now)
        error = self._check_join(request)
        if error:
            transition.reply(token, JoinReply(error, request.member_id))
            return transition.effects
        group = self._get_or_create(request.group_id)
        new_id = "" if request.member_id else f"{request.instance_id or request.client_id}-{self._new_uuid()}"
        join(transition, group, request, token, new_id)
        self._discard_if_blank(group)
        return transition.effects

    def sync(self, request: SyncRequest, token: Token, now: Now) -> Effects:
        """Handle a SyncGroup. The reply follows when the leader's assignment has arrived."""
        transition = self._transition(now)
        group = self._groups.get(request.group_id)
        if group is None:
            transition.reply(token, SyncReply(_missing(request.group_id)))
        else:
            sync(transition, group, request, token)
        return transition.effects

    def heartbeat(
        self, group_id: str, generation_id: int, member_id: str, instance_id: str | None, now: Now
    ) -> ErrorCode:
        """Handle a Heartbeat, which only restarts the member's session."""
        group = self._groups.get(group_id)
        if group is None:
            return _missing(group_id)
        return heartbeat(self._transition(now), group, generation_id, member_id, instance_id)

    def leave(self, group_id: str, leaving: Sequence[LeavingMember], token: Token, now: Now) -> Effects:
        """Handle a LeaveGroup for one or more members."""
        transition = self._transition(now)
        group = self._groups.get(group_id)
        if group is not None:
            leave(transition, group, leaving, token)
        elif group_id:
            transition.reply(token, LeaveReply(ErrorCode.NONE, (ErrorCode.UNKNOWN_MEMBER_ID,) * len(leaving)))
        else:
            transition.reply(token, LeaveReply(ErrorCode.INVALID_GROUP_ID))
        return transition.effects

    # Offsets

    def commit(self, request: CommitRequest, token: Token, now: Now) -> Effects:
        """Handle an OffsetCommit. The caller checks that the topics exist."""
        transition = self._transition(now)
        group = self._groups.get(request.group_id)
        if group is None and request.generation_id >= 0:
            missing = (
                ErrorCode.GROUP_ID_NOT_FOUND if request.knows_missing_groups else ErrorCode.ILLEGAL_GENERATION
            )
            transition.reply(token, CommitReply((missing,) * len(request.offsets)))
            return transition.effects
        if group is None:
            group = self._get_or_create(request.group_id)
        offsets.commit(transition, group, request, token)
        self._discard_if_blank(group)
        return transition.effects

    def committed(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return the offsets by topic and partition: the coordinator's own mapping, not a copy.

        Empty for a missing group.
        """
        group = self._groups.get(group_id)
        return NO_OFFSETS if group is None else group.offsets

    def check_delete_offsets(self, group_id: str) -> ErrorCode:
        """Return the top-level error of an OffsetDelete, before any partition is checked."""
        group = self._groups.get(group_id)
        return ErrorCode.GROUP_ID_NOT_FOUND if group is None else offsets.check_delete(group)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[str, int]], token: Token, now: Now
    ) -> Effects:
        """Handle an OffsetDelete."""
        transition = self._transition(now)
        group = self._groups.get(group_id)
        if group is None:
            transition.reply(token, OffsetDeleteReply(ErrorCode.GROUP_ID_NOT_FOUND))
        else:
            offsets.delete(transition, group, partitions, token)
        return transition.effects

    def committed_in(self, topics: Mapping[str, int]) -> Iterator[tuple[str, list[tuple[str, int]]]]:
        """Yield in batches the partitions of `topics` for which groups have committed offsets.

        `topics` maps names to partition counts. An empty batch is a pause after groups without such commits.
        Skips groups created meanwhile.
        """
        for number, group_id in enumerate(list(self._groups)):
            group = self._groups.get(group_id)
            if group is not None and not topics.keys().isdisjoint(group.offsets):
                found = [each for each in offsets.partitions_of(group) if each[1] < topics.get(each[0], 0)]
                for at in range(0, len(found), OFFSETS_AT_ONCE):
                    yield group_id, found[at : at + OFFSETS_AT_ONCE]
            elif number % GROUPS_AT_ONCE == GROUPS_AT_ONCE - 1:
                yield group_id, []

    def partitions_deleted(self, group_id: str, partitions: Collection[tuple[str, int]], now: Now) -> Effects:
        """Remove the group's offsets for partitions of deleted topics."""
        transition = self._transition(now)
        group = self._groups.get(group_id)
        if group is not None:
            offsets.drop(transition, group, partitions)
        return transition.effects

    # Groups as a whole

    def listed(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
        """Handle ListGroups: the groups in one of the states and of one of the types (KIP-518, KIP-848).

        Filters are case-insensitive; an empty filter matches everything.
        """
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {group_type.strip().lower() for group_type in types}
        if wanted_types and CLASSIC not in wanted_types:
            return []
        return [
            ListedGroup(
                group.group_id, group.protocol_type or "", group.state.value, CLASSIC, len(group.members)
            )
            for group in self._groups.values()
            if not wanted_states or group.state.value.lower() in wanted_states
        ]

    def described(self, group_ids: Iterable[str], *, missing_is_error: bool) -> list[DescribedGroup]:
        """Handle DescribeGroups: one entry per id, in order.

        A missing group is Dead, and from version 6 an error.
        """
        return [
            _described(self._groups[group_id])
            if group_id in self._groups
            else _described_missing(group_id, is_error=missing_is_error)
            for group_id in group_ids
        ]

    def delete(self, group_ids: Sequence[str], token: Token, now: Now) -> Effects:
        """Handle DeleteGroups: delete empty groups with their offsets."""
        transition = self._transition(now)
        transition.reply(
            token, DeleteReply(tuple(self._delete_one(transition, group_id) for group_id in group_ids))
        )
        return transition.effects

    def roll_back(self, effects: Effects, error: ErrorCode, now: Now) -> Effects:
        """Roll back a call whose records could not be written and return the new replies.

        Roll back the latest call first.
        """
        transition = self._transition(now)
        roll_back(transition, self._groups, effects, error)
        return transition.effects

    def _transition(self, now: Now) -> Transition:
        return Transition(self._config, self._timers, self._pending, now)

    def _check_join(self, request: JoinRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        config = self._config
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if request.member_id and request.group_id not in self._groups:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def _get_or_create(self, group_id: str) -> Group:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = Group(group_id)
        return group

    def _discard_if_blank(self, group: Group) -> None:
        if group.is_blank:
            del self._groups[group.group_id]

    def _handle_timer(self, transition: Transition, timer: Timer) -> None:
        if timer.kind is Kind.RETENTION:
            self._expire_offsets(transition)
            return
        group = self._groups[timer.group_id]
        match timer.kind:
            case Kind.SESSION:
                rebalance.session_expired(transition, group, timer.member_id)
                self._discard_if_blank(group)
            case Kind.JOIN_PHASE:
                rebalance.join_phase_expired(transition, group)
            case Kind.SYNC_PHASE:
                rebalance.sync_phase_expired(transition, group)

    def _expire_offsets(self, transition: Transition) -> None:
        """Remove expired offsets, and empty groups without offsets."""
        for group in list(self._groups.values()):
            offsets.expire(transition, group)
            if group.state is State.EMPTY and not (group.offsets or group.pending_join):
                self._remove_group(transition, group)
        transition.set_timer(self._retention, self._config.offsets_retention_check_interval_ms)

    def _delete_one(self, transition: Transition, group_id: str) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not State.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        offsets.drop(transition, group, offsets.partitions_of(group))
        self._remove_group(transition, group)
        return ErrorCode.NONE

    def _remove_group(self, transition: Transition, group: Group) -> None:
        for pending in group.pending_join.values():
            transition.timers.cancel(pending)
        group.enter(State.DEAD, transition.wall_ms)
        del self._groups[group.group_id]
        transition.record(tombstone_of(group))


def _missing(group_id: str) -> ErrorCode:
    """Return the error for a member of a missing group."""
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID


def _described(group: Group) -> DescribedGroup:
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


def _described_missing(group_id: str, *, is_error: bool) -> DescribedGroup:
    """Describe a missing group: Dead, and since DescribeGroups 6 (KIP-1043) also an error."""
    if is_error:
        message = f"Group {group_id} not found."
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, group_id, State.DEAD.value, message=message)
    return DescribedGroup(ErrorCode.NONE, group_id, State.DEAD.value)
