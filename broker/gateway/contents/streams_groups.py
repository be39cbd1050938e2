"""Streams groups of the upstream cluster, as StreamsGroupDescribe tells them. (KIP-1071)"""

from collections.abc import Iterable, Mapping
from typing import Any

from broker.controller.rows.streams_groups import (
    EndpointRow,
    InternalTopicRow,
    MemberTaskRow,
    StreamsGroupRow,
    StreamsMemberRow,
    SubtopologyRow,
    TopologyRow,
)
from broker.controller.rows.topics import MemberRow
from broker.views.streams_groups import ACTIVE, STANDBY, WARMUP

Task = tuple[str, int]


def streams_group(group: Any) -> StreamsGroupRow:
    """Return the topology. A cluster tells neither the number of tasks nor why there are none."""
    if group.topology is None:
        return StreamsGroupRow(None, None)
    subtopologies = sorted(
        group.topology.subtopologies or (), key=lambda each: (len(each.subtopology_id), each.subtopology_id)
    )
    return StreamsGroupRow(
        TopologyRow(
            max(group.topology.epoch, 0),
            tuple(
                SubtopologyRow(
                    each.subtopology_id,
                    None,
                    tuple(each.source_topics),
                    _internal(each.repartition_source_topics),
                    tuple(each.repartition_sink_topics),
                    _internal(each.state_changelog_topics),
                )
                for each in subtopologies
            ),
        ),
        None,
    )


def _internal(topics: Iterable[Any]) -> tuple[InternalTopicRow, ...]:
    return tuple(
        InternalTopicRow(each.name, each.partitions if each.partitions > 0 else None) for each in topics
    )


def streams_member(group: Any, member: Any) -> MemberRow:
    """Return a member with its tasks, now and in the target assignment."""
    now, then = _roles(member.assignment), _roles(member.target_assignment)
    restored, ends = _offsets(member.task_offsets), _offsets(member.task_end_offsets)
    tasks = tuple(
        MemberTaskRow(*task, now.get(task), then.get(task), restored.get(task), ends.get(task))
        for task in sorted({**now, **then}, key=lambda task: (len(task[0]), *task))
    )
    endpoint = member.user_endpoint
    streams = StreamsMemberRow(
        member.process_id,
        member.topology_epoch,
        None if endpoint is None else EndpointRow(endpoint.host, endpoint.port),
        tuple((each.key, each.value) for each in member.client_tags),
        tasks,
    )
    sources = {
        each.subtopology_id: (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
        for each in (() if group.topology is None else group.topology.subtopologies or ())
    }
    read = tuple(
        (topic, index)
        for (subtopology, index), role in sorted(now.items())
        for topic in (sources.get(subtopology, ()) if role == ACTIVE else ())
    )
    return MemberRow(
        member.member_id, member.instance_id, member.client_id, member.client_host, read, streams
    )


def _roles(assignment: Any) -> Mapping[Task, str]:
    roles: dict[Task, str] = {}
    for role, some in (
        (WARMUP, assignment.warmup_tasks),
        (STANDBY, assignment.standby_tasks),
        (ACTIVE, assignment.active_tasks),
    ):
        for each in some:
            roles |= {(each.subtopology_id, index): role for index in each.partitions}
    return roles


def _offsets(offsets: Iterable[Any]) -> Mapping[Task, int]:
    return {(each.subtopology_id, each.partition): each.offset for each in offsets}
