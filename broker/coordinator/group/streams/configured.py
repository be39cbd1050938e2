"""The topology of a streams group, configured with the topics that exist: how many tasks each subtopology
has, the partitions of its internal topics, and which of these have to be created.

Called by the group's heartbeat when a topic has changed. The results and errors are those of Kafka, which
depend on the orders of Java's hash maps. (Kafka: InternalTopicManager, RepartitionTopics,
CopartitionedTopicsEnforcer, ChangelogTopics, EndpointToPartitionsManager)
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from broker.common.slices import Steps, sorted_in_steps
from broker.coordinator.group.consumer.assignment import Topics
from broker.coordinator.group.streams.java_order import hash_map_order, sorted_as_java
from broker.coordinator.group.streams.status import Status, StatusCode
from broker.coordinator.group.streams.topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
    invalid,
    read_names,
    source_names,
)

SHOWN_TOPICS: Final = 3
"""Names in a status. (Kafka: InternalTopicManager.summarizeTopics)"""


MOST_TASKS: Final = 100_000
"""Of one group; ours. The record of a member that has them all is one batch, as every record has to be."""


class ConfiguredSubtopology(msgspec.Struct, frozen=True):
    """The names are sorted, each once; the internal topics are by name, with their partition counts."""

    number_of_tasks: int
    source_topics: tuple[str, ...] = ()
    repartition_source_topics: Mapping[str, TopicInfo] = {}
    repartition_sink_topics: tuple[str, ...] = ()
    state_changelog_topics: Mapping[str, TopicInfo] = {}

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks can have standbys."""
        return bool(self.state_changelog_topics)


class ConfiguredTopology(msgspec.Struct, frozen=True):
    """`metadata_hash` is that of the topics that it was configured with. `subtopologies` are by id, in order;
    None if they cannot be configured. `error` says why the group cannot have tasks: also if there are
    `internal_topics_to_create`, by name.
    """

    topology_epoch: int
    metadata_hash: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    internal_topics_to_create: Mapping[str, TopicInfo] = {}
    error: Status | None = None

    @property
    def is_ready(self) -> bool:
        return self.error is None

    @property
    def tasks(self) -> int:
        """The number of tasks of all subtopologies."""
        return sum(each.number_of_tasks for each in (self.subtopologies or {}).values())


class _NotConfiguredError(Exception):
    """The topics do not suit the topology."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def configure(topology: Topology, topics: Topics, metadata_hash: int) -> Steps[ConfiguredTopology]:
    """Return the topology with the partitions of its internal topics. Regular expressions are not resolved:
    `topology.check` refuses them, as Kafka does.

    Raises ApiError STREAMS_INVALID_TOPOLOGY if no topics suit it.
    """
    by_id = {}
    for subtopology in topology.subtopologies:
        by_id[subtopology.subtopology_id] = subtopology
        yield
    order = [by_id[each] for each in (yield from hash_map_order(by_id))]
    try:
        yield from _check_sources(order, topics)
        counts = yield from _partition_counts(order, topics)
        configured, tasks = {}, 0
        for each in (yield from sorted_as_java(by_id)):
            configured[each] = yield from _configure_subtopology(by_id[each], counts)
            tasks += configured[each].number_of_tasks
            if tasks > MOST_TASKS:
                raise invalid(f"The topology has more than {MOST_TASKS} tasks.")
        missing = yield from _missing_topics(order, configured, topics)
    except _NotConfiguredError as error:
        return ConfiguredTopology(topology.epoch, metadata_hash, None, error=error.status)
    status = None
    if missing:
        detail = f"Internal topics are missing: {_summary(list(missing))}"
        status = Status(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, metadata_hash, configured, missing, status)


def _check_sources(subtopologies: Sequence[Subtopology], topics: Topics) -> Steps[None]:
    missing = set()
    for subtopology in subtopologies:
        for name in subtopology.source_topics:
            if name not in topics:
                missing.add(name)
            yield
        yield
    if missing:
        names = _summary((yield from sorted_as_java(missing)))
        raise _NotConfiguredError(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {names} are missing.")


def _summary(names: Sequence[str]) -> str:
    more = len(names) - SHOWN_TOPICS
    return ", ".join(names[:SHOWN_TOPICS]) + (f" and {more} additional topics" if more > 0 else "")


class _Counts:
    """The partition counts of topics: of one that exists its own, otherwise what is `decided`."""

    def __init__(self, topics: Topics, decided: dict[str, int]) -> None:
        self.topics, self.decided = topics, decided

    def of(self, name: str) -> int:
        topic = self.topics.get(name)
        return self.decided[name] if topic is None else topic.partitions

    def most(self, names: Iterable[str]) -> Steps[int]:
        """Return the highest count, 0 without names."""
        most = 0
        for name in names:
            most = max(most, self.of(name))
            yield
        return most


def _partition_counts(subtopologies: Sequence[Subtopology], topics: Topics) -> Steps[_Counts]:
    """Decide the partition counts of all internal topics."""
    decided = yield from _repartition_counts(subtopologies, topics)
    for subtopology in subtopologies:
        for topic in subtopology.repartition_source_topics:
            if topic.name not in decided:
                raise invalid(
                    "Failed to compute number of partitions for all repartition topics, because a "
                    "repartition source topic is never used as a sink topic."
                )
            yield
        yield
    counts = _Counts(topics, decided)
    copartitioned = yield from _Copartitioned.of(subtopologies, counts)
    for subtopology in subtopologies:
        for group in subtopology.copartition_groups:
            yield from copartitioned.enforce(subtopology, group)
        yield
    changelogs = {}
    for subtopology in subtopologies:
        most = yield from counts.most(source_names(subtopology))
        if not most:
            raise invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
        for topic in subtopology.state_changelog_topics:
            changelogs[topic.name] = most
            yield
        yield
    for name, count in changelogs.items():
        decided[name] = count
        yield
    return counts


def _repartition_counts(subtopologies: Sequence[Subtopology], topics: Topics) -> Steps[dict[str, int]]:
    """Return the counts of the repartition topics: as stated, or the highest of the sources of the
    subtopology that writes to the topic.

    Kafka goes through the subtopologies in rounds. One in which a source has a count gives it to its sinks,
    although other sources may get a higher one later. A queue by (round, position) makes the same visits
    without going through all that cannot be decided yet.
    """
    counts: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    for position, subtopology in enumerate(subtopologies):
        for topic in subtopology.repartition_source_topics:
            readers.setdefault(topic.name, []).append(position)
            if topic.partitions:
                counts[topic.name] = topic.partitions
            yield
        yield
    queue: list[tuple[int, int]] = []
    for position, subtopology in enumerate(subtopologies):
        has_count = bool(subtopology.source_topics)
        for topic in subtopology.repartition_source_topics:
            has_count = has_count or topic.name in counts
            yield
        if has_count:
            queue.append((0, position))
        yield
    queued = {position for _, position in queue}
    while queue:
        turn, position = heappop(queue)
        subtopology = subtopologies[position]
        count = 0
        for name in subtopology.source_topics:
            count = max(count, topics[name].partitions)
            yield
        for topic in subtopology.repartition_source_topics:
            count = max(count, counts.get(topic.name, 0))
            yield
        for name in subtopology.repartition_sink_topics:
            if name not in counts:
                counts[name] = count
                for reader in readers.get(name, ()):
                    if reader not in queued:
                        queued.add(reader)
                        heappush(queue, (turn + (reader < position), reader))
                    yield
            yield
        yield
    for subtopology in subtopologies:
        for name in subtopology.repartition_sink_topics:
            if name not in counts:
                raise invalid(
                    "Failed to compute number of partitions for all repartition topics. There may be loops "
                    "in the topology that cannot be resolved."
                )
            yield
        yield
    return counts


class _Copartitioned:
    """Gives the repartition topics of a copartition group the partition count of its other topics.

    `fixed` are the repartition topics whose count is stated, `flexible` the others, of all subtopologies.
    """

    def __init__(self, counts: _Counts, fixed: Mapping[str, int], flexible: Collection[str]) -> None:
        self._counts, self._fixed, self._flexible = counts, fixed, flexible
        self._fixed_counts = set(fixed.values())

    @classmethod
    def of(cls, subtopologies: Sequence[Subtopology], counts: _Counts) -> "Steps[_Copartitioned]":
        fixed, flexible = {}, set()
        for subtopology in subtopologies:
            for topic in subtopology.repartition_source_topics:
                if topic.partitions:
                    fixed[topic.name] = counts.of(topic.name)
                else:
                    flexible.add(topic.name)
                yield
            yield
        return cls(counts, fixed, flexible)

    def enforce(self, subtopology: Subtopology, group: CopartitionGroup) -> Steps[None]:
        """Raises _NotConfiguredError if the counts cannot be the same."""
        repartition: dict[str, int] = {}
        others: dict[str, int] = {}
        for name in _group_names(subtopology, group):
            is_repartition = name in self._fixed or name in self._flexible
            (repartition if is_repartition else others)[name] = self._counts.of(name)
            yield
        if others:
            count = yield from _same_count(others)
        elif not repartition:
            return
        elif self._fixed:
            # As in Kafka, also those of other groups.
            if len(self._fixed_counts) > 1:
                raise (yield from _different_counts(repartition))
            count = next(iter(self._fixed_counts))
        else:
            count = max(repartition.values())
        wrong = set()
        for name, before in repartition.items():
            self._counts.decided[name] = count
            if before != count and name in self._fixed:
                wrong.add(name)
            yield
        if wrong:
            all_names = yield from hash_map_order(_group_names(subtopology, group))
            in_order = yield from hash_map_order(name for name in all_names if name in repartition)
            first = next(name for name in in_order if name in wrong)
            raise _NotConfiguredError(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{repartition[first]}] of repartition topic [{first}] doesn't match "
                f"number of partitions [{count}] of the source topic.",
            )


def _group_names(subtopology: Subtopology, group: CopartitionGroup) -> Iterator[str]:
    for index in group.source_topics:
        yield subtopology.source_topics[index]
    for index in group.repartition_source_topics:
        yield subtopology.repartition_source_topics[index].name


def _same_count(counts: Mapping[str, int]) -> Steps[int]:
    if len(set(counts.values())) > 1:
        raise (yield from _different_counts(counts))
    return next(iter(counts.values()))


def _different_counts(counts: Mapping[str, int]) -> Steps[_NotConfiguredError]:
    names = yield from sorted_as_java(counts)
    shown = ", ".join(f"{name}={counts[name]}" for name in names)
    return _NotConfiguredError(
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        f"Following topics do not have the same number of partitions: [{{{shown}}}]",
    )


def _configure_subtopology(subtopology: Subtopology, counts: _Counts) -> Steps[ConfiguredSubtopology]:
    return ConfiguredSubtopology(
        (yield from counts.most(source_names(subtopology))),
        (yield from _sorted_names(subtopology.source_topics)),
        (yield from _decided(subtopology.repartition_source_topics, counts)),
        (yield from _sorted_names(subtopology.repartition_sink_topics)),
        (yield from _decided(subtopology.state_changelog_topics, counts)),
    )


def _sorted_names(names: Iterable[str]) -> Steps[tuple[str, ...]]:
    distinct = set()
    for name in names:
        distinct.add(name)
        yield
    return tuple((yield from sorted_in_steps(distinct)))


def _decided(topics: Iterable[TopicInfo], counts: _Counts) -> Steps[dict[str, TopicInfo]]:
    found = {}
    for topic in topics:
        count = topic.partitions or counts.decided[topic.name]
        found[topic.name] = topic if count == topic.partitions else replace(topic, partitions=count)
        yield
    return found


def _missing_topics(
    subtopologies: Sequence[Subtopology], configured: Mapping[str, ConfiguredSubtopology], topics: Topics
) -> Steps[dict[str, TopicInfo]]:
    """Return the internal topics that do not exist, in Kafka's order.

    Raises _NotConfiguredError if one exists with another number of partitions.
    """
    missing: dict[str, TopicInfo] = {}
    wrong: dict[str, TopicInfo] = {}
    for subtopology in configured.values():
        for internal in (subtopology.repartition_source_topics, subtopology.state_changelog_topics):
            for name, topic in internal.items():
                missing[name] = topic
                yield
        yield
    for name in list(missing):  # not its items: ten thousand pairs at once are a piece of 5 ms
        if name in topics:
            topic = missing.pop(name)
            if topics[name].partitions != topic.partitions:
                wrong[name] = topic
        yield
    if wrong:
        names = (name for subtopology in subtopologies for name in read_names(subtopology))
        first = next(name for name in (yield from hash_map_order(names)) if name in wrong)
        raise _NotConfiguredError(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"Existing topic {first} has different number of partitions: expected {wrong[first].partitions}, "
            f"found {topics[first].partitions}",
        )
    if not missing:
        return {}
    names_in_order: list[str] = []
    for subtopology in configured.values():
        for internal in (subtopology.repartition_source_topics, subtopology.state_changelog_topics):
            names_in_order += yield from hash_map_order(internal)
    found = {}
    for name in (yield from hash_map_order(names_in_order)):
        if name in missing:
            found[name] = missing[name]
        yield
    return found


class EndpointPartitions(NamedTuple):
    """The partitions of source and repartition topics that an endpoint serves, by topic, in order."""

    active: tuple[tuple[str, tuple[int, ...]], ...]
    standby: tuple[tuple[str, tuple[int, ...]], ...]


def endpoint_partitions(
    active: Mapping[str, Collection[int]],
    standby: Mapping[str, Collection[int]],
    topology: ConfiguredTopology,
    topics: Topics,
) -> Steps[EndpointPartitions]:
    """Return the partitions of a member's tasks, which are by subtopology: of its active ones, and of its
    standby and warm-up ones together.

    Kafka's heartbeat fails with UNKNOWN_SERVER_ERROR if a topic has been deleted. Here the topic is left out.
    """
    return EndpointPartitions(
        (yield from _partitions_of(active, topology, topics)),
        (yield from _partitions_of(standby, topology, topics)),
    )


def _partitions_of(
    tasks: Mapping[str, Collection[int]], topology: ConfiguredTopology, topics: Topics
) -> Steps[tuple[tuple[str, tuple[int, ...]], ...]]:
    found = []
    subtopologies = topology.subtopologies or {}
    for subtopology_id in (yield from sorted_as_java(tasks)):
        subtopology = subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        indexes = sorted(tasks[subtopology_id])
        names = {*subtopology.source_topics, *subtopology.repartition_source_topics}
        for name in (yield from sorted_in_steps(names)):
            topic = topics.get(name)
            if topic is not None:
                partitions = tuple(indexes[: bisect_left(indexes, topic.partitions)])
                if partitions:
                    found.append((name, partitions))
            yield
        yield
    return tuple(found)
