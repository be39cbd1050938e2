"""The table of the groups of this broker, with their timers and pending requests.

Used by the coordinators of the four types of groups, by `offsets` and by `expiry`. Begins each call with a
transition, lets a change of a large group pause, and undoes what could not be written.

A change of a large group is made in a copy that no other request sees. At the end the group takes it over in
one step; if another request has changed the group meanwhile, the change begins anew. So a call that fails, is
dropped with its client or ends with the broker has changed nothing. (Kafka: GroupMetadataManager, with
appendGroupMetadataErrorToResponseError; a thread there makes all changes, and no client waits for it)
"""

from collections.abc import Callable, Collection, Iterable
from copy import copy
from functools import partial
from itertools import accumulate, chain
from typing import Any, Final, Protocol, TypeVar

from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import PAUSE, Steps, run_through
from broker.config.sections.groups import ConsumerGroupConfig, GroupConfig
from broker.config.sections.share_groups import ShareGroupConfig
from broker.config.sections.streams_groups import StreamsGroupSettings
from broker.coordinator.group import rebalance
from broker.coordinator.group.any_group import AnyGroup, GroupsById
from broker.coordinator.group.consumer import migration
from broker.coordinator.group.consumer.assignment import ClusterTopics, Topics
from broker.coordinator.group.consumer.epochs import start_revocations
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.group import ClassicGroup, ClassicGroupState
from broker.coordinator.group.messages import (
    CommitReply,
    ConsumerHeartbeatRequest,
    DeleteReply,
    Effects,
    JoinReply,
    ModernHeartbeatReply,
    Now,
    OffsetDeleteReply,
    Reply,
    ShareHeartbeatRequest,
    ShareStatesReply,
    StreamsHeartbeatReply,
    StreamsHeartbeatRequest,
    SyncReply,
    Token,
)
from broker.coordinator.group.modern_changes import (
    group_of_type,
    start_missing,
    start_session,
    stop_timers,
)
from broker.coordinator.group.modern_group import (
    FIRST_EPOCH,
    DescribedModernGroup,
    ModernGroup,
    described,
    partition_counts,
)
from broker.coordinator.group.pending_offsets import PendingOffsets
from broker.coordinator.group.persistence import tombstone_of
from broker.coordinator.group.records import GroupKey, decode_key
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.streams.group import StreamsGroup
from broker.coordinator.group.streams.heartbeat import resume_timers
from broker.coordinator.group.timers import LaterTimers, SetsTimers, Timers
from broker.coordinator.group.transition import PendingRequests, Transition

GROUPS_AT_ONCE: Final = 256
"""Groups or topics looked up between two pauses."""

SMALL: Final = 512
"""Members, topics and partitions of a group whose changes need no pause, in all; of a streams group also the
parts of its topology, and its tasks; ours.
"""

METADATA_AT_ONCE: Final = 4_096
"""Bytes of members' metadata and assignments that are read in one piece; ours."""

TRIES: Final = 8
"""Times that a change is made before it is refused. Only a group's own members can undo it."""

Result = TypeVar("Result")
Kind = TypeVar("Kind", ConsumerGroup, ShareGroup)
Returned = TypeVar("Returned", covariant=True)
Heartbeat = TypeVar("Heartbeat", ConsumerHeartbeatRequest, ShareHeartbeatRequest, StreamsHeartbeatRequest)
HeartbeatReply = TypeVar("HeartbeatReply", ModernHeartbeatReply, StreamsHeartbeatReply)

Begin = Callable[[SetsTimers], Transition]


class GroupChange(Protocol[Returned]):
    """Changes a group in `groups`, which has no other, or creates it. Raises ApiError. A classic group is not
    a copy: it may be replaced, but not changed.
    """

    def __call__(self, transition: Transition, groups: GroupsById) -> Steps[Returned]: ...


def is_large(
    group: ModernGroup[Any, Any, Any] | None, stated: Iterable[Collection[str]], topics: Topics
) -> bool:
    """Return whether a change of the group needs pauses. `stated` are topics that it may add."""
    own = () if group is None else group.weights(topics)
    added = (part for names in stated for part in chain((len(names),), partition_counts(names, topics)))
    return is_more_than(SMALL, chain(own, added))


def is_more_than(most: int, parts: Iterable[int]) -> bool:
    """Return whether the sum of the parts is higher. Parts after the one that says so are not read."""
    return any(total > most for total in accumulate(parts))


def is_costly(group: ClassicGroup) -> bool:
    """Return whether the conversion of a classic group needs pauses."""
    size = group.size + sum(len(member.assignment) for member in group.members.values())
    return size > METADATA_AT_ONCE


def _change_copy(
    groups: GroupsById, timers: Timers, group_id: str, begin: Begin, change: GroupChange[Result]
) -> Steps[tuple[Transition, Result]]:
    """Make the change, with pauses, and return its transition. Raises ApiError; then nothing has changed."""
    for _ in range(TRIES):
        found = groups.get(group_id)
        facts = _facts(found)
        later = LaterTimers()
        transition = begin(later)
        own: GroupsById = {}
        if isinstance(found, ClassicGroup):
            own[group_id] = found
        elif found is not None:
            own[group_id] = found.isolated()
            transition.effects.replaced.append((group_id, found))
        result = yield from change(transition, own)
        if groups.get(group_id) is found and _facts(found) == facts:
            if group_id in own:
                _install(groups, found, own[group_id], transition)
            later.apply(timers)
            return transition, result
    raise ApiError(
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"Group {group_id} has changed all the time. Try again."
    )


def _facts(group: AnyGroup | None) -> object:
    """Return a value that is equal as long as the group has not changed."""
    if group is None:
        return None
    return group.facts if isinstance(group, ClassicGroup) else group.revision


def _install(groups: GroupsById, found: AnyGroup | None, made: AnyGroup, transition: Transition) -> None:
    replaced = transition.effects.replaced
    if isinstance(found, ModernGroup) and found.__class__ is made.__class__:
        replaced[0] = found.group_id, found.copy()
        found.adopt(made)
        if transition.effects.records:
            found.revision += 1
        else:
            replaced.clear()
    else:
        groups[made.group_id] = made


class SessionTimes(Protocol):
    """The settings of one group whose partitions or tasks the coordinator assigns."""

    @property
    def session_timeout_ms(self) -> int: ...

    @property
    def heartbeat_interval_ms(self) -> int: ...

    @property
    def assignment_interval_ms(self) -> int: ...


TimesOf = Callable[[str], SessionTimes]
StreamsSettingsOf = Callable[[str], StreamsGroupSettings]
"""Return the settings of the group with this id."""


class Groups:
    """The groups, one table per broker.

    `cluster_topics` returns the topics of the cluster, `times_of` the settings of a consumer group,
    `share_times_of` those of a share group and `streams_settings_of` those of a streams group.
    """

    def __init__(
        self,
        config: GroupConfig,
        consumer: ConsumerGroupConfig,
        share: ShareGroupConfig,
        cluster_topics: Callable[[], ClusterTopics],
        times_of: TimesOf,
        share_times_of: TimesOf,
        streams_settings_of: StreamsSettingsOf,
    ) -> None:
        self._config = config
        self._consumer = consumer
        self._share = share
        self._times_of = times_of
        self._share_times_of = share_times_of
        self.streams_settings_of = streams_settings_of
        self.by_id: GroupsById = {}
        self.timers = Timers()
        self.changing: dict[str, int] = {}
        """The groups that calls are changing which have paused, and the number of those calls."""
        self.pending_states: dict[str, None] = {}
        """The share groups that may have states to initialize or to delete."""
        self.on_pending_states: Callable[[int], None] = lambda _deadline_ms: None
        """Called with 0, a deadline that is due, when `pending_states` grows."""
        self.on_removed: Callable[[str], None] = lambda _group_id: None
        """Called with the id of each group that is deleted or has expired."""
        self.is_writable: Callable[[str], bool] = lambda _group_id: True
        """Whether the log with the records of this group takes any."""
        self.pending_offsets = PendingOffsets()
        self._cluster_topics = cluster_topics
        self._pending: PendingRequests = {}
        self._latest_ms = 0
        """The time of the latest call."""
        self.get: Final = self.by_id.get

    @property
    def topics(self) -> Topics:
        """The topics of the cluster by name."""
        return self._cluster_topics().by_name

    def times_of(self, group: ConsumerGroup | ShareGroup | StreamsGroup) -> SessionTimes:
        """Return the settings of a group."""
        if isinstance(group, StreamsGroup):
            return self.streams_settings_of(group.group_id)
        times_of = self._share_times_of if isinstance(group, ShareGroup) else self._times_of
        return times_of(group.group_id)

    def get_or_create(self, group_id: str) -> AnyGroup:
        return self.by_id.get(group_id) or self.get_or_create_classic(group_id)

    def get_or_create_classic(self, group_id: str) -> ClassicGroup:
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = ClassicGroup(group_id)
        assert isinstance(group, ClassicGroup)
        return group

    def discard_if_blank(self, group: ClassicGroup) -> None:
        if group.is_blank:
            del self.by_id[group.group_id]

    def remove(self, transition: Transition, group: AnyGroup) -> None:
        """Remove an empty group, and record it."""
        self.on_removed(group.group_id)
        if isinstance(group, ModernGroup):
            transition.keep(group)
            for record in run_through(group.tombstones()):
                transition.record(record)
            del self.by_id[group.group_id]
            return
        transition.effects.replaced.append((group.group_id, copy(group)))
        for pending in group.pending_join.values():
            transition.timers.cancel(pending)
        group.enter(ClassicGroupState.DEAD, transition.wall_ms)
        del self.by_id[group.group_id]
        transition.record(tombstone_of(group))

    def transition(self, now: Now, timers: SetsTimers | None = None) -> Transition:
        """Begin a call."""
        self._latest_ms = max(self._latest_ms, now.ms)
        return Transition(
            self._config,
            self._consumer,
            self._share,
            self._cluster_topics(),
            self.timers if timers is None else timers,
            self._pending,
            self.pending_offsets,
            now,
        )

    def release(self) -> Effects:
        """Complete all pending requests at shutdown so that clients look for a coordinator again."""
        effects = Effects()
        for token, request in self._pending.items():
            effects.replies.append((token, request.superseded._replace(error=ErrorCode.NOT_COORDINATOR)))
            request.tokens[request.member_id] = None
        self._pending.clear()
        return effects

    def beat(
        self,
        request: Heartbeat,
        token: Token,
        now: Now,
        is_large: Callable[[Heartbeat], bool],
        change: GroupChange[HeartbeatReply],
        refused: Callable[[ErrorCode, str | None], HeartbeatReply],
    ) -> Steps[Effects]:
        """Handle a heartbeat of a group that is not a classic one. The reply follows at once. Pauses where
        the group is large: of several such calls, each goes on to its end before the next one does. `refused`
        makes the reply with an error.
        """
        transition = self.transition(now)
        try:
            if is_large(request):
                yield from self.in_turn(request.group_id, request.member_id, now)
                transition, reply = yield from self.changed(request.group_id, now, change)
            else:
                reply = run_through(change(transition, self.by_id))
            migration.dismiss(transition)
        except ApiError as error:
            transition = self.undone(transition, error.code)
            reply = refused(error.code, error.message)
        transition.reply(token, reply)
        return transition.effects

    def described(
        self, group_id: str, kind: type[Kind], assignor: Callable[[Kind], str]
    ) -> DescribedModernGroup[Any]:
        """Describe a consumer or share group, for the API of its type."""
        try:
            group = group_of_type(self.by_id, group_id, kind)
        except ApiError as error:
            return DescribedModernGroup(error.code, group_id, message=error.message)
        return described(group, assignor(group))

    # Large groups

    def in_turn(self, group_id: str, member_id: str, now: Now) -> Steps[None]:
        """Wait for the turn of a request, which comes after all requests that wait. The session of its member
        begins anew before.
        """
        group = self.by_id.get(group_id)
        if isinstance(group, ModernGroup) and member_id in group.members:
            transition, member = self.transition(now), group.members[member_id]
            start_session(transition, group, member, self.times_of(group).session_timeout_ms)
        yield PAUSE

    def changed(
        self, group_id: str, now: Now, change: GroupChange[Result]
    ) -> Steps[tuple[Transition, Result]]:
        """Change a large group, with pauses. Its timers wait meanwhile. Raises ApiError."""
        self.changing[group_id] = self.changing.get(group_id, 0) + 1
        try:
            transition, result = yield from _change_copy(
                self.by_id, self.timers, group_id, partial(self._divided_transition, group_id, now), change
            )
            self._note_assignment(group_id, transition)
            return transition, result
        finally:
            self.changing[group_id] -= 1
            if not self.changing[group_id]:
                del self.changing[group_id]

    def _divided_transition(self, group_id: str, now: Now, timers: SetsTimers) -> Transition:
        transition = self.transition(now, timers)
        group = self.by_id.get(group_id)
        if isinstance(group, ConsumerGroup | ShareGroup):
            transition.assignment_interval_ms = self.times_of(group).assignment_interval_ms
        return transition

    def _note_assignment(self, group_id: str, transition: Transition) -> None:
        """Note the time of an assignment that a call with pauses has computed: that of the latest call."""
        group = self.by_id.get(group_id)
        if not isinstance(group, ModernGroup):
            return
        for replaced_id, before in transition.effects.replaced:
            known = before.target_epoch if isinstance(before, ModernGroup) else FIRST_EPOCH
            if replaced_id == group_id and group.target_epoch > max(known, FIRST_EPOCH):
                group.assigned_ms = self._latest_ms

    # Calls that are undone

    def undone(self, transition: Transition, error: ErrorCode) -> Transition:
        """Return a transition that keeps nothing of a refused request; a converted group is restored."""
        effects = transition.effects
        self._undo(transition, effects, error)
        undone = self.transition(Now(transition.now_ms, transition.wall_ms))
        undone.effects.replies.extend(effects.replies)
        return undone

    def roll_back(self, effects: Effects, error: ErrorCode, now: Now) -> Effects:
        """Roll back a call whose records could not be written and return the new replies.

        Roll back the latest call first.
        """
        transition = self.transition(now)
        self._undo(transition, effects, error)
        return transition.effects

    def _undo(self, transition: Transition, effects: Effects, error: ErrorCode) -> None:
        _undo_effects(transition, self.by_id, effects, error)
        for group_id, _ in effects.replaced:
            self.resume(transition, group_id)

    def resume(self, transition: Transition, group_id: str) -> None:
        """Start the timers of a loaded or restored group that do not run."""
        group = self.by_id.get(group_id)
        if isinstance(group, ModernGroup):
            start_missing(transition, group, self.times_of(group).session_timeout_ms)
            if isinstance(group, ConsumerGroup):
                start_revocations(transition, group)
            elif isinstance(group, StreamsGroup):
                resume_timers(transition, group, self.streams_settings_of(group_id))
            self.note_states(group_id)
        elif group is not None:
            rebalance.resume(transition, group)

    def note_states(self, group_id: str) -> None:
        """Note a share group whose states are to be initialized or deleted."""
        group = self.by_id.get(group_id)
        if isinstance(group, ShareGroup) and group.states.is_pending:
            self.pending_states[group_id] = None
            self.on_pending_states(0)


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


def _undo_effects(transition: Transition, groups: GroupsById, effects: Effects, error: ErrorCode) -> None:
    """Undo `effects` and leave the replies to send instead in `transition`."""
    error = COORDINATOR_ERRORS.get(error, error)
    for token, reply in effects.replies:
        transition.reply(token, _refusal(reply, error))
    replaced = {group_id for group_id, _ in effects.replaced}
    for key, _ in effects.records:
        match decode_key(key):
            case GroupKey(group_id) if group_id in replaced:
                pass
            case GroupKey(group_id):
                group = groups[group_id]
                if isinstance(group, ClassicGroup) and group.state is ClassicGroupState.STABLE:
                    rebalance.hand_out_assignments(transition, group, {}, error)
                    rebalance.prepare(transition, group)
    for group_id, before in reversed(effects.replaced):
        undone = groups.get(group_id)
        if isinstance(before, ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup):
            groups[group_id] = before
        else:
            groups.pop(group_id, None)
        if undone is not None and undone is not before:
            _end(transition, undone, groups.get(group_id), error)
    for group_id, topic, partition, previous in reversed(effects.overwritten):
        offsets = groups.setdefault(group_id, ClassicGroup(group_id)).offsets
        if previous is not None:
            offsets.setdefault(topic, {})[partition] = previous
        else:
            del offsets[topic][partition]
            if not offsets[topic]:
                del offsets[topic]


def _end(transition: Transition, undone: AnyGroup, restored: AnyGroup | None, error: ErrorCode) -> None:
    """End what only the group of an undone call has: the timers of its members, and their requests."""
    if isinstance(undone, ClassicGroup):
        migration.stop_classic_timers(transition, undone)
        for member_id in undone.members:
            transition.complete_pending(undone.joining, member_id, JoinReply(error, member_id))
            transition.complete_pending(undone.syncing, member_id, SyncReply(error))
        return
    kept = restored.members if isinstance(restored, ModernGroup) else {}
    for member_id in [each for each in undone.timers if each not in kept]:
        stop_timers(transition, undone, member_id)
    if isinstance(undone, StreamsGroup) and not (isinstance(restored, StreamsGroup) and restored.is_delayed):
        transition.timers.cancel(undone.initial_timer)


def _refusal(reply: Reply, error: ErrorCode) -> Reply:
    match reply:
        case ModernHeartbeatReply(ErrorCode.NONE):
            return ModernHeartbeatReply(error)
        case StreamsHeartbeatReply(ErrorCode.NONE):
            return StreamsHeartbeatReply(error)
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
