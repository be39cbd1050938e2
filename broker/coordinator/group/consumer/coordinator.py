"""The coordinator of the consumer protocol: ConsumerGroupHeartbeat and ConsumerGroupDescribe.

`heartbeat` and `migration` do the work. (Kafka: the consumer part of GroupMetadataManager)
"""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.common.slices import Steps
from broker.config.sections.groups import ConsumerGroupConfig
from broker.coordinator.group.any_group import GroupsById
from broker.coordinator.group.consumer import heartbeat, migration
from broker.coordinator.group.consumer.epochs import preferred_assignor
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import LEAVES_FOR_NOW, ConsumerMember
from broker.coordinator.group.consumer.regular_expressions import outdated_expressions
from broker.coordinator.group.group import ClassicGroup
from broker.coordinator.group.groups import Groups, is_costly, is_large
from broker.coordinator.group.messages import (
    ConsumerHeartbeatRequest,
    Effects,
    ModernHeartbeatReply,
    Now,
    Token,
    refused_heartbeat,
)
from broker.coordinator.group.modern_changes import group_of_type
from broker.coordinator.group.modern_group import JOINS, LEAVES, DescribedModernGroup
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.streams.group import StreamsGroup
from broker.coordinator.group.transition import Transition


class ConsumerCoordinator:
    """`new_uuid` makes the id of a member that states none."""

    def __init__(self, groups: Groups, config: ConsumerGroupConfig, new_uuid: Callable[[], str]) -> None:
        self._groups = groups
        self._config = config
        self._new_uuid = new_uuid

    def outdated_expressions(self, request: ConsumerHeartbeatRequest, now: Now) -> tuple[str, ...]:
        """Return the regular expressions whose topics the caller looks up before `heartbeat`."""
        group = self._groups.get(request.group_id)
        regex = None if request.epoch < JOINS else request.regex
        if not isinstance(group, ConsumerGroup):
            return (regex,) if regex else ()
        interval_ms = self._config.regex_refresh_interval_ms
        return outdated_expressions(group, regex, self._groups.topics, now.ms, interval_ms)

    def heartbeat(self, request: ConsumerHeartbeatRequest, token: Token, now: Now) -> Steps[Effects]:
        """Handle a ConsumerGroupHeartbeat. The reply follows at once. Pauses where the group is large: of
        several such calls, each goes on to its end before the next one does.
        """
        return self._groups.beat(
            request, token, now, self._is_large, partial(self._beat, request), refused_heartbeat
        )

    def described(self, group_id: str) -> DescribedModernGroup[ConsumerMember]:
        """Handle ConsumerGroupDescribe for one group."""
        assignors = self._config.assignors
        return self._groups.described(
            group_id, ConsumerGroup, lambda group: preferred_assignor(group, assignors)
        )

    def _is_large(self, request: ConsumerHeartbeatRequest) -> bool:
        """Check a heartbeat, and return whether its change is too much for one piece. Raises ApiError."""
        heartbeat.check_request(request, self._config.assignors)
        group = self._groups.get(request.group_id)
        if isinstance(group, ShareGroup | StreamsGroup):
            return False
        if isinstance(group, ClassicGroup):
            if request.epoch != JOINS:
                return False
            if is_costly(group):
                return True
            group = None
        topics = self._groups.topics
        if group is not None and heartbeat.changes_nothing(group, request, topics):
            return False
        stated = [request.topics or (), *request.resolved.values()]
        return is_large(group, stated, topics)

    def _beat(
        self, request: ConsumerHeartbeatRequest, transition: Transition, groups: GroupsById
    ) -> Steps[ModernHeartbeatReply]:
        if request.epoch in (LEAVES, LEAVES_FOR_NOW):
            group = group_of_type(groups, request.group_id, ConsumerGroup, "Consumer group")
            member = heartbeat.leaving_member(group, request)
            if request.epoch == LEAVES_FOR_NOW:
                yield from heartbeat.leave_for_now(transition, group, member)
            else:
                yield from migration.remove_members(transition, groups, group, {member.member_id: None})
            return ModernHeartbeatReply(ErrorCode.NONE, member.member_id, request.epoch)
        if request.epoch == JOINS:
            group = yield from migration.get_or_create_consumer(transition, groups, request.group_id)
        else:
            group = group_of_type(groups, request.group_id, ConsumerGroup, "Consumer group")
        if not request.member_id:
            request = replace(request, member_id=self._new_uuid())
        times = self._groups.times_of(group)
        return (
            yield from heartbeat.beat(
                transition, group, request, times.session_timeout_ms, times.heartbeat_interval_ms
            )
        )
