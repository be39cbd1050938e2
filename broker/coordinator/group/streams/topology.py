"""The topology of a Kafka Streams application as its members state it, and the checks of it.

A topology consists of subtopologies, each of which reads source topics. Internal topics connect them
(repartition topics: the sink of one subtopology, the source of another) or keep their state (changelogs).
(Kafka: StreamsTopology, the checks of KafkaApis and of GroupCoordinatorService)
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import SLICE, Steps
from broker.metadata.image import INTERNAL_TOPICS, name_problem


class TopicInfo(msgspec.Struct, frozen=True):
    """An internal topic. `partitions` is 0 if the coordinator shall decide it, `replication_factor` is 0 if
    it is that of the broker. `configs` are keys and values.
    """

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(msgspec.Struct, frozen=True):
    """Topics that must have the same number of partitions, as indexes of the subtopology's topics."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class Subtopology(msgspec.Struct, frozen=True):
    """A part of the topology whose tasks run independently of those of other parts."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


class Topology(msgspec.Struct, frozen=True):
    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()


def check(topology: Topology) -> Steps[None]:
    """Check a topology that a request states.

    Raises ApiError STREAMS_INVALID_TOPOLOGY, or INVALID_REQUEST for a regular expression, in the words of
    Kafka and in its order. What Kafka refuses with UNKNOWN_SERVER_ERROR when it uses the topology is refused
    here too: STREAMS_INVALID_TOPOLOGY_EPOCH or STREAMS_INVALID_TOPOLOGY in our words.
    """
    yield from _check_names(topology)
    for subtopology in topology.subtopologies:
        if subtopology.source_topic_regex:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "Regular expressions for source topics are not supported yet."
            )
        yield
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise invalid(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )
            yield
        yield
    if topology.epoch < 0:
        raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH, "Topology epoch must be non-negative.")
    seen = set()
    for subtopology in topology.subtopologies:
        if subtopology.subtopology_id in seen:
            raise invalid(f"The topology has subtopology {subtopology.subtopology_id} twice.")
        seen.add(subtopology.subtopology_id)
        yield from _check_subtopology(subtopology)


def invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def _check_names(topology: Topology) -> Steps[None]:
    prohibited: dict[str, None] = {}
    illegal: dict[str, None] = {}
    seen = set()
    for subtopology in topology.subtopologies:
        for name in _stated_names(subtopology):
            if name not in seen:
                seen.add(name)
                if name in INTERNAL_TOPICS:
                    prohibited[name] = None
                if name_problem(name) is not None:
                    illegal[name] = None
            yield
        yield
    if prohibited:
        names = ",".join(prohibited)
        raise invalid(f"Use of Kafka internal topics {names} in a Kafka Streams topology is prohibited.")
    if illegal:
        raise invalid(f"Topic names {','.join(illegal)} are not valid topic names.")


def _stated_names(subtopology: Subtopology) -> Iterator[str]:
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    for topics in (subtopology.repartition_source_topics, subtopology.state_changelog_topics):
        for topic in topics:
            yield topic.name


def _check_subtopology(subtopology: Subtopology) -> Steps[None]:
    of = f"subtopology {subtopology.subtopology_id}"
    for kind, topics in (
        ("repartition source", subtopology.repartition_source_topics),
        ("state changelog", subtopology.state_changelog_topics),
    ):
        seen = set()
        for topic in topics:
            if topic.name in seen:
                raise invalid(f"The {kind} topics of {of} have topic {topic.name} twice.")
            seen.add(topic.name)
            if topic.partitions < 0:
                raise invalid(f"The partition count of {kind} topic {topic.name} is {topic.partitions}.")
            keys = set()
            for key, _ in topic.configs:
                if key in keys:
                    raise invalid(f"The configs of {kind} topic {topic.name} have key {key} twice.")
                keys.add(key)
                yield
            yield
    sources, repartition = len(subtopology.source_topics), len(subtopology.repartition_source_topics)
    for group in subtopology.copartition_groups:
        for indexes, count in (
            (group.source_topics, sources),
            (group.repartition_source_topics, repartition),
            (group.source_topic_regex, 0),
        ):
            for index in indexes:
                if not 0 <= index < count:
                    raise invalid(
                        f"A copartition group of {of} has index {index} of a list with {count} elements."
                    )
                yield
        yield


def is_same(one: Topology, other: Topology) -> Steps[bool]:
    """Return whether the topologies are the same, with their subtopologies in any order."""
    if one.epoch != other.epoch or len(one.subtopologies) != len(other.subtopologies):
        return False
    by_id = {}
    for each in one.subtopologies:
        by_id[each.subtopology_id] = each
        yield
    in_order = []
    for each in other.subtopologies:
        found = by_id.pop(each.subtopology_id, None)
        if found is None:
            return False
        in_order.append(found)
        yield
    return (yield from _are_same(in_order, other.subtopologies))


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> Steps[bool]:
    """Return whether the elements are the same. One may have thousands of names."""
    if len(some) != len(others):
        return False
    if not some or not isinstance(some[0], msgspec.Struct):
        for at in range(0, len(some), SLICE):
            if some[at : at + SLICE] != others[at : at + SLICE]:
                return False
            yield
        return True
    for one, other in zip(some, others, strict=True):
        for name in one.__struct_fields__:
            mine, its = getattr(one, name), getattr(other, name)
            same = (yield from _are_same(mine, its)) if isinstance(mine, tuple) else mine == its
            if not same:
                return False
        yield
    return True


def required_topics(topology: Topology) -> Steps[frozenset[str]]:
    """Return the names of all topics that the application reads, internal ones included. A change of one of
    them changes the configured topology. (Kafka: StreamsTopology.requiredTopics)
    """
    found = set()
    for subtopology in topology.subtopologies:
        for name in read_names(subtopology):
            found.add(name)
            yield
        yield
    return frozenset(found)


def read_names(subtopology: Subtopology) -> Iterator[str]:
    """Yield the names of the source, repartition and changelog topics that a subtopology reads."""
    yield from source_names(subtopology)
    for topic in subtopology.state_changelog_topics:
        yield topic.name


def source_names(subtopology: Subtopology) -> Iterator[str]:
    """Yield the names of the topics whose partitions are the tasks' input."""
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


def weights(topology: Topology) -> Iterator[int]:
    """Yield, in parts, the number of subtopologies, names, configs and copartitioned topics. A list is
    counted before its elements are gone through, so that a caller can stop early.
    """
    yield len(topology.subtopologies)
    for subtopology in topology.subtopologies:
        yield len(subtopology.source_topics)
        yield len(subtopology.source_topic_regex)
        yield len(subtopology.repartition_sink_topics)
        for topics in (subtopology.state_changelog_topics, subtopology.repartition_source_topics):
            yield len(topics)
            for topic in topics:
                yield len(topic.configs)
        yield len(subtopology.copartition_groups)
        for group in subtopology.copartition_groups:
            yield len(group.source_topics)
            yield len(group.source_topic_regex)
            yield len(group.repartition_source_topics)


_ENTRY_BYTES: Final = 16
"""Counted for each string and index beside its characters; ours. It bounds a topology of empty elements."""


def size_of(topology: Topology) -> Steps[int]:
    """Return the bytes that a topology counts for a limit: those of its strings, and 16 for each element."""
    size = _ENTRY_BYTES
    for subtopology in topology.subtopologies:
        size += _text_bytes(subtopology.subtopology_id)
        for names in (
            subtopology.source_topics,
            subtopology.source_topic_regex,
            subtopology.repartition_sink_topics,
        ):
            for name in names:
                size += _text_bytes(name)
                yield
        for topics in (subtopology.state_changelog_topics, subtopology.repartition_source_topics):
            for topic in topics:
                size += _text_bytes(topic.name)
                for key, value in topic.configs:
                    size += _text_bytes(key) + _text_bytes(value)
                    yield
                yield
        for group in subtopology.copartition_groups:
            size += _ENTRY_BYTES * (
                1
                + len(group.source_topics)
                + len(group.source_topic_regex)
                + len(group.repartition_source_topics)
            )
            yield
        yield
    return size


def _text_bytes(text: str) -> int:
    return _ENTRY_BYTES + len(text.encode())
