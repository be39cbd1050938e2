"""The coordinator of share groups: their members, and which partitions have a state.

`heartbeat` does the work of ShareGroupHeartbeat. The states themselves are `broker.coordinator.share`'s: a
group records the changes of them before and after they are made. (Kafka: the share part of
GroupMetadataManager, with completeAlterShareGroupOffsets, sharePartitionsEligibleForOffsetDeletion,
initializeShareGroupState, uninitializeShareGroupState, completeDeleteShareGroupOffsets)
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.config.sections.share_groups import ShareGroupConfig
from broker.coordinator.group.any_group import GroupsById
from broker.coordinator.group.consumer.assignment import Assignment
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.group import ClassicGroup
from broker.coordinator.group.groups import Groups, is_large
from broker.coordinator.group.messages import (
    Effects,
    ModernHeartbeatReply,
    Now,
    ShareHeartbeatRequest,
    ShareStatesReply,
    Token,
    refused_heartbeat,
)
from broker.coordinator.group.modern_changes import group_of_type
from broker.coordinator.group.modern_group import LEAVES, DescribedModernGroup
from broker.coordinator.group.share import heartbeat
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.share.member import ShareMember
from broker.coordinator.group.share.records import states_record
from broker.coordinator.group.share.state_partitions import ByTopicId, StatePartitions
from broker.coordinator.group.streams.group import StreamsGroup
from broker.coordinator.group.transition import Transition


class ShareCoordinator:
    def __init__(self, groups: Groups, config: ShareGroupConfig) -> None:
        self._groups = groups
        self._config = config

    def heartbeat(self, request: ShareHeartbeatRequest, token: Token, now: Now) -> Steps[Effects]:
        """Handle a ShareGroupHeartbeat. The reply follows at once. Pauses where the group is large."""
        beat = self._groups.beat(
            request, token, now, self._is_large, partial(self._beat, request), refused_heartbeat
        )
        effects = yield from beat
        self._groups.note_states(request.group_id)
        return effects

    def described(self, group_id: str) -> DescribedModernGroup[ShareMember]:
        """Handle ShareGroupDescribe for one group."""
        return self._groups.described(group_id, ShareGroup, lambda _group: self._config.assignors[0])

    # States

    @property
    def has_pending_states(self) -> bool:
        return bool(self._groups.pending_states)

    def take_pending_states(self) -> list[str]:
        """Return the share groups that may have states to initialize or to delete since the last call."""
        taken = list(self._groups.pending_states)
        self._groups.pending_states.clear()
        return taken

    def states(self, group_id: str) -> StatePartitions:
        """Return the share partitions of a group that have a state; none of a group of another type."""
        group = self._groups.get(group_id)
        return group.states if isinstance(group, ShareGroup) else StatePartitions()

    def has_states(self, group_id: str) -> bool:
        """Return whether a share group has states, or some that are being initialized or deleted."""
        states = self.states(group_id)
        return bool(states.initialized or states.is_pending)

    def with_states_of(self, topic_ids: Collection[bytes]) -> Iterator[str | None]:
        """Yield the share groups with states of these topics; None is a pause."""
        for group_id in list(self._groups.by_id):
            if self.states(group_id).has_any(topic_ids):
                yield group_id
            yield None

    def begin_states(self, group_id: str, partitions: ByTopicId, token: Token, now: Now) -> Steps[Effects]:
        """Record that the states of `partitions` are initialized next. The group must be empty; a missing one
        is created.
        """
        creates = bool(partitions)
        return self._change_states(
            group_id, token, now, lambda states: states.begin(partitions), is_empty=True, creates=creates
        )

    def complete_states(
        self, group_id: str, done: Assignment, failed: Assignment, token: Token, now: Now
    ) -> Steps[Effects]:
        """Record which states have been initialized, and which could not be."""
        return self._change_states(group_id, token, now, lambda states: states.completed(done, failed))

    def begin_deletion(
        self, group_id: str, topic_ids: Collection[bytes] | None, token: Token, now: Now
    ) -> Steps[Effects]:
        """Record that the states of topics, None for all, are deleted next. The group must be empty."""

        def delete(states: StatePartitions) -> Steps[StatePartitions]:
            known = {*states.initialized, *states.initializing}
            return states.delete(known if topic_ids is None else known.intersection(topic_ids))

        return self._change_states(group_id, token, now, delete, is_empty=True)

    def complete_deletion(
        self, group_id: str, topic_ids: Collection[bytes], token: Token, now: Now
    ) -> Steps[Effects]:
        """Record that the states of topics have been deleted."""
        return self._change_states(group_id, token, now, lambda states: states.deleted(topic_ids))

    def topics_gone(self, group_id: str, topic_ids: Collection[bytes], now: Now) -> Steps[Effects]:
        """Forget the states of deleted topics."""
        return self._change_states(group_id, None, now, lambda states: states.without(topic_ids))

    def _is_large(self, request: ShareHeartbeatRequest) -> bool:
        """Check a heartbeat, and return whether its change is too much for one piece. Raises ApiError."""
        heartbeat.check_request(request)
        group = self._groups.get(request.group_id)
        if isinstance(group, ClassicGroup | ConsumerGroup | StreamsGroup):
            return False
        topics = self._groups.topics
        if group is not None and heartbeat.changes_nothing(group, request, topics):
            return False
        return is_large(group, [request.topics or ()], topics)

    def _beat(
        self, request: ShareHeartbeatRequest, transition: Transition, groups: GroupsById
    ) -> Steps[ModernHeartbeatReply]:
        if request.epoch == LEAVES:
            group = group_of_type(groups, request.group_id, ShareGroup)
            yield from heartbeat.remove_members(
                transition, group, [group.member(request.member_id).member_id]
            )
            return ModernHeartbeatReply(ErrorCode.NONE, request.member_id, LEAVES)
        group = heartbeat.group_to_join(transition, groups, request)
        times = self._groups.times_of(group)
        return (
            yield from heartbeat.beat(
                transition, group, request, times.session_timeout_ms, times.heartbeat_interval_ms
            )
        )

    def _change_states(
        self,
        group_id: str,
        token: Token | None,
        now: Now,
        change: Callable[[StatePartitions], Steps[StatePartitions]],
        *,
        is_empty: bool = False,
        creates: bool = False,
    ) -> Steps[Effects]:
        """Change and record the states of a group, with pauses, which must be empty for some changes."""

        def changed_states(transition: Transition, groups: GroupsById) -> Steps[Mapping[bytes, str]]:
            if creates and group_id not in groups:
                group = heartbeat.new_group(transition, groups, group_id)
            else:
                group = group_of_type(groups, group_id, ShareGroup)
            if is_empty and group.members:
                raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
            states = yield from change(group.states)
            if states != group.states:
                transition.keep(group)
                group.states = states
                yield
                transition.record((yield from states_record(group_id, states)))
            return states.deleting

        transition = self._groups.transition(now)
        try:
            if isinstance(self._groups.get(group_id), ClassicGroup):
                group_of_type(self._groups.by_id, group_id, ShareGroup)
            transition, deleting = yield from self._groups.changed(group_id, now, changed_states)
            reply = ShareStatesReply(ErrorCode.NONE, deleting=deleting)
        except ApiError as error:
            reply = ShareStatesReply(error.code, error.message)
        if token is not None:
            transition.reply(token, reply)
        return transition.effects
