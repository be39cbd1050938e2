"""Handles the due timers of groups: sessions, rebalance phases, and the retention of offsets (KIP-211), which
is checked a few at a time.

Called by `coordinator`. The members of a large group are removed with pauses. (Kafka: the timers of
CoordinatorRuntime, OffsetMetadataManager.cleanupExpiredOffsets)
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from broker.common.slices import SliceTimer, Steps, advance, run_through
from broker.config.sections.groups import GroupConfig
from broker.coordinator.group.any_group import AnyGroup, GroupsById
from broker.coordinator.group.classic import ClassicCoordinator
from broker.coordinator.group.consumer import migration
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.groups import Groups, is_large
from broker.coordinator.group.messages import Effects, Now
from broker.coordinator.group.modern_changes import expired_members
from broker.coordinator.group.modern_group import ModernGroup
from broker.coordinator.group.offsets import (
    OFFSETS_AT_ONCE,
    SubscribedTopics,
    partitions_of,
    subscribed_topics,
)
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.share.heartbeat import remove_members
from broker.coordinator.group.streams.group import StreamsGroup
from broker.coordinator.group.streams.heartbeat import times_up
from broker.coordinator.group.timers import GroupTimer, TimerKind
from broker.coordinator.group.transition import Transition


class _Piece(NamedTuple):
    """Partitions whose offsets are checked; `subscribed` is None if the group has no members."""

    group: AnyGroup
    partitions: list[tuple[str, int]]
    subscribed: SubscribedTopics | None


class OffsetRetention:
    """The check, which `timer` begins and continues."""

    def __init__(self, groups: Groups, config: GroupConfig) -> None:
        self.timer = GroupTimer(TimerKind.RETENTION)
        self._groups = groups
        self._config = config
        self._pieces: Iterator[_Piece | None] | None = None
        """The rest of the running check."""

    def start(self, transition: Transition) -> None:
        """Set the time of the next check."""
        transition.set_timer(self.timer, self._config.offsets_retention_check_interval_ms)

    def expire(self, transition: Transition) -> None:
        """Remove expired offsets, and empty groups without offsets: a few, and the next ones right after."""
        if self._pieces is None:
            self._pieces = self._all_pieces(transition.wall_ms)
        checked, timer = 0, SliceTimer()
        for piece in self._pieces:
            if piece is not None:
                self._expire_piece(transition, *piece)
                checked += 1 + len(piece.partitions)
            if checked > OFFSETS_AT_ONCE or timer.is_over():
                transition.set_timer(self.timer, 0)
                return
        self._pieces = None
        self.start(transition)

    def _all_pieces(self, wall_ms: int) -> Iterator[_Piece | None]:
        """Yield the partitions of each group in pieces, the last of which is empty.

        None is a pause after a subscribed topic, which are read only for a group with offsets past their
        retention.
        """
        retention_ms = self._config.offsets_retention_ms
        for group in list(self._groups.by_id.values()):
            subscribed: SubscribedTopics | None = None
            partitions = partitions_of(group)
            while some := list(islice(partitions, OFFSETS_AT_ONCE)):
                if (
                    not group.is_empty
                    and group.is_settled
                    and (subscribed is None or not subscribed.is_of(group))
                    and any(_expired(group, some, wall_ms, retention_ms))
                ):
                    subscribed = yield from subscribed_topics(group, group.offsets)
                yield _Piece(group, some, subscribed)
            yield _Piece(group, [], None)

    def _expire_piece(
        self,
        transition: Transition,
        group: AnyGroup,
        partitions: list[tuple[str, int]],
        subscribed: SubscribedTopics | None,
    ) -> None:
        if self._groups.get(group.group_id) is group and self._groups.is_writable(group.group_id):
            _expire(transition, group, partitions, subscribed)
            if not partitions and group.is_obsolete:
                self._groups.remove(transition, group)


def _expire(
    transition: Transition,
    group: AnyGroup,
    partitions: Iterable[tuple[str, int]],
    subscribed: SubscribedTopics | None,
) -> None:
    """Remove the expired offsets of these partitions.

    The retention runs from when a classic group became empty. It runs from the commit if a stable group no
    longer consumes the topic, in a consumer group, or if the group never had members. Nothing expires during
    a rebalance, nor without the `subscribed` topics of a group with members, nor while an open transaction
    has another offset of the partition.
    """
    if group.is_empty:
        subscribed = None
    elif subscribed is None or not (group.is_settled and subscribed.is_known and subscribed.is_of(group)):
        return
    retention_ms = transition.config.offsets_retention_ms
    for topic, partition in _expired(group, partitions, transition.wall_ms, retention_ms):
        is_pending = transition.pending_offsets.has(group.group_id, topic, partition)
        if not is_pending and (subscribed is None or topic not in subscribed):
            transition.drop_offset(group.group_id, group.offsets, topic, partition)


def _expired(
    group: AnyGroup, partitions: Iterable[tuple[str, int]], wall_ms: int, retention_ms: int
) -> Iterator[tuple[str, int]]:
    """Yield the partitions whose offset expires if the group no longer consumes the topic."""
    since_ms = group.empty_since_ms
    for topic, partition in partitions:
        committed = group.offsets.get(topic, {}).get(partition)
        if committed is None:
            continue
        kept_since_ms = committed.commit_ms if since_ms is None else since_ms
        if committed.is_expired(wall_ms, retention_ms, kept_since_ms):
            yield topic, partition


TIMERS_AT_ONCE: Final = 16
"""Timers that `expire` handles in one call; fewer of large groups."""

EXPIRED_AT_ONCE: Final = 64
"""Due members of a large group for whose removal the coordinator does not wait for more; ours."""

MEMBERS_AT_ONCE: Final = 64
"""Members of a group whose timer counts as one more timer, because a rebalance walks through all members."""

CHANGING_MS: Final = 20
"""Delay of a timer of a group that a call is changing; ours."""

FAILED_TIMER_RETRY_MS: Final = 5_000
"""Retry delay of a timer whose handler raised, or whose group's log is offline; ours. Without a retry, the
members would wait forever.
"""

OnTimerFailure = Callable[[str, Exception], None]
"""Receives the group id and the unexpected exception of its timer."""


class _RestartedError(Exception):
    """A member has sent a heartbeat after its timer was due."""


class TimerExpiry:
    """The due timers of all groups."""

    def __init__(self, groups: Groups, classic: ClassicCoordinator, retention: OffsetRetention) -> None:
        self._groups = groups
        self._classic = classic
        self._retention = retention
        self._due: dict[str, list[GroupTimer]] = {}
        """The due timers of members of large groups, which are removed with pauses, by group."""
        self._due_ms = 0
        self._expiring: tuple[str, Steps[Effects]] | None = None
        """The group of `_due` whose members are being removed."""

    def next_deadline(self) -> int | None:
        """Return the monotonic time in milliseconds of the next `expire`; None if no timer is set."""
        return self._due_ms if self._due else self._groups.timers.next_deadline()

    def expire(self, now: Now, on_failure: OnTimerFailure | None = None) -> Effects:
        """Handle a few expired timers, or check a few offsets.

        The deadline of the rest is now or earlier: call again after others have had a turn. If one group's
        handler raises, the others continue, `on_failure` is called, and the timer is retried
        `FAILED_TIMER_RETRY_MS` later; without `on_failure` the exception propagates.
        """
        if self._expiring is not None:
            effects = self._continue_removal(on_failure, now)
            if effects is not None:
                return effects
        groups = self._groups
        transition = groups.transition(now)
        topics = groups.topics
        timer: GroupTimer | None = None
        left = TIMERS_AT_ONCE
        while left > 0:
            timer = groups.timers.pop_due(now.ms)
            if timer is None:
                break
            if timer.group_id in groups.changing:
                transition.set_timer(timer, CHANGING_MS)
                left -= 1
                continue
            if timer is not self._retention.timer and not groups.is_writable(timer.group_id):
                # It would undo what is expired with it.
                transition.set_timer(timer, FAILED_TIMER_RETRY_MS)
                left -= 1
                continue
            group = groups.get(timer.group_id)
            if isinstance(group, ModernGroup) and is_large(group, (), topics):
                self._due.setdefault(timer.group_id, []).append(timer)
                left -= 1
                continue
            left -= 1 if group is None else 1 + len(group.members) // MEMBERS_AT_ONCE
            try:
                self._handle(transition, timer)
            except Exception as error:
                if on_failure is None:
                    raise
                on_failure(timer.group_id, error)
                transition.set_timer(timer, FAILED_TIMER_RETRY_MS)
            if timer is self._retention.timer:
                break  # the next piece may be due
        self._begin_removal(now, is_rest_due=timer is not None)
        return transition.effects

    def _handle(self, transition: Transition, timer: GroupTimer) -> None:
        group = self._groups.get(timer.group_id)
        if timer is self._retention.timer:
            self._retention.expire(transition)
        elif isinstance(group, ModernGroup):
            run_through(_members_expired([timer], transition, self._groups.by_id))
        elif group is not None:
            self._classic.timer_expired(transition, group, timer)

    def _begin_removal(self, now: Now, *, is_rest_due: bool) -> None:
        """Begin to remove members of a large group: many together, if many are due."""
        self._due_ms = now.ms
        if self._due and self._expiring is None:
            group_id, timers = next(iter(self._due.items()))
            if not is_rest_due or len(timers) >= EXPIRED_AT_ONCE:
                self._expiring = group_id, self._removal(group_id, now)

    def _removal(self, group_id: str, now: Now) -> Steps[Effects]:
        """Remove the members of a large group whose timers are due and that send no heartbeat meanwhile."""
        timers = self._due[group_id]
        while timers := [timer for timer in timers if timer.at_ms is None]:
            try:
                transition, _ = yield from self._groups.changed(
                    group_id, now, partial(_members_expired, timers)
                )
            except _RestartedError:
                continue
            return transition.effects
        return Effects()

    def _continue_removal(self, on_failure: OnTimerFailure | None, now: Now) -> Effects | None:
        """Make the next piece of the removal of members of a large group. Return the effects at its end."""
        assert self._expiring is not None
        group_id, steps = self._expiring
        try:
            advance(steps)
        except StopIteration as end:
            effects: Effects = end.value
        except Exception as error:
            self._end_removal(group_id, now.ms + FAILED_TIMER_RETRY_MS)
            if on_failure is None:
                raise
            on_failure(group_id, error)
            return Effects()
        else:
            return None
        self._end_removal(group_id, None)
        return effects

    def _end_removal(self, group_id: str, retry_ms: int | None) -> None:
        self._expiring = None
        for timer in self._due.pop(group_id):
            if retry_ms is not None and timer.at_ms is None:
                self._groups.timers.set(timer, retry_ms)


def _members_expired(timers: Sequence[GroupTimer], transition: Transition, groups: GroupsById) -> Steps[None]:
    """Remove the members of a group whose timers are due: they sent no heartbeat, or did not revoke, join or
    sync in time. Pauses for each member. Raises _RestartedError.
    """
    group = groups.get(timers[0].group_id)
    if isinstance(group, StreamsGroup):
        yield from times_up(transition, group, timers)
    elif isinstance(group, ConsumerGroup | ShareGroup) and (expired := expired_members(group, timers)):
        if isinstance(group, ConsumerGroup):
            yield from migration.remove_members(transition, groups, group, expired)
        else:
            yield from remove_members(transition, group, expired)
    if any(timer.at_ms is not None for timer in timers):
        raise _RestartedError
