"""The periodic check for expired offsets (KIP-211), a few at a time.

Called by `expiry` when its timer is due. (Kafka: OffsetMetadataManager.cleanupExpiredOffsets)
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from broker.common.slices import SliceTimer
from broker.config.sections.groups import GroupConfig
from broker.coordinator.group.any_group import AnyGroup
from broker.coordinator.group.groups import Groups
from broker.coordinator.group.offsets import OFFSETS_AT_ONCE, partitions_of
from broker.coordinator.group.subscriptions import SubscribedTopics, subscribed_topics
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
        if self._groups.get(group.group_id) is group:
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
    a rebalance, nor without the `subscribed` topics of a group with members.
    """
    if group.is_empty:
        subscribed = None
    elif subscribed is None or not (group.is_settled and subscribed.is_known and subscribed.is_of(group)):
        return
    retention_ms = transition.config.offsets_retention_ms
    for topic, partition in _expired(group, partitions, transition.wall_ms, retention_ms):
        if subscribed is None or topic not in subscribed:
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
