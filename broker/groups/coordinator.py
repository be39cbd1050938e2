"""The group coordinator: the only door to the groups of this broker.

Called by `services`, which writes the records and delivers the answers. Knows which groups there are and
what is parked; how a group behaves is in `classic`, what it has committed in `offsets`.

A call returns at once. A JoinGroup or SyncGroup whose token is not among the replies is parked: its answer
is among those of a later call. (Kafka: GroupCoordinatorService and GroupMetadataManager, for classic
groups.)
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import uuid4

from broker.config.sections.groups import GroupConfig
from broker.errors import ErrorCode
from broker.groups import listing, loading, offsets
from broker.groups.classic import rebalance
from broker.groups.classic.group import Group
from broker.groups.classic.join import join
from broker.groups.classic.leave import leave
from broker.groups.classic.state import State
from broker.groups.classic.stored import tombstone_of
from broker.groups.classic.sync import heartbeat, sync
from broker.groups.committed import CommittedOffset
from broker.groups.failure import take_back
from broker.groups.replies import (
    CommitReply,
    DeleteReply,
    DescribedGroup,
    Effects,
    JoinReply,
    LeaveReply,
    ListedGroup,
    OffsetDeleteReply,
    SyncReply,
    Token,
)
from broker.groups.requests import CommitRequest, JoinRequest, Leaving, Now, SyncRequest
from broker.groups.timers import Kind, Timer, Timers
from broker.groups.transition import PendingReplies, Transition

GROUPS_AT_ONCE: Final = 256
"""Groups that are looked at between two pauses."""

OFFSETS_AT_ONCE: Final = 64
"""Offsets that are dropped between two pauses, each of which writes a record."""

NO_OFFSETS: Final[Mapping[str, Mapping[int, CommittedOffset]]] = {}

FAILED_ALARM_RETRY_MS: Final = 5_000
"""Ours: an alarm that raised goes off again, or the members that wait for it would wait for ever."""


class GroupCoordinator:
    """One per broker. `new_uuid` makes the part of a member id that tells members of one client id apart.
    `on_failure` is told the group, and what its alarm has raised that nothing expects.
    """

    def __init__(self, config: GroupConfig, new_uuid: Callable[[], str] = lambda: str(uuid4())) -> None:
        self._config = config
        self._new_uuid = new_uuid
        self._groups: dict[str, Group] = {}
        self._timers = Timers()
        self._pending: PendingReplies = {}
        self._retention = Timer(Kind.RETENTION)
        self.on_failure: Callable[[str, Exception], None] | None = None

    # Starting and stopping

    def replay(self, key: bytes, value: bytes | None) -> None:
        """One record of __consumer_offsets, in the order of the log. Raises UnreadableRecord."""
        loading.replay(self._groups, key, value)

    def loaded(self, now: Now) -> Effects:
        """All records are replayed: sessions start, and a group above `group.max.size` is called to a
        rebalance.
        """
        transition = self._transition(now)
        transition.set_timer(self._retention, self._config.offsets_retention_check_interval_ms)
        for group in self._groups.values():
            for member in group.members.values():
                rebalance.start_session(transition, member)
            if len(group.members) > self._config.max_size:
                rebalance.prepare(transition, group)
        return transition.effects

    def release(self) -> Effects:
        """The broker stops: everything parked is answered so that its client looks for a coordinator
        again.
        """
        effects = Effects()
        for token, place in self._pending.items():
            effects.replies.append((token, replace(place.superseded, error=ErrorCode.NOT_COORDINATOR)))
            place.waiting[place.member_id] = None
        self._pending.clear()
        return effects

    # Time

    def next_deadline(self) -> int | None:
        """When `expire` next has something to do, in monotonic milliseconds; None when never."""
        return self._timers.next_deadline()

    def expire(self, now: Now) -> Effects:
        """Do what time has brought: sessions and phases that ran out, offsets that outlived their
        retention. Where that raises for one group, the others have their turn, `on_failure` is told, and it
        is tried again `FAILED_ALARM_RETRY_MS` later; without `on_failure`, the exception is raised.
        """
        transition = self._transition(now)
        while (timer := self._timers.pop_due(now.ms)) is not None:
            try:
                self._go_off(transition, timer)
            except Exception as error:
                if self.on_failure is None:
                    raise
                self.on_failure(timer.group_id, error)
                transition.set_timer(timer, FAILED_ALARM_RETRY_MS)
        return transition.effects

    def forget(self, token: Token) -> bool:
        """The client of a parked request has gone. Its member stays, as it may come back, until its
        session is over.
        """
        place = self._pending.pop(token, None)
        if place is None:
            return False
        place.waiting[place.member_id] = None
        return True

    # Membership

    def join(self, request: JoinRequest, token: Token, now: Now) -> Effects:
        """JoinGroup. Answered when the rebalance ends, or at once where there is none or an error."""
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
        """SyncGroup. Answered when the leader's assignment has come."""
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
        """Heartbeat. It has no other effect than that the member lives on."""
        group = self._groups.get(group_id)
        if group is None:
            return _missing(group_id)
        return heartbeat(self._transition(now), group, generation_id, member_id, instance_id)

    def leave(self, group_id: str, leaving: Sequence[Leaving], token: Token, now: Now) -> Effects:
        """LeaveGroup, of one member or of several."""
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
        """OffsetCommit. Whether the topics exist is for the caller to know."""
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
        """Offsets by topic and partition, to be read at once: it is the coordinator's own. A missing group
        has none.
        """
        group = self._groups.get(group_id)
        return NO_OFFSETS if group is None else group.offsets

    def check_delete_offsets(self, group_id: str) -> ErrorCode:
        """The error of an OffsetDelete as a whole, before any partition is looked at."""
        group = self._groups.get(group_id)
        return ErrorCode.GROUP_ID_NOT_FOUND if group is None else offsets.check_delete(group)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[str, int]], token: Token, now: Now
    ) -> Effects:
        """OffsetDelete."""
        transition = self._transition(now)
        group = self._groups.get(group_id)
        if group is None:
            transition.reply(token, OffsetDeleteReply(ErrorCode.GROUP_ID_NOT_FOUND))
        else:
            offsets.delete(transition, group, partitions, token)
        return transition.effects

    def committed_in(self, topics: Mapping[str, int]) -> Iterator[tuple[str, list[tuple[str, int]]]]:
        """What groups have committed for the topics, of which each has so many partitions: a few partitions
        of a group at a time. No partitions: groups were looked at that have committed none. Groups that come
        meanwhile are left out.
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
        """Topics are gone: so are the offsets that the group has committed for these partitions of them."""
        transition = self._transition(now)
        group = self._groups.get(group_id)
        if group is not None:
            offsets.drop(transition, group, partitions)
        return transition.effects

    # Groups as a whole

    def listed(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
        """ListGroups. Filters are compared without regard to case; an empty one lets all pass."""
        return listing.listed(self._groups.values(), states, types)

    def described(self, group_ids: Iterable[str], *, missing_is_error: bool) -> list[DescribedGroup]:
        """DescribeGroups: one entry per id, in their order; a missing group is dead, and from version 6 an
        error.
        """
        return [
            listing.described(self._groups[group_id])
            if group_id in self._groups
            else listing.described_missing(group_id, is_error=missing_is_error)
            for group_id in group_ids
        ]

    def delete(self, group_ids: Sequence[str], token: Token, now: Now) -> Effects:
        """DeleteGroups, with their offsets; only empty ones."""
        transition = self._transition(now)
        transition.reply(
            token, DeleteReply(tuple(self._delete_one(transition, group_id) for group_id in group_ids))
        )
        return transition.effects

    def failed(self, effects: Effects, error: ErrorCode, now: Now) -> Effects:
        """The records of a call could not be written: what to answer instead. Of several calls, the last
        comes first.
        """
        transition = self._transition(now)
        take_back(transition, self._groups, effects, error)
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

    def _go_off(self, transition: Transition, timer: Timer) -> None:
        if timer.kind is Kind.RETENTION:
            self._expire_offsets(transition)
            return
        group = self._groups[timer.group_id]
        match timer.kind:
            case Kind.SESSION:
                rebalance.session_over(transition, group, timer.member_id)
                self._discard_if_blank(group)
            case Kind.JOIN_PHASE:
                rebalance.join_phase_over(transition, group)
            case Kind.SYNC_PHASE:
                rebalance.sync_phase_over(transition, group)

    def _expire_offsets(self, transition: Transition) -> None:
        """Expired offsets go, and with the last of them a group that nobody is in."""
        for group in list(self._groups.values()):
            offsets.expire(transition, group)
            if group.state is State.EMPTY and not (group.offsets or group.pending_join):
                self._bury(transition, group)
        transition.set_timer(self._retention, self._config.offsets_retention_check_interval_ms)

    def _delete_one(self, transition: Transition, group_id: str) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not State.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        offsets.drop(transition, group, offsets.partitions_of(group))
        self._bury(transition, group)
        return ErrorCode.NONE

    def _bury(self, transition: Transition, group: Group) -> None:
        for pending in group.pending_join.values():
            transition.timers.cancel(pending)
        group.enter(State.DEAD, transition.wall_ms)
        del self._groups[group.group_id]
        transition.record(tombstone_of(group))


def _missing(group_id: str) -> ErrorCode:
    """What a member of a group that does not exist is told."""
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID
