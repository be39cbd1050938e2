"""The coordinator of streams groups: StreamsGroupHeartbeat and StreamsGroupDescribe.

`heartbeat` does the work. (Kafka: the streams part of GroupMetadataManager)
"""

from collections.abc import Mapping
from functools import partial

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.coordinator.group.any_group import GroupsById
from broker.coordinator.group.groups import SMALL, Groups, is_large, is_more_than
from broker.coordinator.group.messages import (
    Effects,
    Now,
    StreamsHeartbeatReply,
    StreamsHeartbeatRequest,
    Token,
)
from broker.coordinator.group.modern_changes import group_of_type
from broker.coordinator.group.modern_group import LEAVES
from broker.coordinator.group.streams import heartbeat
from broker.coordinator.group.streams.assignor import TaskSets
from broker.coordinator.group.streams.configured import ConfiguredTopology, configure
from broker.coordinator.group.streams.group import StreamsGroup
from broker.coordinator.group.streams.member import LEAVES_FOR_NOW, RestoredOffsets, StreamsMember
from broker.coordinator.group.streams.status import Status
from broker.coordinator.group.streams.topology import Topology, read_names, weights
from broker.coordinator.group.transition import Transition


class DescribedStreamsGroup(msgspec.Struct, frozen=True):
    """`configured` is the topology with its topics, None if they do not suit it; `status` says why. `targets`
    and `offsets` are by member id. `error` and `message` are set if the id is not that of a streams group.
    """

    error: ErrorCode
    group_id: str
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    topology: Topology | None = None
    configured: ConfiguredTopology | None = None
    members: tuple[StreamsMember, ...] = ()
    targets: Mapping[str, TaskSets] = {}
    offsets: Mapping[str, RestoredOffsets] = {}
    message: str | None = None
    status: Status | None = None


class StreamsCoordinator:
    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def heartbeat(self, request: StreamsHeartbeatRequest, token: Token, now: Now) -> Steps[Effects]:
        """Handle a StreamsGroupHeartbeat. The reply follows at once. Pauses where the group is large."""
        return self._groups.beat(
            request, token, now, self._is_large, partial(self._beat, request), StreamsHeartbeatReply
        )

    def described(self, group_id: str) -> Steps[DescribedStreamsGroup]:
        """Handle StreamsGroupDescribe for one group. Pauses where its topology is configured for it."""
        try:
            group = group_of_type(self._groups.by_id, group_id, StreamsGroup)
        except ApiError as error:
            return DescribedStreamsGroup(error.code, group_id, message=error.message)
        configured = group.configured
        if configured is None and group.topology is not None:
            configured = yield from self._configured(group.topology.topology)
        return DescribedStreamsGroup(
            ErrorCode.NONE,
            group_id,
            group.state.value,
            group.epoch,
            group.target_epoch,
            self._groups.streams_settings_of(group_id).assignor,
            None if group.topology is None else group.topology.topology,
            configured if configured is not None and configured.is_ready else None,
            tuple(group.members.values()),
            dict(group.targets),
            group.task_offsets,
            status=None if configured is None else configured.error,
        )

    def _configured(self, topology: Topology) -> Steps[ConfiguredTopology | None]:
        """Configure a topology that only a description uses; None if no topics suit it."""
        try:
            return (yield from configure(topology, self._groups.topics, 0))
        except ApiError:
            return None

    def _is_large(self, request: StreamsHeartbeatRequest) -> bool:
        """Check a heartbeat, and return whether its change is too much for one piece. Raises ApiError."""
        heartbeat.check_request(request)
        groups = self._groups
        group = groups.get(request.group_id)
        known = group if isinstance(group, StreamsGroup) else None
        settings = groups.streams_settings_of(request.group_id)
        if known is not None and heartbeat.changes_nothing(known, request, settings, groups.topics):
            return False
        if request.topology is None:
            return is_large(known, (), groups.topics)
        if is_more_than(SMALL, weights(request.topology)):
            return True
        stated = [name for each in request.topology.subtopologies for name in read_names(each)]
        return is_large(known, [stated], groups.topics)

    def _beat(
        self, request: StreamsHeartbeatRequest, transition: Transition, groups: GroupsById
    ) -> Steps[StreamsHeartbeatReply]:
        if request.epoch in (LEAVES, LEAVES_FOR_NOW):
            group = group_of_type(groups, request.group_id, StreamsGroup)
            return (yield from heartbeat.leave(transition, group, request))
        group = heartbeat.group_to_join(transition, groups, request)
        settings = self._groups.streams_settings_of(request.group_id)
        return (yield from heartbeat.beat(transition, group, request, settings))
