"""The group coordinator: the public interface to this broker's groups.

Called by `services`, which writes the records and sends the responses. Holds the groups and the pending
requests; `membership` and `rebalance` implement group behaviour, `offsets` the committed offsets.

A call returns at once. A JoinGroup or SyncGroup whose token is not among the replies is pending: a later call
returns its reply. (Kafka: GroupCoordinatorService and GroupMetadataManager, for classic groups.)

A call whose records could not be written is rolled back: overwritten offsets are restored, successful replies
become errors, and a group whose assignment was not written is rebalanced. (Kafka:
appendGroupMetadataErrorToResponseError, and the rollback of its coordinator runtime)
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple
from uuid import uuid4

from msgspec.structs import replace

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
    Reply,
    SyncReply,
    SyncRequest,
    Token,
)
from broker.groups.pending_offsets import PendingOffsets
from broker.groups.persistence import replay, tombstone_of
from broker.groups.rebalance import hand_out_assignments, prepare
from broker.groups.records import GroupKey, OffsetKey, decode_key, decode_offset_value
from broker.groups.subscriptions import SubscribedTopics, subscribed_topics
from broker.groups.timers import Kind, Timer, Timers
from broker.groups.transition import PendingRequests, Transition
from broker.steps import Steps

COORDINATOR_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Log errors translated to coordinator errors; the others stay unchanged."""


def roll_back(transition: Transition, groups: dict[str, Group], effects: Effects, error: ErrorCode) -> None:
    """Undo `effects` and leave the replies to send instead in `transition`."""
    error = COORDINATOR_ERRORS.get(error, error)
    for group_id, topic, partition, previous in reversed(effects.overwritten):
        offsets = groups.setdefault(group_id, Group(group_id)).offsets
        if previous is not None:
            offsets.setdefault(topic, {})[partition] = previous
        else:
            del offsets[topic][partition]
            if not offsets[topic]:
                del offsets[topic]
    for token, reply in effects.replies:
        transition.reply(token, _refusal(reply, error))
    for key, value in effects.records:
        match decode_key(key):
            case GroupKey(group_id) if value is None:
                groups.setdefault(group_id, Group(group_id))
            case GroupKey(group_id) if groups[group_id].state is State.STABLE:
                hand_out_assignments(transition, groups[group_id], {}, error)
                prepare(transition, groups[group_id])


def _refusal(reply: Reply, error: ErrorCode) -> Reply:
    match reply:
        case JoinReply(ErrorCode.NONE, member_id):
            return JoinReply(error, member_id)
        case SyncReply(ErrorCode.NONE):
            return SyncReply(error)
        case CommitReply(errors) | OffsetDeleteReply(_, errors) | DeleteReply(errors):
            return replace(reply, errors=tuple(each or error for each in errors))
        case _:
            return reply


CLASSIC: Final = "classic"

GROUPS_AT_ONCE: Final = 256
"""Groups or topics looked up between two pauses."""

OFFSETS_AT_ONCE: Final = 64
"""Offsets dropped between two pauses, each of which writes a record."""

TIMERS_AT_ONCE: Final = 16
"""Timers that `expire` handles in one call; fewer of large groups."""

MEMBERS_AT_ONCE: Final = 64
"""Members of a group whose timer counts as one more timer, because a rebalance walks through all members."""

READINGS: Final = 2
"""Times that an OffsetDelete reads the topics of a group before it gives up; ours."""

NO_OFFSETS: Final[Mapping[str, Mapping[int, CommittedOffset]]] = {}

FAILED_TIMER_RETRY_MS: Final = 5_000
"""Retry delay of a timer whose handler raised; ours. Without a retry, the members would wait forever."""

OnTimerFailure = Callable[[str, Exception], None]
"""Receives the group id and the unexpected exception of its timer."""


class _ExpiryPiece(NamedTuple):
    """Partitions whose offsets are checked; `subscribed` is None if the group has no members."""

    group: Group
    partitions: list[tuple[str, int]]
    subscribed: SubscribedTopics | None


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
        self._pending_offsets = PendingOffsets()
        self._expiry: Iterator[_ExpiryPiece | None] | None = None
        """The rest of the running check for expired offsets."""

    # Starting and stopping

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of __consumer_offsets, in log order. Raises UnreadableRecord."""
        replay(self._groups, key, value)

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Apply one record of an open transaction. Raises UnreadableRecord."""
        place = decode_key(key)
        if isinstance(place, OffsetKey) and value is not None:
            committed = decode_offset_value(value)
            self._pending_offsets.add(producer_id, place.group_id, place.topic, place.partition, committed)

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
            effects.replies.append((token, request.superseded._replace(error=ErrorCode.NOT_COORDINATOR)))
            request.tokens[request.member_id] = None
        self._pending.clear()
        return effects

    # Time

    def next_deadline(self) -> int | None:
        """Return the monotonic time in milliseconds of the next `expire`; None if no timer is set."""
        return self._timers.next_deadline()

    def expire(self, now: Now, on_failure: OnTimerFailure | None = None) -> Effects:
        """Handle expired timers: sessions, rebalance phases, offset retention.

        Handles a few of them, or checks a few offsets. The deadline of the rest is now or earlier: call
        again after others have had a turn. If one group's handler raises, the others continue, `on_failure`
        is called, and the timer is retried `FAILED_TIMER_RETRY_MS` later; without `on_failure` the exception
        propagates.
        """
        transition = self._transition(now)
        left = TIMERS_AT_ONCE
        while left > 0:
            timer = self._timers.pop_due(now.ms)
            if timer is None:
                break
            group = self._groups.get(timer.group_id)
            left -= 1 if group is None else 1 + len(group.members) // MEMBERS_AT_ONCE
            try:
                self._handle_timer(transition, timer)
            except Exception as error:
                if on_failure is None:
                    raise
                on_failure(timer.group_id, error)
                transition.set_timer(timer, FAILED_TIMER_RETRY_MS)
            if timer is self._retention:
                break  # the next piece may be due
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

    def commit_in_transaction(self, request: CommitRequest, token: Token, now: Now) -> Effects:
        """Handle a TxnOffsetCommit. Its offsets are pending once the records are written."""
        transition = self._transition(now)
        group = self._groups.get(request.group_id)
        if group is None and request.generation_id >= 0:
            missing = (ErrorCode.ILLEGAL_GENERATION,) * len(request.offsets)
            transition.reply(token, CommitReply(missing))
        else:
            offsets.commit_in_transaction(transition, group, request, token)
        return transition.effects

    def end_transaction(self, producer_id: int, is_wanted: Callable[[str], bool], *, is_commit: bool) -> None:
        """Apply the marker of a transaction to the groups that are wanted."""
        for group_id, topic, partition, committed in self._pending_offsets.end(producer_id, is_wanted):
            if is_commit:
                self._get_or_create(group_id).offsets.setdefault(topic, {})[partition] = committed

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction has committed an offset of this partition."""
        return self._pending_offsets.has(group_id, topic, partition)

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

    def subscribed_topics(
        self, group_id: str, wanted: Container[str], known: SubscribedTopics | None = None
    ) -> Steps[SubscribedTopics]:
        """Return which of the `wanted` topics the group consumes. Pauses after every few topics.

        `known` is an earlier result, which is returned if no generation has begun since. Reads the topics
        again if a generation begins meanwhile; a group that begins another one before they are read is taken
        to consume every topic.
        """
        for _ in range(READINGS):
            group = self._groups.get(group_id)
            if group is None:
                break
            if known is not None and known.is_of(group):
                return known
            subscribed = yield from subscribed_topics(group, wanted)
            if self._groups.get(group_id) is group and subscribed.is_of(group):
                return subscribed
        group = self._groups.get(group_id)
        return SubscribedTopics(None if group is None else group.subscriptions, None)

    def delete_offsets(
        self,
        group_id: str,
        partitions: Sequence[tuple[str, int]],
        subscribed: SubscribedTopics,
        token: Token,
        now: Now,
    ) -> Effects:
        """Handle an OffsetDelete. No pause has been since `subscribed_topics` returned `subscribed`."""
        transition = self._transition(now)
        group = self._groups.get(group_id)
        if group is None:
            transition.reply(token, OffsetDeleteReply(ErrorCode.GROUP_ID_NOT_FOUND))
        else:
            offsets.delete(transition, group, partitions, subscribed, token)
        return transition.effects

    def committed_in(self, topics: Mapping[str, int]) -> Iterator[tuple[str, list[tuple[str, int]]]]:
        """Yield in batches the partitions of `topics` for which groups have committed offsets.

        `topics` maps names to partition counts. An empty batch is a pause after groups and topics without
        such commits. Skips groups created meanwhile.
        """
        looked_up = 0
        for group_id in list(self._groups):
            group = self._groups.get(group_id)
            committed = {} if group is None else group.offsets
            found: list[tuple[str, int]] = []
            for topic in list(topics if len(topics) < len(committed) else committed):
                if topic in committed and topic in topics:
                    found += [(topic, each) for each in committed[topic] if each < topics[topic]]
                while len(found) >= OFFSETS_AT_ONCE:
                    yield group_id, found[:OFFSETS_AT_ONCE]
                    del found[:OFFSETS_AT_ONCE]
                looked_up += 1
                if looked_up % GROUPS_AT_ONCE == 0:
                    yield group_id, []
            looked_up += 1
            if found or looked_up % GROUPS_AT_ONCE == 0:
                yield group_id, found

    def partitions_deleted(self, group_id: str, partitions: Collection[tuple[str, int]], now: Now) -> Effects:
        """Remove the group's offsets for partitions of deleted topics."""
        transition = self._transition(now)
        group = self._groups.get(group_id)
        if group is not None:
            offsets.drop(transition, group, partitions)
        return transition.effects

    # Groups as a whole

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._groups)

    def listed(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
        """`listed_in_pieces` at once."""
        return [group for piece in self.listed_in_pieces(states, types) for group in piece]

    def listed_in_pieces(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> Iterator[list[ListedGroup]]:
        """Handle ListGroups: the groups in one of the states and of one of the types (KIP-518, KIP-848).

        Filters are case-insensitive; an empty filter matches everything. Yields after every few groups,
        matching or not; groups created meanwhile are skipped.
        """
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {group_type.strip().lower() for group_type in types}
        if wanted_types and CLASSIC not in wanted_types:
            return
        groups = list(self._groups.values())
        for at in range(0, len(groups), GROUPS_AT_ONCE):
            yield [
                ListedGroup(
                    group.group_id, group.protocol_type or "", group.state.value, CLASSIC, len(group.members)
                )
                for group in groups[at : at + GROUPS_AT_ONCE]
                if self._groups.get(group.group_id) is group
                and (not wanted_states or group.state.value.lower() in wanted_states)
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

    def count_offsets(self, group_id: str, most: int) -> int:
        """Return the number of the group's offsets, or `most` if there are more."""
        group = self._groups.get(group_id)
        return 0 if group is None else offsets.count_of(group, most)

    def delete_some_offsets(self, group_id: str, token: Token, now: Now) -> Effects:
        """Delete OFFSETS_AT_ONCE offsets of a group that is to be deleted; the reply is as of `delete`.

        A member that joins before the group is deleted keeps the group, without these offsets.
        """
        transition = self._transition(now)
        error = self._check_delete(group_id)
        if not error:
            offsets.drop_first(transition, self._groups[group_id], OFFSETS_AT_ONCE)
        transition.reply(token, DeleteReply((error,)))
        return transition.effects

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
        """Remove expired offsets, and empty groups without offsets: a few, and the next ones right after."""
        if self._expiry is None:
            self._expiry = self._expiry_pieces(transition.wall_ms)
        checked = 0
        for piece in self._expiry:
            if piece is None:
                checked = OFFSETS_AT_ONCE
            else:
                self._expire_piece(transition, *piece)
                checked += len(piece.partitions)
            checked += 1
            if checked > OFFSETS_AT_ONCE:
                transition.set_timer(self._retention, 0)
                return
        self._expiry = None
        transition.set_timer(self._retention, self._config.offsets_retention_check_interval_ms)

    def _expire_piece(
        self,
        transition: Transition,
        group: Group,
        partitions: list[tuple[str, int]],
        subscribed: SubscribedTopics | None,
    ) -> None:
        if self._groups.get(group.group_id) is group:
            offsets.expire(transition, group, partitions, subscribed)
            is_blank = not (partitions or group.offsets or group.pending_join)
            if is_blank and group.state is State.EMPTY:
                self._remove_group(transition, group)

    def _expiry_pieces(self, wall_ms: int) -> Iterator[_ExpiryPiece | None]:
        """Yield the partitions of each group in pieces, the last of which is empty.

        None is a pause in which a few subscribed topics were read, which only a group with offsets past their
        retention needs.
        """
        retention_ms = self._config.offsets_retention_ms
        for group in list(self._groups.values()):
            subscribed: SubscribedTopics | None = None
            partitions = offsets.partitions_of(group)
            while some := list(islice(partitions, OFFSETS_AT_ONCE)):
                if (
                    group.state is State.STABLE
                    and (subscribed is None or not subscribed.is_of(group))
                    and offsets.any_expired(group, some, wall_ms, retention_ms)
                ):
                    subscribed = yield from subscribed_topics(group, group.offsets)
                yield _ExpiryPiece(group, some, subscribed)
            yield _ExpiryPiece(group, [], None)

    def _check_delete(self, group_id: str) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if group.state is State.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def _delete_one(self, transition: Transition, group_id: str) -> ErrorCode:
        error = self._check_delete(group_id)
        if not error:
            group = self._groups[group_id]
            offsets.drop(transition, group, offsets.partitions_of(group))
            self._remove_group(transition, group)
        return error

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
