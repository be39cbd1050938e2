"""StreamsGroupDescribe: the state of streams groups, their topologies, and their members' tasks. (KIP-1071)

Versions 0-1. Version 1 has the assignor, and the description of the topology, which is never stored: Kafka
has plugins for it. A group that does not exist or is of another type is GROUP_ID_NOT_FOUND. If the client may
not describe a topic of the topology, the group is TOPIC_AUTHORIZATION_FAILED. An id that is repeated gets
INVALID_REQUEST, as in DescribeGroups.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import partial
from typing import Final

from broker.api.a88_streams_group_heartbeat import task_ids
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_requests import described_groups
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import GroupServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices, Steps, sorted_in_steps
from broker.coordinator.group.streams.assignor import NOTHING, TaskOffsets, TaskSets
from broker.coordinator.group.streams.coordinator import DescribedStreamsGroup
from broker.coordinator.group.streams.member import NOTHING_RESTORED, StreamsMember
from broker.coordinator.group.streams.topology import TopicInfo
from broker.protocol.api_key import ApiKey
from broker.protocol.messages import streams_group_describe as wire
from broker.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from broker.security.acl.acl import Operation

HIDDEN: Final = "The described group uses topics that the client is not authorized to describe."


class DescriptionStatus(IntEnum):
    """Whether a response has the description of a topology."""

    NOT_REQUESTED = 0
    NOT_STORED = 1


@api(ApiKey.STREAMS_GROUP_DESCRIBE, versions=(0, 1), services=GroupServices)
def handle(
    message: StreamsGroupDescribeRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome]:
    requested = message.include_topology_description
    status = DescriptionStatus.NOT_STORED if requested else DescriptionStatus.NOT_REQUESTED
    groups = yield from described_groups(
        message.group_ids,
        DescribedGroup,
        partial(_describe, status, context, services),
        context,
        services,
        wants_operations=message.include_authorized_operations,
    )
    return Response(StreamsGroupDescribeResponse(groups=groups))


def _describe(
    status: DescriptionStatus, context: RequestContext, services: GroupServices, group_id: str
) -> Slices[DescribedGroup]:
    group = yield from services.groups.coordinator.streams.described(group_id)
    if group.error:
        return DescribedGroup(group.error, group.message, group_id)
    topology = yield from _topology(group)
    for name in _names(topology):
        if not services.security.allows_topic(context, Operation.DESCRIBE, name, logs=False):
            return DescribedGroup(ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN, group_id)
        yield None
    members = []
    for member in group.members:
        members.append((yield from _member(member, group)))
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=topology,
        members=members,
        topology_description_status=status,
        assignor_name=group.assignor,
    )


def _names(topology: wire.Topology | None) -> Iterator[str]:
    for each in () if topology is None else topology.subtopologies or ():
        yield from each.source_topics
        yield from each.repartition_sink_topics
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics):
            yield topic.name


def _topology(group: DescribedStreamsGroup) -> Steps[wire.Topology | None]:
    """Return the topology with its topics, or as it was stated if they do not suit it."""
    if group.topology is None:
        return None
    found = []
    configured = group.configured
    if configured is not None and configured.subtopologies is not None:
        for subtopology_id, each in configured.subtopologies.items():
            found.append(
                wire.Subtopology(
                    subtopology_id,
                    list(each.source_topics),
                    list(each.repartition_sink_topics),
                    (yield from _topics(each.state_changelog_topics.values())),
                    (yield from _topics(each.repartition_source_topics.values())),
                )
            )
    else:
        by_id = {each.subtopology_id: each for each in group.topology.subtopologies}
        for subtopology_id in (yield from sorted_in_steps(by_id)):
            stated = by_id[subtopology_id]
            found.append(
                wire.Subtopology(
                    subtopology_id,
                    (yield from sorted_in_steps(stated.source_topics)),
                    (yield from sorted_in_steps(stated.repartition_sink_topics)),
                    (yield from _topics(stated.state_changelog_topics)),
                    (yield from _topics(stated.repartition_source_topics)),
                )
            )
    return wire.Topology(group.topology.epoch, found)


def _topics(topics: Iterable[TopicInfo]) -> Steps[list[wire.TopicInfo]]:
    found = []
    stated = list(topics)
    for _name, number in (yield from sorted_in_steps([(topic.name, at) for at, topic in enumerate(stated)])):
        topic = stated[number]
        configs = [wire.KeyValue(key, value) for key, value in topic.configs]
        found.append(wire.TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs))
        yield
    return found


def _member(member: StreamsMember, group: DescribedStreamsGroup) -> Steps[wire.Member]:
    restored = group.offsets.get(member.member_id, NOTHING_RESTORED)
    endpoint = member.endpoint
    return wire.Member(
        member.member_id,
        member.epoch,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.topology_epoch,
        member.process_id,
        None if endpoint is None else wire.Endpoint(endpoint.host, endpoint.port),
        [wire.KeyValue(key, value) for key, value in member.client_tags],
        (yield from _offsets(restored.offsets)),
        (yield from _offsets(restored.end_offsets)),
        (yield from _assignment((yield from member.assigned.sets()))),
        (yield from _assignment(group.targets.get(member.member_id, NOTHING))),
    )


def _offsets(offsets: TaskOffsets) -> Steps[list[wire.TaskOffset]]:
    found = []
    for subtopology_id in (yield from sorted_in_steps(offsets)):
        of_tasks = offsets[subtopology_id]
        for index in sorted(of_tasks):
            found.append(wire.TaskOffset(subtopology_id, index, of_tasks[index]))
            yield
    return found


def _assignment(tasks: TaskSets) -> Steps[wire.Assignment]:
    return wire.Assignment(
        (yield from task_ids(wire.TaskIds, tasks.active)),
        (yield from task_ids(wire.TaskIds, tasks.standby)),
        (yield from task_ids(wire.TaskIds, tasks.warmup)),
    )
