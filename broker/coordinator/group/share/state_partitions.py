"""The share partitions of a group that have a state. (Kafka: ShareGroupStatePartitionMetadataInfo)

The coordinator records what it begins before the state is initialized or deleted, and what it has completed
afterwards. After a kill in between, the next start does the rest.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from broker.common.slices import Steps
from broker.coordinator.group.consumer.assignment import Assignment

Kept = TypeVar("Kept")

NO_INDEXES: Final[frozenset[int]] = frozenset()


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

    @property
    def known(self) -> tuple[ByTopicId, ByTopicId]:
        """The partitions with a state, or one that is being initialized."""
        return self.initialized, self.initializing

    def begin(self, added: ByTopicId) -> Steps["StatePartitions"]:
        """Return the partitions with others that are being initialized."""
        return replace(self, initializing=(yield from _union(self.initializing, added)))

    def completed(self, partitions: Assignment, failed: Assignment) -> Steps["StatePartitions"]:
        """Return the partitions after the states of some were initialized, and those of others could not be.

        Topics that were deleted in the meantime are not among those being initialized, and stay out.
        """
        done: dict[bytes, NamedPartitions] = {}
        rest: dict[bytes, NamedPartitions] = {}
        for topic_id, (topic, begun) in self.initializing.items():
            initialized = begun & partitions.get(topic_id, NO_INDEXES)
            left = begun - initialized - failed.get(topic_id, NO_INDEXES)
            if initialized:
                done[topic_id] = NamedPartitions(topic, initialized)
            if left:
                rest[topic_id] = NamedPartitions(topic, left)
            yield
        initialized_now = yield from _union(self.initialized, done)
        return replace(self, initializing=rest, initialized=initialized_now)

    def delete(self, topic_ids: Iterable[bytes]) -> Steps["StatePartitions"]:
        """Return the partitions with these topics to be deleted."""
        names: dict[bytes, str] = {}
        for topic_id in topic_ids:
            names.update((topic_id, known[topic_id].topic) for known in self.known if topic_id in known)
            yield
        return StatePartitions(
            (yield from _without(self.initializing, names)),
            (yield from _without(self.initialized, names)),
            {**self.deleting, **names},
        )

    def deleted(self, topic_ids: Iterable[bytes]) -> Steps["StatePartitions"]:
        """Return the partitions after the states of topics were deleted."""
        return replace(self, deleting=(yield from _without(self.deleting, set(topic_ids))))

    def has_any(self, topic_ids: Collection[bytes]) -> bool:
        """Return whether one of the topics has states, or some that are being initialized or deleted."""
        known = (self.initializing, self.initialized, self.deleting)
        return any(topic_id in some for some in known for topic_id in topic_ids)

    def without(self, topic_ids: Iterable[bytes]) -> Steps["StatePartitions"]:
        """Return the partitions after topics were deleted."""
        gone = set(topic_ids)
        return StatePartitions(
            (yield from _without(self.initializing, gone)),
            (yield from _without(self.initialized, gone)),
            (yield from _without(self.deleting, gone)),
        )


def _union(some: ByTopicId, others: ByTopicId) -> Steps[ByTopicId]:
    joined = dict(some)
    for topic_id, (topic, partitions) in others.items():
        known = joined.get(topic_id)
        if partitions:
            both = partitions if known is None else partitions | known.partitions
            joined[topic_id] = NamedPartitions(topic, both)
        yield
    return joined


def _without(some: Mapping[bytes, Kept], topic_ids: Container[bytes]) -> Steps[dict[bytes, Kept]]:
    rest = {}
    for topic_id, kept in some.items():
        if topic_id not in topic_ids:
            rest[topic_id] = kept
        yield
    return rest
