"""The epochs in which a member received its partitions: a commit of an offset may state any epoch since then.
(KIP-1251)

Nothing here is ever modified.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker.common.slices import Steps
from broker.coordinator.group.consumer.assignment import Assignment

Epochs = int | Mapping[int, int]
"""Of the partitions of one topic: that of all of them, or different ones by partition."""

AssignmentEpochs = Mapping[bytes, Epochs]
"""By topic id, of exactly the partitions that a member has."""

NO_EPOCHS: Final[AssignmentEpochs] = MappingProxyType({})


def same_epoch(assignment: Assignment, epoch: int) -> Steps[AssignmentEpochs]:
    """Return the epochs of partitions that a member has received together."""
    found: dict[bytes, Epochs] = {}
    for topic_id in assignment:
        found[topic_id] = epoch
        yield
    return found


def kept_epochs(epochs: AssignmentEpochs, kept: Assignment) -> Steps[dict[bytes, Epochs]]:
    """Return the epochs of those partitions that the member keeps."""
    found: dict[bytes, Epochs] = {}
    for topic_id, partitions in kept.items():
        known = epochs[topic_id]
        found[topic_id] = known if isinstance(known, int) else of_topic({at: known[at] for at in partitions})
        yield
    return found


def with_granted(known: Epochs, kept: frozenset[int], granted: frozenset[int], epoch: int) -> Epochs:
    """Return the epochs of one topic of which a member keeps some partitions and receives others."""
    if not kept or known == epoch:
        return epoch
    by_partition = dict.fromkeys(kept, known) if isinstance(known, int) else {**known}
    by_partition.update(dict.fromkeys(granted, epoch))
    return by_partition


def of_topic(by_partition: Mapping[int, int]) -> Epochs:
    """Return the epochs of a topic, which has a partition: as one number if they are the same."""
    epochs = set(by_partition.values())
    return epochs.pop() if len(epochs) == 1 else by_partition


def epoch_of(epochs: AssignmentEpochs, topic_id: bytes, partition: int) -> int:
    """Return the epoch of a partition that the member has."""
    known = epochs[topic_id]
    return known if isinstance(known, int) else known[partition]
