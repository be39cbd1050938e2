"""Which processes have the tasks of a group. (Kafka: currentActiveTaskToProcessId and its like in
StreamsGroup)

Used by `group` and `reconciliation`. Two members of one process never have the same task, because its state
is on one disk. A set is replaced and never modified, so that a copy costs only dictionaries.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import TypeVar

from broker.common.slices import Steps
from broker.coordinator.group.streams.tasks import NO_INDEXES, MemberTasks

Key = TypeVar("Key")


class Role(Enum):
    ACTIVE = auto()
    STANDBY = auto()
    WARMUP = auto()


class TaskOwners:
    """The tasks that members have, or still have to give up. `count` is their number, once for a process and
    role.
    """

    __slots__ = ("_active", "_by_process", "count")

    def __init__(self) -> None:
        self.count = 0
        self._active: dict[str, frozenset[int]] = {}
        self._by_process: dict[tuple[str, Role, str], frozenset[int]] = {}

    def copy(self) -> "TaskOwners":
        other = TaskOwners()
        other._active, other._by_process = dict(self._active), dict(self._by_process)
        other.count = self.count
        return other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskOwners) and self._by_process == other._by_process

    __hash__ = None  # type: ignore[assignment]

    def active(self, subtopology_id: str) -> frozenset[int]:
        """Return the active tasks of all processes."""
        return self._active.get(subtopology_id, NO_INDEXES)

    def of_process(self, process_id: str, role: Role, subtopology_id: str) -> frozenset[int]:
        """Return the tasks of one process."""
        return self._by_process.get((process_id, role, subtopology_id), NO_INDEXES)

    def add(self, process_id: str, tasks: MemberTasks) -> Steps[None]:
        for role, some in _by_role(tasks):
            for subtopology_id, indexes in some.items():
                before = self.of_process(process_id, role, subtopology_id)
                after = before.union(indexes)
                self._by_process[process_id, role, subtopology_id] = after
                self.count += len(after) - len(before)
                if role is Role.ACTIVE:
                    self._active[subtopology_id] = self.active(subtopology_id).union(indexes)
                yield

    def remove(self, process_id: str, tasks: MemberTasks) -> Steps[None]:
        for role, some in _by_role(tasks):
            for subtopology_id, indexes in some.items():
                self.count -= _discard(self._by_process, (process_id, role, subtopology_id), indexes)
                if role is Role.ACTIVE:
                    _discard(self._active, subtopology_id, indexes)
                yield


def _by_role(tasks: MemberTasks) -> tuple[tuple[Role, Mapping[str, Iterable[int]]], ...]:
    return (Role.ACTIVE, tasks.active), (Role.STANDBY, tasks.standby), (Role.WARMUP, tasks.warmup)


def _discard(sets: dict[Key, frozenset[int]], key: Key, indexes: Iterable[int]) -> int:
    """Discard what is there of the indexes, and return their number."""
    before = sets.get(key, NO_INDEXES)
    left = before.difference(indexes)
    if left:
        sets[key] = left
    else:
        sets.pop(key, None)
    return len(before) - len(left)
