"""The tasks that a member of a streams group has: active ones with the epoch of their assignment, standby and
warm-up ones. (Kafka: TasksTupleWithEpochs)

Used by `member`, `records` and `reconciliation`. Nothing here is ever modified.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from broker.common.slices import Steps
from broker.coordinator.group.streams.assignor import NO_TASKS, Tasks, TaskSets

NO_INDEXES: Final[frozenset[int]] = frozenset()

Epochs = Mapping[str, Mapping[int, int]]
"""The epochs in which active tasks were assigned, by subtopology and partition, without empty mappings."""

NO_EPOCHS: Final[Epochs] = MappingProxyType({})


class MemberTasks(msgspec.Struct, frozen=True):
    """The tasks of a member, by subtopology, without empty sets."""

    active: Epochs = NO_EPOCHS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def sets(self) -> Steps[TaskSets]:
        """Return the tasks without the epochs."""
        active = {}
        for subtopology_id, epochs in self.active.items():
            active[subtopology_id] = frozenset(epochs)
            yield
        return TaskSets(active, self.standby, self.warmup)

    def without_epochs(self) -> Steps["MemberTasks"]:
        """Return the tasks with epoch 0 for each active one."""
        active = {}
        for subtopology_id, epochs in self.active.items():
            active[subtopology_id] = dict.fromkeys(epochs, 0)
            yield
        return MemberTasks(active, self.standby, self.warmup)


NO_MEMBER_TASKS: Final = MemberTasks()


def overlap(owned: TaskSets, tasks: MemberTasks) -> bool:
    """Return whether a task is in both, with the same role."""
    return (
        any(
            not owned.active.get(each, NO_INDEXES).isdisjoint(epochs) for each, epochs in tasks.active.items()
        )
        or _overlap(owned.standby, tasks.standby)
        or _overlap(owned.warmup, tasks.warmup)
    )


def is_subset(owned: TaskSets, tasks: MemberTasks) -> bool:
    """Return whether the member has all of these tasks, with the same roles."""
    return (
        all(
            each in tasks.active and indexes <= tasks.active[each].keys()
            for each, indexes in owned.active.items()
        )
        and _is_subset(owned.standby, tasks.standby)
        and _is_subset(owned.warmup, tasks.warmup)
    )


def _overlap(some: Tasks, others: Tasks) -> bool:
    return any(not indexes.isdisjoint(others.get(each, NO_INDEXES)) for each, indexes in some.items())


def _is_subset(some: Tasks, of: Tasks) -> bool:
    return all(each in of and indexes <= of[each] for each, indexes in some.items())
