"""Streams groups (KIP-1071): their topology, and the tasks of their members. See `views` for units."""

from typing import Annotated, Final

import msgspec

from broker.controller.rows.fields import LEFT_OUT, AnyText, Configs, one_of

MOST: Final = msgspec.Meta(max_length=1_000_000)

TaskRole = Annotated[str, one_of("active", "standby", "warmup")]

StatusName = Annotated[
    str,
    one_of("MISSING_SOURCE_TOPICS", "INCORRECTLY_PARTITIONED_TOPICS", "MISSING_INTERNAL_TOPICS"),
]


class InternalTopicRow(msgspec.Struct, frozen=True):
    """A repartition or changelog topic. `partitions` None: not decided yet."""

    topic: str
    partitions: int | None


class SubtopologyRow(msgspec.Struct, frozen=True):
    """A part of the topology. `tasks`: their number, None if it is not decided yet."""

    subtopology_id: str = msgspec.field(name="id")
    tasks: int | None
    source_topics: Annotated[tuple[str, ...], MOST]
    repartition_source_topics: Annotated[tuple[InternalTopicRow, ...], MOST]
    repartition_sink_topics: Annotated[tuple[str, ...], MOST]
    changelog_topics: Annotated[tuple[InternalTopicRow, ...], MOST]


class TopologyRow(msgspec.Struct, frozen=True):
    """`subtopologies` are in order of their ids."""

    epoch: int
    subtopologies: Annotated[tuple[SubtopologyRow, ...], MOST]


class StatusRow(msgspec.Struct, frozen=True):
    """Why the group has no tasks: the status that its members receive, and its detail."""

    code: StatusName
    detail: AnyText


class StreamsGroupRow(msgspec.Struct, frozen=True):
    """`topology` None: no member has stated it. `status` None: nothing is wrong with the topics as they were
    at the last heartbeat.
    """

    topology: Annotated[TopologyRow, msgspec.Meta(title="StreamsTopology")] | None
    status: StatusRow | None


class EndpointRow(msgspec.Struct, frozen=True):
    """Where an instance of the application answers queries of its state."""

    host: str
    port: int


class MemberTaskRow(msgspec.Struct, frozen=True):
    """A task that a member has, or that it has yet to get.

    `role` is its role now, None if the member does not have it yet; `target` is that of the target
    assignment, None if the member gives the task up. `offset` and `end_offset`: how far its state is
    restored, and how far it goes; None if the member has not reported it.
    """

    subtopology: str
    partition: int
    role: TaskRole | None
    target: TaskRole | None
    offset: Annotated[int | None, LEFT_OUT] = None
    end_offset: Annotated[int | None, LEFT_OUT] = None


class StreamsMemberRow(msgspec.Struct, frozen=True):
    """What a member of a streams group states, and its tasks in order. `topology_epoch` is -1 before it has
    stated a topology.
    """

    process_id: str
    topology_epoch: Annotated[int, msgspec.Meta(ge=-1)]
    endpoint: EndpointRow | None
    client_tags: Configs
    tasks: Annotated[tuple[MemberTaskRow, ...], MOST]
