"""The table of the groups of this broker, with their timers and pending requests.

Used by the coordinators of the three types of groups, by `offsets` and by `expiry`. Begins each call with a
transition, lets a change of a large group pause, and undoes what could not be written. (Kafka:
GroupMetadataManager)
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeVar

from broker.common.errors import ErrorCode
from broker.common.slices import PAUSE, Steps
from broker.config.sections.consumer_groups import ConsumerGroupConfig
from broker.config.sections.groups import GroupConfig
from broker.config.sections.share_groups import ShareGroupConfig
from broker.coordinator.group import isolation, rebalance, rollback
from broker.coordinator.group.any_group import AnyGroup, GroupsById
from broker.coordinator.group.consumer import migration
from broker.coordinator.group.consumer.assignment import ClusterTopics, Topics
from broker.coordinator.group.consumer.epochs import start_missing, start_session
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.group import ClassicGroup, ClassicGroupState
from broker.coordinator.group.messages import Effects, Now
from broker.coordinator.group.modern_group import NO_EPOCH, ModernGroup
from broker.coordinator.group.persistence import tombstone_of
from broker.coordinator.group.share import heartbeat as share_heartbeat
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.share.records import tombstones_of
from broker.coordinator.group.timers import SetsTimers, Timers
from broker.coordinator.group.transition import PendingRequests, Transition

Result = TypeVar("Result")

GROUPS_AT_ONCE: Final = 256
"""Groups or topics looked up between two pauses."""


class SessionTimes(Protocol):
    """The settings of one group of the consumer protocol, or of one share group."""

    @property
    def session_timeout_ms(self) -> int: ...

    @property
    def heartbeat_interval_ms(self) -> int: ...


TimesOf = Callable[[str], SessionTimes]
"""Returns the settings of the group with this id."""


class Groups:
    """The groups, one table per broker.

    `cluster_topics` returns the topics of the cluster, `times_of` the settings of a consumer group and
    `share_times_of` those of a share group.
    """

    def __init__(
        self,
        config: GroupConfig,
        consumer: ConsumerGroupConfig,
        share: ShareGroupConfig,
        cluster_topics: Callable[[], ClusterTopics],
        times_of: TimesOf,
        share_times_of: TimesOf,
    ) -> None:
        self._config = config
        self._consumer = consumer
        self._share = share
        self.times_of = times_of
        self.share_times_of = share_times_of
        self.by_id: GroupsById = {}
        self.timers = Timers()
        self.changing: dict[str, int] = {}
        """The groups that calls are changing which have paused, and the number of those calls."""
        self.pending_states: dict[str, None] = {}
        """The share groups that may have states to initialize or to delete."""
        self.on_pending_states: Callable[[int], None] = lambda _deadline_ms: None
        """Called with 0, a deadline that is due, when `pending_states` grows."""
        self._cluster_topics = cluster_topics
        self._pending: PendingRequests = {}
        self._latest_ms = 0
        """The time of the latest call."""
        self.get: Final = self.by_id.get

    @property
    def topics(self) -> Topics:
        """The topics of the cluster by name."""
        return self._cluster_topics().by_name

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
        if isinstance(group, ConsumerGroup):
            migration.remove(transition, self.by_id, group)
            return
        if isinstance(group, ShareGroup):
            transition.keep(group)
            del self.by_id[group.group_id]
            for record in tombstones_of(group):
                transition.record(record)
            return
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

    # Large groups

    def in_turn(self, group_id: str, member_id: str, now: Now) -> Steps[None]:
        """Wait for the turn of a request, which comes after all requests that wait. The session of its member
        begins anew before.
        """
        group = self.by_id.get(group_id)
        if isinstance(group, ConsumerGroup) and member_id in group.members:
            session_timeout_ms = self.times_of(group_id).session_timeout_ms
            start_session(self.transition(now), group, group.members[member_id], session_timeout_ms)
        elif isinstance(group, ShareGroup) and member_id in group.members:
            session_timeout_ms = self.share_times_of(group_id).session_timeout_ms
            self.timers.set(group.timer_of(member_id), now.ms + session_timeout_ms)
        yield PAUSE

    def changed(
        self, group_id: str, now: Now, change: isolation.GroupChange[Result]
    ) -> Steps[tuple[Transition, Result]]:
        """Change a large group, with pauses. Its timers wait meanwhile. Raises ApiError."""
        self.changing[group_id] = self.changing.get(group_id, 0) + 1
        try:
            transition, result = yield from isolation.changed(
                self.by_id, self.timers, group_id, partial(self._divided_transition, now), change
            )
            self._note_assignment(group_id, transition)
            return transition, result
        finally:
            self.changing[group_id] -= 1
            if not self.changing[group_id]:
                del self.changing[group_id]

    def _divided_transition(self, now: Now, timers: SetsTimers) -> Transition:
        transition = self.transition(now, timers)
        transition.is_divided = True
        return transition

    def _note_assignment(self, group_id: str, transition: Transition) -> None:
        """Note the time of an assignment that a call with pauses has computed: that of the latest call."""
        group = self.by_id.get(group_id)
        if not isinstance(group, ModernGroup):
            return
        for replaced_id, before in transition.effects.replaced:
            known = before.target_epoch if isinstance(before, ModernGroup) else NO_EPOCH
            if replaced_id == group_id and group.target_epoch > max(known, 0):
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
        rollback.roll_back(transition, self.by_id, effects, error)
        for group_id, _ in effects.replaced:
            self.resume(transition, group_id)

    def resume(self, transition: Transition, group_id: str) -> None:
        """Start the timers of a loaded or restored group that do not run."""
        group = self.by_id.get(group_id)
        if isinstance(group, ConsumerGroup):
            start_missing(transition, group, self.times_of(group_id).session_timeout_ms)
        elif isinstance(group, ShareGroup):
            session_timeout_ms = self.share_times_of(group_id).session_timeout_ms
            share_heartbeat.start_missing(transition, group, session_timeout_ms)
            self.note_states(group_id)
        elif group is not None:
            rebalance.resume(transition, group)

    def note_states(self, group_id: str) -> None:
        """Note a share group whose states are to be initialized or deleted."""
        group = self.by_id.get(group_id)
        if isinstance(group, ShareGroup) and group.states.is_pending:
            self.pending_states[group_id] = None
            self.on_pending_states(0)
