"""The group coordinator: the public interface to this broker's groups.

Called by `coordinator.group_service`, which writes the records and sends the responses. Holds the groups and
the pending requests; `membership` and `rebalance` implement classic groups, `consumer` those of the consumer
protocol, `share` share groups, `offsets` the committed offsets.

A call returns at once. A JoinGroup or SyncGroup whose token is not among the replies is pending: a later call
returns its reply. (Kafka: GroupCoordinatorService and GroupMetadataManager)

A call whose records could not be written is rolled back: overwritten offsets are restored, successful replies
become errors, and a group whose assignment was not written is rebalanced; a consumer or share group is as
before the call. (Kafka: appendGroupMetadataErrorToResponseError, and the rollback of its coordinator runtime)
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeVar
from uuid import uuid4

from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.common.steps import Steps, finished
from broker.config.sections.consumer_groups import ConsumerGroupConfig
from broker.config.sections.groups import GroupConfig
from broker.config.sections.share_groups import ShareGroupConfig
from broker.coordinator.group import offsets, rebalance
from broker.coordinator.group.any_group import AnyGroup, Groups
from broker.coordinator.group.consumer import classic_members, migration
from broker.coordinator.group.consumer import heartbeat as consumer_heartbeat
from broker.coordinator.group.consumer import persistence as consumer_persistence
from broker.coordinator.group.consumer.assignment import Assignment, ClusterTopics
from broker.coordinator.group.consumer.description import describe_consumers
from broker.coordinator.group.consumer.group import CONSUMER_PROTOCOL_TYPE, NO_EPOCH, ConsumerGroup
from broker.coordinator.group.consumer.member import JOINS, LEAVES, LEAVES_FOR_NOW
from broker.coordinator.group.consumer.regular_expressions import outdated_expressions
from broker.coordinator.group.consumer.timing import start_missing, start_session
from broker.coordinator.group.group import Group, State
from broker.coordinator.group.isolation import METADATA_AT_ONCE, Change, changed, is_costly, is_large
from broker.coordinator.group.membership import heartbeat, join, leave, sync
from broker.coordinator.group.messages import (
    CommitReply,
    CommitRequest,
    CommittedOffset,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    DeleteReply,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
    DescribedShareGroup,
    Effects,
    GroupOverview,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeavingMember,
    ListedGroup,
    Now,
    OffsetDeleteReply,
    Reply,
    ShareHeartbeatReply,
    ShareHeartbeatRequest,
    ShareStatesReply,
    SyncReply,
    SyncRequest,
    Token,
)
from broker.coordinator.group.pending_offsets import PendingOffsets
from broker.coordinator.group.persistence import replay, tombstone_of
from broker.coordinator.group.rebalance import hand_out_assignments, prepare
from broker.coordinator.group.records import GroupKey, OffsetKey, decode_key, decode_offset_value
from broker.coordinator.group.share import epochs as share_epochs
from broker.coordinator.group.share import heartbeat as share_heartbeat
from broker.coordinator.group.share import persistence as share_persistence
from broker.coordinator.group.share import state_changes
from broker.coordinator.group.share.description import describe_members
from broker.coordinator.group.share.group import SHARE_PROTOCOL_TYPE, ShareGroup
from broker.coordinator.group.share.removal import sessions_expired
from broker.coordinator.group.share.state_partitions import ByTopicId, StatePartitions
from broker.coordinator.group.subscriptions import SubscribedTopics, subscribed_topics
from broker.coordinator.group.timers import Kind, SetsTimers, Timer, Timers
from broker.coordinator.group.transition import PendingRequests, Transition

Result = TypeVar("Result")

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


def roll_back(transition: Transition, groups: Groups, effects: Effects, error: ErrorCode) -> None:
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
    replaced = {group_id for group_id, _ in effects.replaced}
    for key, value in effects.records:
        match decode_key(key):
            case GroupKey(group_id) if group_id in replaced:
                pass
            case GroupKey(group_id) if value is None:
                groups.setdefault(group_id, Group(group_id))
            case GroupKey(group_id):
                group = groups[group_id]
                if isinstance(group, Group) and group.state is State.STABLE:
                    hand_out_assignments(transition, group, {}, error)
                    prepare(transition, group)
    for group_id, before in reversed(effects.replaced):
        if isinstance(before, Group | ConsumerGroup | ShareGroup):
            groups[group_id] = before
        else:
            groups.pop(group_id, None)


def _refusal(reply: Reply, error: ErrorCode) -> Reply:
    match reply:
        case ConsumerHeartbeatReply(ErrorCode.NONE):
            return ConsumerHeartbeatReply(error)
        case ShareHeartbeatReply(ErrorCode.NONE):
            return ShareHeartbeatReply(error)
        case ShareStatesReply(ErrorCode.NONE):
            return ShareStatesReply(error)
        case JoinReply(ErrorCode.NONE, member_id):
            return JoinReply(error, member_id)
        case SyncReply(ErrorCode.NONE):
            return SyncReply(error)
        case CommitReply(errors) | OffsetDeleteReply(_, errors) | DeleteReply(errors):
            return replace(reply, errors=tuple(each or error for each in errors))
        case _:
            return reply


CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
"""The types of groups."""

GROUPS_AT_ONCE: Final = 256
"""Groups or topics looked up between two pauses."""

OFFSETS_AT_ONCE: Final = 64
"""Offsets dropped between two pauses, each of which writes a record."""

TIMERS_AT_ONCE: Final = 16
"""Timers that `expire` handles in one call; fewer of large groups."""

EXPIRED_AT_ONCE: Final = 64
"""Due members of a large group for whose removal the coordinator does not wait for more; ours."""

MEMBERS_AT_ONCE: Final = 64
"""Members of a group whose timer counts as one more timer, because a rebalance walks through all members."""

CHANGING_MS: Final = 20
"""Delay of a timer of a group that a call is changing; ours."""

READINGS: Final = 2
"""Times that an OffsetDelete reads the topics of a group before it gives up; ours."""

NO_OFFSETS: Final[Mapping[str, Mapping[int, CommittedOffset]]] = {}

FAILED_TIMER_RETRY_MS: Final = 5_000
"""Retry delay of a timer whose handler raised; ours. Without a retry, the members would wait forever."""


class MemberTimes(Protocol):
    """The settings of one group of the consumer protocol, or of one share group."""

    @property
    def session_timeout_ms(self) -> int: ...

    @property
    def heartbeat_interval_ms(self) -> int: ...


TimesOf = Callable[[str], MemberTimes]
"""Returns the settings of the group with this id."""

OTHER_KINDS: Final = frozenset(
    {
        Kind.CONSUMER_SESSION,
        Kind.CONSUMER_REBALANCE,
        Kind.CONSUMER_REJOIN,
        Kind.CONSUMER_SYNC,
        Kind.SHARE_SESSION,
    }
)
"""The timers that are not those of a classic group."""

OnTimerFailure = Callable[[str, Exception], None]
"""Receives the group id and the unexpected exception of its timer."""


class _ExpiryPiece(NamedTuple):
    """Partitions whose offsets are checked; `subscribed` is None if the group has no members."""

    group: AnyGroup
    partitions: list[tuple[str, int]]
    subscribed: SubscribedTopics | None


class _RestartedError(Exception):
    """A member whose time was up has been heard from."""


class GroupCoordinator:
    """The coordinator, one per broker.

    `topics` returns the topics of the cluster, `times_of` the settings of a consumer group and
    `share_times_of` those of a share group. `new_uuid` makes the part of a member id that distinguishes
    members with the same client id.
    """

    def __init__(
        self,
        config: GroupConfig,
        consumer: ConsumerGroupConfig,
        share: ShareGroupConfig,
        topics: Callable[[], ClusterTopics],
        times_of: TimesOf,
        share_times_of: TimesOf,
        new_uuid: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self._config = config
        self._consumer = consumer
        self._share = share
        self._topics = topics
        self._times_of = times_of
        self._share_times_of = share_times_of
        self._new_uuid = new_uuid
        self._groups: Groups = {}
        self._timers = Timers()
        self._pending: PendingRequests = {}
        self._retention = Timer(Kind.RETENTION)
        self._pending_offsets = PendingOffsets()
        self._changing: dict[str, int] = {}
        """The groups that calls are changing which have paused, and the number of those calls."""
        self._pending_states: dict[str, None] = {}
        """The share groups that may have states to initialize or to delete."""
        self._due: dict[str, list[Timer]] = {}
        """The due timers of members of large groups, which are removed with pauses, by group."""
        self._due_ms = 0
        self._latest_ms = 0
        """The time of the latest call."""
        self._expiring: tuple[str, Steps[Effects]] | None = None
        """The group of `_due` whose members are being removed."""
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
            if isinstance(group, ConsumerGroup):
                consumer_persistence.finish(group)
                start_missing(transition, group, self._times_of(group.group_id).session_timeout_ms)
                continue
            if isinstance(group, ShareGroup):
                share_persistence.finish(group)
                self._resume(transition, group.group_id)
                continue
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
        return self._due_ms if self._due else self._timers.next_deadline()

    def expire(self, now: Now, on_failure: OnTimerFailure | None = None) -> Effects:
        """Handle expired timers: sessions, rebalance phases, offset retention.

        Handles a few of them, or checks a few offsets. The deadline of the rest is now or earlier: call
        again after others have had a turn. If one group's handler raises, the others continue, `on_failure`
        is called, and the timer is retried `FAILED_TIMER_RETRY_MS` later; without `on_failure` the exception
        propagates.
        """
        if self._expiring is not None:
            effects = self._continue_expiry(on_failure, now)
            if effects is not None:
                return effects
        transition = self._transition(now)
        topics = self._topics().by_name
        timer: Timer | None = None
        left = TIMERS_AT_ONCE
        while left > 0:
            timer = self._timers.pop_due(now.ms)
            if timer is None:
                break
            if timer.group_id in self._changing:
                transition.set_timer(timer, CHANGING_MS)
                left -= 1
                continue
            group = self._groups.get(timer.group_id)
            if isinstance(group, ConsumerGroup | ShareGroup) and is_large(group, (), topics):
                self._due.setdefault(timer.group_id, []).append(timer)
                left -= 1
                continue
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
        self._begin_expiry(now, is_rest_due=timer is not None)
        return transition.effects

    def forget(self, token: Token) -> bool:
        """Drop the pending request of a disconnected client. The member stays until its session expires."""
        request = self._pending.pop(token, None)
        if request is None:
            return False
        request.tokens[request.member_id] = None
        return True

    # Membership

    def join(self, request: JoinRequest, token: Token, now: Now) -> Steps[Effects]:
        """Handle a JoinGroup.

        The reply follows when the rebalance ends, or at once without a rebalance or on an error. Pauses where
        the group is a large one of the consumer protocol.
        """
        transition = self._transition(now)
        error = self._check_join(request)
        if error:
            transition.reply(token, JoinReply(error, request.member_id))
            return transition.effects
        found = self._groups.get(request.group_id)
        if isinstance(found, ShareGroup):
            transition.reply(token, JoinReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))
            return transition.effects
        if isinstance(found, ConsumerGroup) and found.members:
            return (yield from self._join_consumers(found, request, token, now))
        if isinstance(found, ConsumerGroup):
            migration.to_empty_classic(transition, self._groups, found)
        group = self._get_or_create_classic(request.group_id)
        new_id = "" if request.member_id else f"{request.instance_id or request.client_id}-{self._new_uuid()}"
        join(transition, group, request, token, new_id)
        self._discard_if_blank(group)
        return transition.effects

    def sync(self, request: SyncRequest, token: Token, now: Now) -> Steps[Effects]:
        """Handle a SyncGroup. The reply follows when the leader's assignment has arrived. Pauses for a
        member of a consumer group.
        """
        transition = self._transition(now)
        group = self._groups.get(request.group_id)
        if group is None or isinstance(group, ShareGroup):
            transition.reply(token, SyncReply(_missing(request.group_id)))
        elif isinstance(group, ConsumerGroup):
            transition.reply(token, (yield from classic_members.sync(transition, group, request)))
        else:
            sync(transition, group, request, token)
        return transition.effects

    def heartbeat(
        self, group_id: str, generation_id: int, member_id: str, instance_id: str | None, now: Now
    ) -> ErrorCode:
        """Handle a Heartbeat, which only restarts the member's session."""
        group = self._groups.get(group_id)
        if group is None or isinstance(group, ShareGroup):
            return _missing(group_id)
        transition = self._transition(now)
        if isinstance(group, ConsumerGroup):
            return classic_members.heartbeat(transition, group, generation_id, member_id, instance_id)
        return heartbeat(transition, group, generation_id, member_id, instance_id)

    def leave(
        self, group_id: str, leaving: Sequence[LeavingMember], token: Token, now: Now
    ) -> Steps[Effects]:
        """Handle a LeaveGroup for one or more members. Pauses where the group is a large one of the consumer
        protocol.
        """
        transition = self._transition(now)
        group = self._groups.get(group_id)
        if not group_id:  # it may exist, because offsets can be committed to it
            transition.reply(token, LeaveReply(ErrorCode.INVALID_GROUP_ID))
        elif isinstance(group, ConsumerGroup):
            transition, reply = yield from self._leave_consumers(group, leaving, now)
            transition.reply(token, reply)
        elif isinstance(group, Group):
            leave(transition, group, leaving, token)
        else:
            transition.reply(token, LeaveReply(ErrorCode.NONE, (ErrorCode.UNKNOWN_MEMBER_ID,) * len(leaving)))
        return transition.effects

    # Membership by the consumer protocol

    def outdated_expressions(self, request: ConsumerHeartbeatRequest, now: Now) -> tuple[str, ...]:
        """Return the regular expressions whose topics the caller looks up before `consumer_heartbeat`."""
        group = self._groups.get(request.group_id)
        regex = None if request.epoch < JOINS else request.regex
        if not isinstance(group, ConsumerGroup):
            return (regex,) if regex else ()
        interval_ms = self._consumer.regex_refresh_interval_ms
        return outdated_expressions(group, regex, self._topics().by_name, now.ms, interval_ms)

    def consumer_heartbeat(self, request: ConsumerHeartbeatRequest, token: Token, now: Now) -> Steps[Effects]:
        """Handle a ConsumerGroupHeartbeat. The reply follows at once. Pauses where the group is large: of
        several such calls, each goes on to its end before the next one does.
        """
        transition = self._transition(now)
        try:
            consumer_heartbeat.check_request(request, self._consumer.assignors)
            if self._is_large(request, now):
                yield from self._in_turn(request.group_id, request.member_id, now)
                transition, reply = yield from self._changed(
                    request.group_id, now, partial(self._consumer_heartbeat, request)
                )
            else:
                reply = finished(self._consumer_heartbeat(request, transition, self._groups))
            migration.dismiss(transition)
        except ApiError as error:
            transition = self._undone(transition, error.code)
            reply = ConsumerHeartbeatReply(error.code, message=error.message)
        transition.reply(token, reply)
        return transition.effects

    def _is_large(self, request: ConsumerHeartbeatRequest, now: Now) -> bool:
        """Return whether what a heartbeat changes is too much for one piece."""
        group = self._groups.get(request.group_id)
        if isinstance(group, ShareGroup):
            return False
        if isinstance(group, Group):
            if request.epoch != JOINS:
                return False
            if is_costly(group):
                return True
            group = None
        topics = self._topics().by_name
        if group is not None and consumer_heartbeat.changes_nothing(group, request, topics):
            return False
        stated = [request.topics or (), *request.resolved.values()]
        return is_large(group, stated, topics)

    def _in_turn(self, group_id: str, member_id: str, now: Now) -> Steps[None]:
        """Wait for the turn of a request. The session of its member begins anew before."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup) and member_id in group.members:
            start_session(
                self._transition(now),
                group,
                group.members[member_id],
                self._times_of(group_id).session_timeout_ms,
            )
        elif isinstance(group, ShareGroup) and member_id in group.members:
            self._timers.set(
                group.timer_of(member_id), now.ms + self._share_times_of(group_id).session_timeout_ms
            )
        yield

    def _changed(self, group_id: str, now: Now, change: Change[Result]) -> Steps[tuple[Transition, Result]]:
        """Change a large group. Its timers wait meanwhile."""
        self._changing[group_id] = self._changing.get(group_id, 0) + 1
        try:
            transition, result = yield from changed(
                self._groups, self._timers, group_id, partial(self._divided_transition, now), change
            )
            self._note_assignment(group_id, transition)
            return transition, result
        finally:
            self._changing[group_id] -= 1
            if not self._changing[group_id]:
                del self._changing[group_id]

    def _divided_transition(self, now: Now, timers: SetsTimers) -> Transition:
        transition = self._transition(now, timers)
        transition.is_divided = True
        return transition

    def _note_assignment(self, group_id: str, transition: Transition) -> None:
        """Note the time of an assignment that a call with pauses has computed: that of the latest call."""
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup | ShareGroup):
            return
        for replaced_id, before in transition.effects.replaced:
            known = before.target_epoch if isinstance(before, ConsumerGroup | ShareGroup) else NO_EPOCH
            if replaced_id == group_id and group.target_epoch > max(known, 0):
                group.assigned_ms = self._latest_ms

    def _undone(self, transition: Transition, error: ErrorCode) -> Transition:
        """Return a transition that keeps nothing of a refused request; a converted group is restored."""
        effects = transition.effects
        roll_back(transition, self._groups, effects, error)
        for group_id, _ in effects.replaced:
            self._resume(transition, group_id)
        undone = self._transition(Now(transition.now_ms, transition.wall_ms))
        undone.effects.replies.extend(effects.replies)
        return undone

    def _consumer_heartbeat(
        self, request: ConsumerHeartbeatRequest, transition: Transition, groups: Groups
    ) -> Steps[ConsumerHeartbeatReply]:
        if request.epoch in (LEAVES, LEAVES_FOR_NOW):
            group = migration.consumer_group(groups, request.group_id)
            member = consumer_heartbeat.leaving_member(group, request)
            if request.epoch == LEAVES_FOR_NOW:
                yield from consumer_heartbeat.leave_for_now(transition, group, member)
            else:
                yield from migration.remove_members(transition, groups, group, {member.member_id: None})
            return ConsumerHeartbeatReply(ErrorCode.NONE, member.member_id, request.epoch)
        if request.epoch == JOINS:
            group = yield from migration.get_or_create_consumer(transition, groups, request.group_id)
        else:
            group = migration.consumer_group(groups, request.group_id)
        if not request.member_id:
            request = replace(request, member_id=self._new_uuid())
        times = self._times_of(request.group_id)
        return (
            yield from consumer_heartbeat.beat(
                transition, group, request, times.session_timeout_ms, times.heartbeat_interval_ms
            )
        )

    def _join_consumers(
        self, group: ConsumerGroup, request: JoinRequest, token: Token, now: Now
    ) -> Steps[Effects]:
        """Handle a JoinGroup of a member of the classic protocol in a group of the other."""
        new_id = "" if request.member_id else f"{request.instance_id or request.client_id}-{self._new_uuid()}"
        transition = self._transition(now)
        topics = self._topics().by_name
        metadata = sum(len(each) for _, each in request.protocols)
        try:
            if metadata > METADATA_AT_ONCE or is_large(group, (), topics):
                yield from self._in_turn(request.group_id, request.member_id, now)
                transition, reply = yield from self._changed(
                    request.group_id, now, partial(self._join_consumer_group, request, new_id)
                )
            else:
                reply = finished(self._join_consumer_group(request, new_id, transition, self._groups))
        except ApiError as error:
            reply = JoinReply(error.code, request.member_id)
        transition.reply(token, reply)
        return transition.effects

    def _join_consumer_group(
        self, request: JoinRequest, new_id: str, transition: Transition, groups: Groups
    ) -> Steps[JoinReply]:
        group = groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup) or not group.members:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # it has changed meanwhile
        return (yield from migration.join(transition, groups, group, request, new_id))

    def _leave_consumers(
        self, group: ConsumerGroup, leaving: Sequence[LeavingMember], now: Now
    ) -> Steps[tuple[Transition, LeaveReply]]:
        """Handle a LeaveGroup of members of the classic protocol in a group of the other."""
        transition = self._transition(now)
        if not is_large(group, (), self._topics().by_name):
            return transition, finished(migration.leave(transition, self._groups, group, leaving))
        try:
            return (
                yield from self._changed(
                    group.group_id, now, partial(self._leave_consumer_group, group.group_id, leaving)
                )
            )
        except ApiError as error:
            return transition, LeaveReply(error.code)

    def _leave_consumer_group(
        self, group_id: str, leaving: Sequence[LeavingMember], transition: Transition, groups: Groups
    ) -> Steps[LeaveReply]:
        group = groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # it has changed meanwhile
        return (yield from migration.leave(transition, groups, group, leaving))

    # Share groups

    def share_heartbeat(self, request: ShareHeartbeatRequest, token: Token, now: Now) -> Steps[Effects]:
        """Handle a ShareGroupHeartbeat. The reply follows at once. Pauses where the group is large."""
        transition = self._transition(now)
        try:
            share_heartbeat.check_request(request)
            if self._is_large_share(request):
                yield from self._in_turn(request.group_id, request.member_id, now)
                transition, reply = yield from self._changed(
                    request.group_id, now, partial(self._share_heartbeat, request)
                )
            else:
                reply = finished(self._share_heartbeat(request, transition, self._groups))
        except ApiError as error:
            transition = self._undone(transition, error.code)
            reply = ShareHeartbeatReply(error.code, message=error.message)
        transition.reply(token, reply)
        self._note_states(request.group_id)
        return transition.effects

    def _is_large_share(self, request: ShareHeartbeatRequest) -> bool:
        group = self._groups.get(request.group_id)
        if isinstance(group, Group | ConsumerGroup):
            return False
        topics = self._topics().by_name
        if group is not None and share_heartbeat.changes_nothing(group, request, topics):
            return False
        return is_large(group, [request.topics or ()], topics)

    def _share_heartbeat(
        self, request: ShareHeartbeatRequest, transition: Transition, groups: Groups
    ) -> Steps[ShareHeartbeatReply]:
        times = self._share_times_of(request.group_id)
        return (
            yield from share_heartbeat.beat(
                transition, groups, request, times.session_timeout_ms, times.heartbeat_interval_ms
            )
        )

    def described_share(self, group_id: str) -> DescribedShareGroup:
        """Handle ShareGroupDescribe for one group."""
        try:
            group = share_heartbeat.share_group(self._groups, group_id)
        except ApiError as error:
            return DescribedShareGroup(error.code, group_id, message=error.message)
        return describe_members(group, self._share.assignors[0])

    @property
    def has_pending_states(self) -> bool:
        return bool(self._pending_states)

    def take_pending_states(self) -> list[str]:
        """Return the share groups that may have states to initialize or to delete since the last call."""
        taken = list(self._pending_states)
        self._pending_states.clear()
        return taken

    def share_states(self, group_id: str) -> StatePartitions:
        """Return the share partitions of a group that have a state; none of a group of another type."""
        group = self._groups.get(group_id)
        return group.states if isinstance(group, ShareGroup) else StatePartitions()

    def has_share_states(self, group_id: str) -> bool:
        """Return whether a share group has states, or some that are being initialized or deleted."""
        states = self.share_states(group_id)
        return bool(states.initialized or states.is_pending)

    def begin_states(self, group_id: str, partitions: ByTopicId, token: Token, now: Now) -> Steps[Effects]:
        """Record that the states of `partitions` are initialized next. The group must be empty; a missing one
        is created.
        """
        return self._change_states(
            group_id,
            token,
            now,
            lambda transition, group: state_changes.begin(transition, group, partitions),
            creates=bool(partitions),
        )

    def complete_states(
        self, group_id: str, done: Assignment, failed: Assignment, token: Token, now: Now
    ) -> Steps[Effects]:
        """Record which states have been initialized, and which could not be."""
        return self._change_states(
            group_id,
            token,
            now,
            lambda transition, group: state_changes.complete(transition, group, done, failed),
        )

    def begin_deletion(
        self, group_id: str, topic_ids: Collection[bytes] | None, token: Token, now: Now
    ) -> Steps[Effects]:
        """Record that the states of topics, None for all, are deleted next. The group must be empty."""
        return self._change_states(
            group_id,
            token,
            now,
            lambda transition, group: state_changes.begin_deletion(transition, group, topic_ids),
        )

    def complete_deletion(
        self, group_id: str, topic_ids: Collection[bytes], token: Token, now: Now
    ) -> Steps[Effects]:
        """Record that the states of topics have been deleted."""
        return self._change_states(
            group_id,
            token,
            now,
            lambda transition, group: state_changes.complete_deletion(transition, group, topic_ids),
        )

    def topics_gone(self, group_id: str, topic_ids: Collection[bytes], now: Now) -> Steps[Effects]:
        """Forget the states of deleted topics."""
        return self._change_states(
            group_id,
            None,
            now,
            lambda transition, group: state_changes.forget(transition, group, topic_ids),
        )

    def with_states_of(self, topic_ids: Collection[bytes]) -> Iterator[str | None]:
        """Yield the share groups with states of these topics; None is a pause."""
        for looked_up, group_id in enumerate(list(self._groups), 1):
            if self.share_states(group_id).has_any(topic_ids):
                yield group_id
            if looked_up % GROUPS_AT_ONCE == 0:
                yield None

    def _change_states(
        self,
        group_id: str,
        token: Token | None,
        now: Now,
        change: Callable[[Transition, ShareGroup], Steps[None]],
        *,
        creates: bool = False,
    ) -> Steps[Effects]:
        """Change the states of a group, with pauses."""

        def changed_states(transition: Transition, groups: Groups) -> Steps[Mapping[bytes, str]]:
            if creates and group_id not in groups:
                group = share_heartbeat.new_group(transition, groups, group_id)
                yield from share_epochs.bump(transition, group)
            else:
                group = share_heartbeat.share_group(groups, group_id)
            yield from change(transition, group)
            return group.states.deleting

        transition = self._transition(now)
        try:
            if isinstance(self._groups.get(group_id), Group):
                share_heartbeat.share_group(self._groups, group_id)
            transition, deleting = yield from self._changed(group_id, now, changed_states)
            reply = ShareStatesReply(ErrorCode.NONE, deleting=deleting)
        except ApiError as error:
            reply = ShareStatesReply(error.code, error.message)
        if token is not None:
            transition.reply(token, reply)
        return transition.effects

    def _note_states(self, group_id: str) -> None:
        """Note a share group whose states are to be initialized or deleted."""
        if self.share_states(group_id).is_pending:
            self._pending_states[group_id] = None

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
        if isinstance(group, Group):
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

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Return the error of an OffsetFetch that states a member; classic groups do not check it."""
        group = self._groups.get(group_id)
        return group.check_fetch(member_id, epoch) if isinstance(group, ConsumerGroup) else ErrorCode.NONE

    def check_delete_offsets(self, group_id: str) -> ErrorCode:
        """Return the top-level error of an OffsetDelete, before any partition is checked."""
        if not group_id:  # it may exist, because offsets can be committed to it
            return ErrorCode.INVALID_GROUP_ID
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
        groups = list(self._groups.values())
        for at in range(0, len(groups), GROUPS_AT_ONCE):
            yield [
                _listed(group)
                for group in groups[at : at + GROUPS_AT_ONCE]
                if self._groups.get(group.group_id) is group
                and (not wanted_types or _type_of(group) in wanted_types)
                and (not wanted_states or group.state.value.lower() in wanted_states)
            ]

    def described(self, group_ids: Iterable[str], *, missing_is_error: bool) -> list[DescribedGroup]:
        """Handle DescribeGroups: one entry per id, in order.

        A missing group and one of another type are Dead, and from version 6 an error.
        """
        described = []
        for group_id in group_ids:
            group = self._groups.get(group_id)
            if isinstance(group, Group):
                described.append(_described(group))
            else:
                what = f"Group {group_id} " + ("not found." if group is None else "is not a classic group.")
                described.append(_described_missing(group_id, what, is_error=missing_is_error))
        return described

    def described_consumers(self, group_id: str) -> DescribedConsumerGroup:
        """Handle ConsumerGroupDescribe for one group."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return describe_consumers(group, self._consumer.assignors)
        what = "not found." if group is None else "is not a consumer group."
        message = f"Group {group_id} {what}"
        return DescribedConsumerGroup(ErrorCode.GROUP_ID_NOT_FOUND, group_id, message=message)

    def overview(self, group_id: str) -> GroupOverview | None:
        """Describe a group of any type; None for a missing one."""
        group = self._groups.get(group_id)
        if group is None:
            return None
        clients = tuple((member.client_id, member.client_host) for member in group.members.values())
        return GroupOverview(group_id, _type_of(group), group.state.value, group.is_empty, clients)

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
        for group_id, _ in effects.replaced:
            self._resume(transition, group_id)
        return transition.effects

    def _resume(self, transition: Transition, group_id: str) -> None:
        """Start the timers of a restored group again, which the call may have cancelled."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            start_missing(transition, group, self._times_of(group_id).session_timeout_ms)
        elif isinstance(group, ShareGroup):
            session_timeout_ms = self._share_times_of(group_id).session_timeout_ms
            share_heartbeat.start_missing(transition, group, session_timeout_ms)
            self._note_states(group_id)
        elif group is not None:
            rebalance.resume(transition, group)

    def _transition(self, now: Now, timers: SetsTimers | None = None) -> Transition:
        self._latest_ms = max(self._latest_ms, now.ms)
        return Transition(
            self._config,
            self._consumer,
            self._share,
            self._topics(),
            self._timers if timers is None else timers,
            self._pending,
            now,
        )

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
        """Return whether a classic member cannot have an id yet: no group, or an empty consumer group."""
        group = self._groups.get(group_id)
        return group is None or (isinstance(group, ConsumerGroup) and group.is_empty)

    def _get_or_create(self, group_id: str) -> AnyGroup:
        return self._groups.get(group_id) or self._get_or_create_classic(group_id)

    def _get_or_create_classic(self, group_id: str) -> Group:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = Group(group_id)
        assert isinstance(group, Group)
        return group

    def _discard_if_blank(self, group: Group) -> None:
        if group.is_blank:
            del self._groups[group.group_id]

    def _handle_timer(self, transition: Transition, timer: Timer) -> None:
        if timer.kind is Kind.RETENTION:
            self._expire_offsets(transition)
            return
        group = self._groups.get(timer.group_id)
        if isinstance(group, ConsumerGroup | ShareGroup):
            finished(self._members_expired([timer], transition, self._groups))
            return
        if group is None or timer.kind in OTHER_KINDS:
            return  # the timer of a member before its group changed its protocol
        match timer.kind:
            case Kind.SESSION:
                rebalance.session_expired(transition, group, timer.member_id)
                self._discard_if_blank(group)
            case Kind.JOIN_PHASE:
                rebalance.join_phase_expired(transition, group)
            case Kind.SYNC_PHASE:
                rebalance.sync_phase_expired(transition, group)

    def _members_expired(
        self, timers: Sequence[Timer], transition: Transition, groups: Groups
    ) -> Steps[None]:
        """Remove the members of a consumer or share group whose timers are due. Raises _RestartedError."""
        group = groups.get(timers[0].group_id)
        if isinstance(group, ConsumerGroup):
            yield from migration.members_expired(transition, groups, group, timers)
        elif isinstance(group, ShareGroup):
            yield from sessions_expired(transition, group, timers)
        if any(timer.at_ms is not None for timer in timers):
            raise _RestartedError

    def _expire_due(self, group_id: str, now: Now) -> Steps[Effects]:
        """Remove the members of a large group whose timers are due; not one that is heard from meanwhile."""
        timers = self._due[group_id]
        while timers := [timer for timer in timers if timer.at_ms is None]:
            try:
                transition, _ = yield from self._changed(
                    group_id, now, partial(self._members_expired, timers)
                )
            except _RestartedError:
                continue
            return transition.effects
        return Effects()

    def _begin_expiry(self, now: Now, *, is_rest_due: bool) -> None:
        """Begin to remove members of a large group: many together, if many are due."""
        self._due_ms = now.ms
        if self._due and self._expiring is None:
            group_id, timers = next(iter(self._due.items()))
            if not is_rest_due or len(timers) >= EXPIRED_AT_ONCE:
                self._expiring = group_id, self._expire_due(group_id, now)

    def _continue_expiry(self, on_failure: OnTimerFailure | None, now: Now) -> Effects | None:
        """Make the next piece of the removal of members of a large group. Return the effects at its end."""
        assert self._expiring is not None
        group_id, steps = self._expiring
        try:
            next(steps)
        except StopIteration as end:
            effects: Effects = end.value
        except Exception as error:
            self._end_expiry(group_id, now.ms + FAILED_TIMER_RETRY_MS)
            if on_failure is None:
                raise
            on_failure(group_id, error)
            return Effects()
        else:
            return None
        self._end_expiry(group_id, None)
        return effects

    def _end_expiry(self, group_id: str, retry_ms: int | None) -> None:
        self._expiring = None
        for timer in self._due.pop(group_id):
            if retry_ms is not None and timer.at_ms is None:
                self._timers.set(timer, retry_ms)

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
        group: AnyGroup,
        partitions: list[tuple[str, int]],
        subscribed: SubscribedTopics | None,
    ) -> None:
        if self._groups.get(group.group_id) is group:
            offsets.expire(transition, group, partitions, subscribed)
            if not partitions and group.is_obsolete:
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
                    not group.is_empty
                    and group.is_settled
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
        return ErrorCode.NONE if group.is_empty else ErrorCode.NON_EMPTY_GROUP

    def _delete_one(self, transition: Transition, group_id: str) -> ErrorCode:
        error = self._check_delete(group_id)
        if not error:
            group = self._groups[group_id]
            offsets.drop(transition, group, offsets.partitions_of(group))
            self._remove_group(transition, group)
        return error

    def _remove_group(self, transition: Transition, group: AnyGroup) -> None:
        if isinstance(group, ConsumerGroup):
            migration.remove(transition, self._groups, group)
            return
        if isinstance(group, ShareGroup):
            transition.keep(group)
            del self._groups[group.group_id]
            for record in share_persistence.tombstones_of(group):
                transition.record(record)
            return
        for pending in group.pending_join.values():
            transition.timers.cancel(pending)
        group.enter(State.DEAD, transition.wall_ms)
        del self._groups[group.group_id]
        transition.record(tombstone_of(group))


def _missing(group_id: str) -> ErrorCode:
    """Return the error for a member of a missing group."""
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID


def _type_of(group: AnyGroup) -> str:
    if isinstance(group, ShareGroup):
        return SHARE
    return CONSUMER if isinstance(group, ConsumerGroup) else CLASSIC


def _protocol_type_of(group: AnyGroup) -> str:
    if isinstance(group, ShareGroup):
        return SHARE_PROTOCOL_TYPE
    return CONSUMER_PROTOCOL_TYPE if isinstance(group, ConsumerGroup) else group.protocol_type or ""


def _listed(group: AnyGroup) -> ListedGroup:
    return ListedGroup(
        group.group_id,
        _protocol_type_of(group),
        group.state.value,
        _type_of(group),
        len(group.members),
    )


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


def _described_missing(group_id: str, message: str, *, is_error: bool) -> DescribedGroup:
    """Describe a missing group: Dead, and since DescribeGroups 6 (KIP-1043) also an error."""
    if is_error:
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, group_id, State.DEAD.value, message=message)
    return DescribedGroup(ErrorCode.NONE, group_id, State.DEAD.value)
