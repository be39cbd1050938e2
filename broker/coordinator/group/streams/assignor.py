"""The assignor of streams groups: which tasks each member runs, actively or as a standby.
(Kafka: StickyTaskAssignor, ProcessState)

Called when a group begins an epoch. A task stays with the member that runs it up to the member's share; then
it goes to a member that has its state, and otherwise to the process with the least load. Standbys of a task
are in other processes than the task. The result is that of Kafka for the same input, also where it depends
on the orders of Java's collections.

As in Kafka 4.4, no task warms up: what its AssignmentRefiner returns is its input. Racks, client tags and end
offsets are not considered.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from broker.common.slices import SLICE, Steps, sorted_in_steps
from broker.coordinator.group.streams.configured import ConfiguredSubtopology, ConfiguredTopology
from broker.coordinator.group.streams.java_order import (
    LoadQueue,
    computed_order,
    hash_map_order,
    sorted_as_java,
)

Tasks = Mapping[str, frozenset[int]]
"""The partitions by subtopology id, without empty sets. It is never modified."""

NO_TASKS: Final[Tasks] = MappingProxyType({})

TaskOffsets = Mapping[str, Mapping[int, int]]
"""The sum of changelog offsets of each task, by subtopology id and partition."""

NO_OFFSETS: Final[TaskOffsets] = MappingProxyType({})


class TaskSets(msgspec.Struct, frozen=True):
    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS


NOTHING: Final = TaskSets()


class TaskMember(msgspec.Struct, frozen=True):
    """A member as the assignor sees it. `assigned` are its current tasks, `task_offsets` those that it has
    reported of the state on its disk.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    process_id: str = ""
    client_tags: Mapping[str, str] = MappingProxyType({})
    assigned: TaskSets = NOTHING
    task_offsets: TaskOffsets = NO_OFFSETS
    task_end_offsets: TaskOffsets = NO_OFFSETS


def assign(
    members: Mapping[str, TaskMember], topology: ConfiguredTopology, standby_replicas: int
) -> Steps[dict[str, TaskSets]]:
    """Return the tasks of each member, by member id. They have none while the topology is not ready.

    The order of `members` matters only to ids whose hashes collide, as in Kafka.
    """
    if not members or not topology.is_ready or topology.subtopologies is None:
        return dict.fromkeys(members, NOTHING)
    assignment = _Assignment(standby_replicas)
    yield from assignment.add_tasks(topology.subtopologies)
    yield from assignment.add_members(members)
    yield from assignment.assign_active()
    if standby_replicas > 0:
        yield from assignment.assign_standbys()
    return (yield from assignment.result(members))


class _Process:
    """The members that run in one process. `load` is its number of tasks per member."""

    __slots__ = ("count", "load", "members", "queue", "tasks")

    def __init__(self) -> None:
        self.members: list[_Member] = []
        self.tasks: set[int] = set()
        self.count = 0
        self.load = 0.0
        self.queue: LoadQueue[_Member] | None = None

    def add(self, member: "_Member", task: int, is_active: bool) -> None:
        (member.active if is_active else member.standby).append(task)
        member.load += 1
        self.tasks.add(task)
        self.count += 1
        self.load = self.count / len(self.members)

    def least_loaded(self) -> "Steps[_Member]":
        """Return the member with the fewest tasks, which must be given one with `return_member` next."""
        if len(self.members) == 1:
            return self.members[0]
        if self.queue is None:
            self.queue = LoadQueue()
            for member in self.members:
                self.queue.add(member)
                yield
        return self.queue.poll()

    def return_member(self, member: "_Member") -> None:
        if self.queue is not None:
            self.queue.add(member)


class _Member:
    """`load` is its number of tasks."""

    __slots__ = ("active", "load", "process", "standby")

    def __init__(self, process: _Process) -> None:
        self.process = process
        self.active: list[int] = []
        self.standby: list[int] = []
        self.load: float = 0


class _Share:
    """The number of tasks that a member takes before the rest is divided among the others."""

    __slots__ = ("_members", "_tasks", "per_member")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.per_member = -(-tasks // members)

    def update(self, count: float) -> None:
        """Note that a member has so many tasks now."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= self.per_member
            self.per_member = -(-self._tasks // self._members) if self._members else 0


class _Assignment:
    """One run of the assignor. Tasks are numbered by subtopology and partition."""

    def __init__(self, standby_replicas: int) -> None:
        self._replicas = standby_replicas
        self._tasks: list[tuple[str, int]] = []
        self._first: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._stateful: set[str] = set()
        self._by_partition: list[int] = []
        self._members: dict[str, _Member] = {}
        self._processes: list[_Process] = []
        self._before: dict[int, _Member] = {}
        self._with_state: dict[int, list[_Member]] = {}
        self._active_share = self._total_share = _Share(0, 1)

    # What there is

    def add_tasks(self, subtopologies: Mapping[str, ConfiguredSubtopology]) -> Steps[None]:
        for subtopology_id in (yield from sorted_as_java(subtopologies)):
            subtopology = subtopologies[subtopology_id]
            self._first[subtopology_id] = len(self._tasks)
            self._counts[subtopology_id] = subtopology.number_of_tasks
            if subtopology.is_stateful:
                self._stateful.add(subtopology_id)
            for partition in range(subtopology.number_of_tasks):
                self._tasks.append((subtopology_id, partition))
                yield
            yield
        rest = [(self._first[each], count) for each, count in self._counts.items()]
        partition = 0
        while rest:
            for first, _ in rest:
                self._by_partition.append(first + partition)
                yield
            partition += 1
            rest = [each for each in rest if each[1] > partition]

    def add_members(self, members: Mapping[str, TaskMember]) -> Steps[None]:
        order = yield from hash_map_order(members)
        processes: dict[str, list[str]] = {}
        for member_id in order:
            processes.setdefault(members[member_id].process_id, []).append(member_id)
            yield
        of_members = (members[member_id].process_id for member_id in order)
        for process_id in (yield from computed_order(of_members, len(members))):
            process = _Process()
            self._processes.append(process)
            for member_id in (yield from hash_map_order(processes[process_id])):
                self._members[member_id] = member = _Member(process)
                process.members.append(member)
                yield
        for member_id in order:
            for task in self._existing(members[member_id].assigned.active):
                if task is not None:
                    self._before[task] = self._members[member_id]
                yield
        yield from self._rank_candidates(members, order)

    def _existing(self, tasks: Tasks) -> Iterator[int | None]:
        """Yield the numbers of the tasks, None for one that does not exist."""
        for subtopology_id, partitions in tasks.items():
            first, count = self._first.get(subtopology_id, 0), self._counts.get(subtopology_id, 0)
            for partition in partitions:
                yield first + partition if 0 <= partition < count else None

    def _rank_candidates(self, members: Mapping[str, TaskMember], order: list[str]) -> Steps[None]:
        """List the members that have the state of a task: those that are its standbys, then those that have
        reported offsets of it, the highest first.
        """
        candidates: dict[int, list[tuple[int, int, int]]] = {}
        for number, member_id in enumerate(order):
            member = members[member_id]
            offsets, standby = member.task_offsets, member.assigned.standby
            for subtopology_id, partitions in standby.items():
                known = offsets.get(subtopology_id, {})
                for task in self._existing({subtopology_id: partitions}):
                    if task is not None:
                        offset = known.get(self._tasks[task][1], 0)
                        candidates.setdefault(task, []).append((0, -offset, number))
                    yield
            for subtopology_id, by_partition in offsets.items():
                first, count = self._first.get(subtopology_id, 0), self._counts.get(subtopology_id, 0)
                own = standby.get(subtopology_id, frozenset())
                for at, (partition, offset) in enumerate(by_partition.items(), 1):
                    if 0 <= partition < count and partition not in own:
                        candidates.setdefault(first + partition, []).append((1, -offset, number))
                    if at % SLICE == 0:
                        yield
                yield
        ranked = [self._members[member_id] for member_id in order]
        while candidates:
            task, some = candidates.popitem()
            self._with_state[task] = [ranked[each[2]] for each in (yield from sorted_in_steps(some))]
            yield

    # Active tasks

    def assign_active(self) -> Steps[None]:
        total = len(self._tasks)
        stateful = sum(self._counts[each] for each in self._stateful)
        self._active_share = _Share(total, len(self._members))
        self._total_share = _Share(total + stateful * self._replicas, len(self._members))
        moved = []
        for task in self._by_partition:
            member = self._before.get(task)
            if member is None or not self._takes(member, task):
                moved.append(task)
            yield
        left = set()
        for task in moved:
            member = yield from self._least_loaded_with_state(task, is_standby=False)
            if member is None or not self._takes(member, task):
                left.add(task)
            yield
        queue = yield from self._process_queue()
        for task in range(total):
            if task in left:
                process = queue.poll()
                yield from self._give_to_least_loaded(process, task, is_active=True)
                queue.add(process)
            yield

    def _takes(self, member: _Member, task: int) -> bool:
        """Give the member an active task if it has fewer tasks than its share. Return whether it has it."""
        if member.load >= self._active_share.per_member:
            return False
        self._give(member, task, is_active=True)
        return True

    def _give(self, member: _Member, task: int, is_active: bool) -> None:
        member.process.queue = None
        member.process.add(member, task, is_active)
        self._note(member, is_active)

    def _note(self, member: _Member, is_active: bool) -> None:
        if is_active:
            self._active_share.update(member.load)
        self._total_share.update(member.load)

    def _give_to_least_loaded(self, process: _Process, task: int, is_active: bool) -> Steps[None]:
        member = yield from process.least_loaded()
        process.add(member, task, is_active)
        process.return_member(member)
        self._note(member, is_active)

    def _process_queue(self) -> Steps[LoadQueue[_Process]]:
        queue: LoadQueue[_Process] = LoadQueue()
        for process in self._processes:
            queue.add(process)
            yield
        return queue

    def _least_loaded_with_state(self, task: int, is_standby: bool) -> Steps[_Member | None]:
        """Return the first member with the task's state; a later one if both its load and that of its process
        are lower. A standby is not in a process that has the task.
        """
        found: _Member | None = None
        for number, member in enumerate(self._with_state.get(task, ()), 1):
            process = member.process
            if not (is_standby and task in process.tasks) and (
                found is None or (process.load < found.process.load and member.load < found.load)
            ):
                found = member
            if number % SLICE == 0:
                yield
        return found

    # Standbys

    def assign_standbys(self) -> Steps[None]:
        missing: dict[int, int] = {}
        for task in reversed(self._by_partition):
            if self._tasks[task][0] in self._stateful:
                replicas = 0
                while replicas < self._replicas and (yield from self._has_old_standby(task)):
                    replicas += 1
                    yield
                missing[task] = self._replicas - replicas
            yield
        queue = yield from self._process_queue()
        for task in reversed(range(len(self._tasks))):
            for _ in range(missing.get(task, 0)):
                if not (yield from self._add_standby(queue, task)):
                    break
                yield
            yield

    def _has_old_standby(self, task: int) -> Steps[bool]:
        """Give a standby to the member that ran the task, or to one that has its state, up to its share.
        Return whether one has got it.
        """
        member = self._before.get(task)
        if member is None or task in member.process.tasks or not self._has_room(member):
            member = yield from self._least_loaded_with_state(task, is_standby=True)
            if member is None or not self._has_room(member):
                return False
        self._give(member, task, is_active=False)
        return True

    def _has_room(self, member: _Member) -> bool:
        return member.load < self._total_share.per_member

    def _add_standby(self, queue: LoadQueue[_Process], task: int) -> Steps[bool]:
        """Give a standby to the process with the least load that does not have the task. Return whether
        there is one.
        """
        passed = []
        found = False
        while len(queue) and not found:
            process = queue.poll()
            if task not in process.tasks:
                yield from self._give_to_least_loaded(process, task, is_active=False)
                found = True
            passed.append(process)
            yield
        for process in reversed(passed):
            queue.add(process)
            yield
        return found

    def result(self, members: Mapping[str, TaskMember]) -> Steps[dict[str, TaskSets]]:
        found = {}
        for member_id in members:
            member = self._members[member_id]
            active = yield from self._by_subtopology(member.active)
            standby = yield from self._by_subtopology(member.standby)
            found[member_id] = TaskSets(active, standby)
            yield
        return found

    def _by_subtopology(self, tasks: list[int]) -> Steps[Tasks]:
        by_id: dict[str, list[int]] = {}
        for task in tasks:
            subtopology_id, partition = self._tasks[task]
            by_id.setdefault(subtopology_id, []).append(partition)
            yield
        found = {}
        while by_id:  # freed one by one
            subtopology_id, some = by_id.popitem()
            found[subtopology_id] = frozenset(some)
            yield
        return found
