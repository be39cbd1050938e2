"""Streams groups: their topology, and their members with the tasks that they have and get. For `topics`."""

from collections.abc import Iterable, Mapping
from typing import Final

from broker.common.slices import Steps, sorted_in_steps
from broker.controller.rows.streams_groups import (
    EndpointRow,
    InternalTopicRow,
    MemberTaskRow,
    StatusRow,
    StreamsGroupRow,
    StreamsMemberRow,
    SubtopologyRow,
    TopologyRow,
)
from broker.controller.rows.topics import MemberRow
from broker.coordinator.group.streams.assignor import NOTHING, TaskSets
from broker.coordinator.group.streams.configured import ConfiguredSubtopology
from broker.coordinator.group.streams.coordinator import DescribedStreamsGroup
from broker.coordinator.group.streams.member import NOTHING_RESTORED, RestoredOffsets, StreamsMember
from broker.coordinator.group.streams.tasks import MemberTasks
from broker.coordinator.group.streams.topology import Subtopology, TopicInfo, source_names
from broker.partitions.partitions import Partitions

ACTIVE: Final = "active"
STANDBY: Final = "standby"
WARMUP: Final = "warmup"

NOT_REPORTED: Final[Mapping[int, int]] = {}

_DIGITS: Final = 6
"""Of the length of an id, which has at most 32,767 characters."""

Roles = dict[str, dict[int, str]]
"""The roles of tasks by subtopology and partition."""


def streams_group(group: DescribedStreamsGroup) -> Steps[StreamsGroupRow]:
    """Return the topology of a group and its status."""
    status = None if group.status is None else StatusRow(group.status.code.name, group.status.detail)
    if group.topology is None:
        return StreamsGroupRow(None, status)
    configured = {} if group.configured is None else group.configured.subtopologies or {}
    by_id = {}
    for each in group.topology.subtopologies:
        by_id[each.subtopology_id] = yield from _subtopology(each, configured.get(each.subtopology_id))
    rows = []
    for subtopology_id in (yield from _in_order(by_id)):
        rows.append(by_id[subtopology_id])
        yield
    return StreamsGroupRow(TopologyRow(group.topology.epoch, tuple(rows)), status)


def streams_members(group: DescribedStreamsGroup, partitions: Partitions) -> Steps[list[MemberRow]]:
    """Return the members of a group with their tasks."""
    subtopologies = {}
    for subtopology in () if group.topology is None else group.topology.subtopologies:
        subtopologies[subtopology.subtopology_id] = subtopology
        yield
    rows = []
    for member in group.members:
        target = group.targets.get(member.member_id, NOTHING)
        restored = group.offsets.get(member.member_id, NOTHING_RESTORED)
        endpoint = None if member.endpoint is None else EndpointRow(*member.endpoint)
        streams = StreamsMemberRow(
            member.process_id,
            member.topology_epoch,
            endpoint,
            member.client_tags,
            (yield from _tasks(member, target, restored)),
        )
        assigned = yield from _read_by(member, subtopologies, partitions)
        rows.append(
            MemberRow(
                member.member_id, member.instance_id, member.client_id, member.client_host, assigned, streams
            )
        )
        yield
    return rows


def _subtopology(stated: Subtopology, configured: ConfiguredSubtopology | None) -> Steps[SubtopologyRow]:
    known = ConfiguredSubtopology(0) if configured is None else configured
    return SubtopologyRow(
        stated.subtopology_id,
        None if configured is None else configured.number_of_tasks,
        stated.source_topics,
        (yield from _internal(stated.repartition_source_topics, known.repartition_source_topics)),
        stated.repartition_sink_topics,
        (yield from _internal(stated.state_changelog_topics, known.state_changelog_topics)),
    )


def _internal(
    topics: Iterable[TopicInfo], configured: Mapping[str, TopicInfo]
) -> Steps[tuple[InternalTopicRow, ...]]:
    rows = []
    for each in topics:
        rows.append(InternalTopicRow(each.name, configured.get(each.name, each).partitions or None))
        yield
    return tuple(rows)


def _tasks(
    member: StreamsMember, target: TaskSets, restored: RestoredOffsets
) -> Steps[tuple[MemberTaskRow, ...]]:
    """Return all tasks of a member: assigned, to be revoked, and in its target. A task that it still has to
    give up has its old role.
    """
    now: Roles = {}
    for some in (member.assigned, member.revoking):
        yield from _add_roles(now, some)
    then: Roles = {}
    yield from _add_roles(then, target)
    rows = []
    for subtopology_id in (yield from _in_order({**now, **then})):
        roles, targets = now.get(subtopology_id, {}), then.get(subtopology_id, {})
        offsets = restored.offsets.get(subtopology_id, NOT_REPORTED)
        ends = restored.end_offsets.get(subtopology_id, NOT_REPORTED)
        for index in sorted({**roles, **targets}):
            rows.append(
                MemberTaskRow(
                    subtopology_id,
                    index,
                    roles.get(index),
                    targets.get(index),
                    offsets.get(index),
                    ends.get(index),
                )
            )
            yield
    return tuple(rows)


def _add_roles(roles: Roles, tasks: MemberTasks | TaskSets) -> Steps[None]:
    for role, some in ((WARMUP, tasks.warmup), (STANDBY, tasks.standby), (ACTIVE, tasks.active)):
        for subtopology_id, indexes in some.items():
            of_subtopology = roles.setdefault(subtopology_id, {})
            for index in indexes:
                of_subtopology[index] = role
                yield


def _read_by(
    member: StreamsMember, subtopologies: Mapping[str, Subtopology], partitions: Partitions
) -> Steps[tuple[tuple[str, int], ...]]:
    """Return the partitions that the active tasks of a member read."""
    found: list[tuple[str, int]] = []
    for subtopology_id in (yield from _in_order(member.assigned.active)):
        subtopology = subtopologies.get(subtopology_id)
        indexes = sorted(member.assigned.active[subtopology_id])
        for name in () if subtopology is None else source_names(subtopology):
            hosted = partitions.by_name.get(name)
            if hosted is not None:
                found += ((name, index) for index in indexes if index < hosted.count)
            yield
    return tuple(found)


def _in_order(subtopology_ids: Iterable[str]) -> Steps[list[str]]:
    """Return ids in order: those of Kafka Streams are numbers."""
    padded = []
    for each in subtopology_ids:
        padded.append(f"{len(each):0{_DIGITS}}{each}")
        yield
    return [each[_DIGITS:] for each in (yield from sorted_in_steps(padded))]
