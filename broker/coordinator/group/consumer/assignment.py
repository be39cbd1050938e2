"""Sets of partitions by topic id, the topics that they are of, and members as an assignor sees them."""

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from broker.common.slices import Steps, sorted_in_steps

Assignment = Mapping[bytes, frozenset[int]]
"""The partitions by topic id of 16 bytes, without empty sets. It is never modified."""

NO_PARTITIONS: Final[Assignment] = MappingProxyType({})


class TopicFacts(Protocol):
    """The properties of a topic that an assignment depends on."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> int: ...


Topics = Mapping[str, TopicFacts]
"""All topics by name. The mapping is replaced when a topic changes, and never modified."""


class ClusterTopics(NamedTuple):
    """The topics of the cluster at one moment. `version` is that of the metadata."""

    by_name: Topics
    version: int


NO_TOPICS: Final = ClusterTopics({}, 0)

_HASH: Final = struct.Struct(">q")
_FACTS: Final = struct.Struct(">16si")


def metadata_hash(subscribed: Collection[str], topics: Topics) -> Steps[int]:
    """Return a hash of what a group's assignment depends on: its topics, their ids and partitions; 0 without
    any topic, as a new group has it.
    """
    digest, is_empty = blake2b(digest_size=_HASH.size), True
    for name in (yield from sorted_in_steps(subscribed)):
        topic = topics.get(name)
        if topic is not None:
            digest.update(_FACTS.pack(topic.topic_id, topic.partitions))
            is_empty = False
        yield
    return 0 if is_empty else int(_HASH.unpack(digest.digest())[0])


def subscribed_names(names: Collection[str], topics: Topics) -> Steps[tuple[str, ...]]:
    """Return the names sorted, each once. Those of topics are the strings that the topics have."""
    distinct = set()
    for name in names:
        topic = topics.get(name)
        distinct.add(name if topic is None else topic.name)
        yield
    return tuple((yield from sorted_in_steps(distinct)))


def topic_ids(names: Collection[str], topics: Topics) -> Steps[frozenset[bytes]]:
    """Return the ids of the topics that exist."""
    found = []
    for name in names:
        topic = topics.get(name)
        if topic is not None:
            found.append(topic.topic_id)
        yield
    return frozenset(found)


def pairs(assignment: Assignment) -> Iterator[tuple[bytes, int]]:
    """Yield each partition as (topic id, index)."""
    for topic_id, partitions in assignment.items():
        for partition in partitions:
            yield topic_id, partition


def is_subset(some: Assignment, of: Assignment) -> bool:
    return all(partitions <= of.get(topic_id, frozenset()) for topic_id, partitions in some.items())


def overlap(some: Assignment, others: Assignment) -> bool:
    """Return whether the assignments have a partition in common."""
    return any(not partitions.isdisjoint(others.get(topic_id, ())) for topic_id, partitions in some.items())


Assigned = dict[str, dict[bytes, frozenset[int]]]
"""The partitions of each member, by topic id."""


class Subscriber(NamedTuple):
    """`topics` are the ids of the existing topics that it subscribes to; `assigned` is its target so far.

    Members with the same topics have the same set, or a set per subscription.
    """

    instance_id: str | None
    topics: frozenset[bytes]
    assigned: Assignment


def by_topic(partitions: Iterable[tuple[bytes, int]]) -> Steps[dict[bytes, frozenset[int]]]:
    """Return the partitions by topic."""
    indexes: dict[bytes, list[int]] = {}
    for topic_id, index in partitions:
        indexes.setdefault(topic_id, []).append(index)
        yield
    found = {}
    for topic_id, some in indexes.items():
        found[topic_id] = frozenset(some)
        yield
    return found


def have_same_topics(subscribers: Iterable[Subscriber]) -> Steps[bool]:
    """Return whether all subscribe to the same topics."""
    first: frozenset[bytes] | None = None
    for subscriber in subscribers:
        if first is None:
            first = subscriber.topics
        elif subscriber.topics is not first:
            yield
            if subscriber.topics != first:
                return False
    return True
