"""Handles the due timers of groups: sessions, rebalance phases, offset retention.

Called by `coordinator`. The members of a large group are removed with pauses. (Kafka: the timers of
CoordinatorRuntime)
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from broker.common.slices import Steps, advance, run_through
from broker.coordinator.group.any_group import GroupsById
from broker.coordinator.group.classic import ClassicCoordinator
from broker.coordinator.group.consumer import migration
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.groups import Groups
from broker.coordinator.group.isolation import is_large
from broker.coordinator.group.messages import Effects, Now
from broker.coordinator.group.modern_changes import expired_members
from broker.coordinator.group.modern_group import ModernGroup
from broker.coordinator.group.retention import OffsetRetention
from broker.coordinator.group.share.heartbeat import remove_members
from broker.coordinator.group.timers import GroupTimer
from broker.coordinator.group.transition import Transition

TIMERS_AT_ONCE: Final = 16
"""Timers that `expire` handles in one call; fewer of large groups."""

EXPIRED_AT_ONCE: Final = 64
"""Due members of a large group for whose removal the coordinator does not wait for more; ours."""

MEMBERS_AT_ONCE: Final = 64
"""Members of a group whose timer counts as one more timer, because a rebalance walks through all members."""

CHANGING_MS: Final = 20
"""Delay of a timer of a group that a call is changing; ours."""

FAILED_TIMER_RETRY_MS: Final = 5_000
"""Retry delay of a timer whose handler raised; ours. Without a retry, the members would wait forever."""

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
    """Remove the members of a consumer or share group whose timers are due: they sent no heartbeat, or did
    not revoke, join or sync in time. Pauses for each member. Raises _RestartedError.
    """
    group = groups.get(timers[0].group_id)
    if isinstance(group, ModernGroup) and (expired := expired_members(group, timers)):
        if isinstance(group, ConsumerGroup):
            yield from migration.remove_members(transition, groups, group, expired)
        else:
            yield from remove_members(transition, group, expired)
    if any(timer.at_ms is not None for timer in timers):
        raise _RestartedError
