"""Which share partitions of a group have a state. (Kafka: ShareGroupStatePartitionMetadataInfo)

The coordinator records what it begins before the state is initialized or deleted, and what it has completed
afterwards. After a kill in between, the next start does the rest.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from broker.groups.consumer.assignment import Assignment


class NamedPartitions(NamedTuple):
    """Partitions of one topic."""

    topic: str
    partitions: frozenset[int]


ByTopicId = Mapping[bytes, NamedPartitions]

NONE: Final[ByTopicId] = MappingProxyType({})


class StatePartitions(msgspec.Struct, frozen=True):
    """The share partitions whose states are being initialized, those that have one, and the topics whose
    states are being deleted: their names by topic id. A partition can be both initialized and initializing,
    which begins its state anew.
    """

    initializing: ByTopicId = NONE
    initialized: ByTopicId = NONE
    deleting: Mapping[bytes, str] = MappingProxyType({})

    @property
    def is_pending(self) -> bool:
        """Whether there is something to initialize or to delete."""
        return bool(self.initializing or self.deleting)

    def begin(self, added: ByTopicId) -> "StatePartitions":
        """Return the partitions with others that are being initialized."""
        return replace(self, initializing=_union(self.initializing, added))

    def completed(self, partitions: Assignment) -> "StatePartitions":
        """Return the partitions after the states of some were initialized.

        Topics that were deleted in the meantime are not among those being initialized, and stay out.
        """
        done = {
            topic_id: NamedPartitions(begun.topic, begun.partitions & partitions.get(topic_id, frozenset()))
            for topic_id, begun in self.initializing.items()
        }
        rest = _without_partitions(self.initializing, partitions)
        return replace(self, initializing=rest, initialized=_union(self.initialized, done))

    def abandoned(self, partitions: Assignment) -> "StatePartitions":
        """Return the partitions after the states of some could not be initialized."""
        return replace(self, initializing=_without_partitions(self.initializing, partitions))

    def delete(self, topic_ids: Iterable[bytes]) -> "StatePartitions":
        """Return the partitions with these topics to be deleted."""
        names = {
            topic_id: known[topic_id].topic
            for topic_id in topic_ids
            for known in (self.initialized, self.initializing)
            if topic_id in known
        }
        return StatePartitions(
            _without(self.initializing, names), _without(self.initialized, names), {**self.deleting, **names}
        )

    def deleted(self, topic_ids: Iterable[bytes]) -> "StatePartitions":
        """Return the partitions after the states of topics were deleted."""
        gone = set(topic_ids)
        rest = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in gone}
        return replace(self, deleting=rest)

    def without(self, topic_ids: Iterable[bytes]) -> "StatePartitions":
        """Return the partitions after topics were deleted; the same object if none of them is known."""
        gone = set(topic_ids)
        if gone.isdisjoint((*self.initializing, *self.initialized, *self.deleting)):
            return self
        return StatePartitions(
            _without(self.initializing, gone),
            _without(self.initialized, gone),
            {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in gone},
        )


def _union(some: ByTopicId, others: ByTopicId) -> ByTopicId:
    joined = dict(some)
    for topic_id, (topic, partitions) in others.items():
        known = joined.get(topic_id)
        if partitions:
            both = partitions if known is None else partitions | known.partitions
            joined[topic_id] = NamedPartitions(topic, both)
    return joined


def _without(some: ByTopicId, topic_ids: Iterable[bytes]) -> ByTopicId:
    gone = set(topic_ids)
    return {topic_id: named for topic_id, named in some.items() if topic_id not in gone}


def _without_partitions(some: ByTopicId, partitions: Assignment) -> ByTopicId:
    rest = {
        topic_id: NamedPartitions(named.topic, named.partitions - partitions.get(topic_id, frozenset()))
        for topic_id, named in some.items()
    }
    return {topic_id: named for topic_id, named in rest.items() if named.partitions}
