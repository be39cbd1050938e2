"""A member's next step towards its target assignment. (Kafka: CurrentAssignmentBuilder)

Called by `heartbeat`. A task is revoked before another member receives it, and a process never has a task
twice: a member waits for an active task until no member has it, and for a standby or warm-up task until no
other member of its process has it. A task that only changes its role stays with its member.
"""

from collections.abc import Mapping
from typing import NamedTuple

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps, freed
from broker.coordinator.group.streams.assignor import TaskSets
from broker.coordinator.group.streams.member import MemberState, StreamsMember
from broker.coordinator.group.streams.owners import Role, TaskOwners
from broker.coordinator.group.streams.tasks import NO_INDEXES, MemberTasks, overlap

Indexes = frozenset[int]

NO_PARTITION_EPOCHS: Mapping[int, int] = {}


def reconciled(
    member: StreamsMember,
    target_epoch: int,
    target: TaskSets,
    owners: TaskOwners,
    owned: TaskSets | None,
) -> Steps[StreamsMember]:
    """Return the member in its next state, or the same one if it cannot move on.

    `owned` are the tasks that it reports, None if it reports none with this heartbeat. Raises ApiError
    FENCED_MEMBER_EPOCH if a later version of the broker has stored its state.
    """
    epoch = member.epoch
    match member.state:
        case MemberState.STABLE:
            if epoch == target_epoch:
                return member
        case MemberState.UNREVOKED_TASKS:
            if owned is None or overlap(owned, member.revoking):
                return member
            epoch += 1
        case MemberState.UNRELEASED_TASKS:
            pass
        case MemberState.UNKNOWN:
            if owned is None or owned.active or owned.standby or owned.warmup:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The streams group member is in a unknown state. The member must abandon all its tasks "
                    "and rejoin.",
                )
            epoch = target_epoch
    return (yield from _next(member, epoch, target_epoch, target, owners, owned))


class _Part(NamedTuple):
    """The tasks of one subtopology: which the member keeps, gives up and receives by role; `waits` if it does
    not receive all of its target yet.
    """

    kept: tuple[Mapping[int, int], Indexes, Indexes]
    revoked: tuple[Mapping[int, int], Indexes, Indexes]
    granted: tuple[Indexes, Indexes, Indexes]
    promoted: tuple[Indexes, Indexes]
    """The standby and warm-up tasks that the member has, and that become active."""
    waits: bool


def _next(
    member: StreamsMember,
    epoch: int,
    target_epoch: int,
    target: TaskSets,
    owners: TaskOwners,
    owned: TaskSets | None,
) -> Steps[StreamsMember]:
    """Revoke first; with nothing to revoke, move to the target's epoch with what is free.

    `epoch` is kept while it revokes.
    """
    parts: dict[str, _Part] = {}
    had = member.assigned
    for some in (had.active, had.standby, had.warmup, target.active, target.standby, target.warmup):
        for subtopology_id in some:
            if subtopology_id not in parts:
                parts[subtopology_id] = _part(member, subtopology_id, target, owners)
                yield
    revoked = {}
    for each, part in parts.items():
        revoked[each] = part.revoked
        yield
    revoking = yield from _tasks(revoked)
    revokes = not revoking.is_empty and (owned is None or overlap(owned, revoking))
    found: dict[str, tuple[Mapping[int, int], Indexes, Indexes]] = {}
    for subtopology_id, part in parts.items():
        active, standby, warmup = part.kept
        granted = NO_INDEXES if revokes else part.granted[0]
        # A copy that becomes active stays what it is until the member may run the task.
        standby |= part.promoted[0] - granted
        warmup |= part.promoted[1] - granted
        if not revokes:
            if granted:
                active = {**active, **dict.fromkeys(granted, target_epoch)}
            standby |= part.granted[1]
            warmup |= part.granted[2]
        found[subtopology_id] = active, standby, warmup
        yield
    assigned = yield from _tasks(found)
    waits = any(part.waits for part in parts.values())
    yield from freed(revoked)
    yield from freed(found)
    yield from freed(parts)
    if revokes:
        return member.moved(MemberState.UNREVOKED_TASKS, epoch, assigned, revoking)
    state = MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE
    return member.moved(state, target_epoch, assigned)


def _part(member: StreamsMember, subtopology_id: str, target: TaskSets, owners: TaskOwners) -> _Part:
    had = member.assigned
    epochs = had.active.get(subtopology_id, NO_PARTITION_EPOCHS)
    active = frozenset(epochs)
    standby, warmup = had.standby.get(subtopology_id, NO_INDEXES), had.warmup.get(subtopology_id, NO_INDEXES)
    to_active = target.active.get(subtopology_id, NO_INDEXES)
    to_standby = target.standby.get(subtopology_id, NO_INDEXES)
    to_warmup = target.warmup.get(subtopology_id, NO_INDEXES)
    of_process = {role: owners.of_process(member.process_id, role, subtopology_id) for role in Role}
    others_standby = of_process[Role.STANDBY] - standby
    others_warmup = of_process[Role.WARMUP] - warmup

    new_active, new_standby, new_warmup = to_active - active, to_standby - standby, to_warmup - warmup
    held_active = new_active & (owners.active(subtopology_id) | others_standby | others_warmup)
    held_standby = new_standby & (
        (of_process[Role.ACTIVE] - active) | of_process[Role.STANDBY] | others_warmup
    )
    held_warmup = new_warmup & (of_process[Role.ACTIVE] | others_standby | of_process[Role.WARMUP])
    new_active, new_standby, new_warmup = (
        new_active - held_active,
        new_standby - held_standby,
        new_warmup - held_warmup,
    )
    # An active task that becomes a standby one, and a copy that changes its role, are granted at once.
    turned_standby = new_standby & (active | warmup)
    turned_warmup = new_warmup & standby
    kept = {index: epochs[index] for index in active & to_active} if active else NO_PARTITION_EPOCHS
    left = {index: epochs[index] for index in active - to_active} if active else NO_PARTITION_EPOCHS
    return _Part(
        (kept, standby & to_standby | turned_standby, warmup & to_warmup | turned_warmup),
        (
            left,
            standby - to_standby - turned_warmup - to_active,
            warmup - to_warmup - (turned_standby & warmup) - to_active,
        ),
        (new_active, new_standby - turned_standby, new_warmup - turned_warmup),
        (standby & to_active, warmup & to_active),
        bool(held_active or held_standby or held_warmup),
    )


def _tasks(by_subtopology: Mapping[str, tuple[Mapping[int, int], Indexes, Indexes]]) -> Steps[MemberTasks]:
    active: dict[str, Mapping[int, int]] = {}
    standby: dict[str, Indexes] = {}
    warmup: dict[str, Indexes] = {}
    for subtopology_id, found in by_subtopology.items():
        for tasks, some in zip((active, standby, warmup), found, strict=True):
            if some:
                tasks[subtopology_id] = some  # type: ignore[index]
        yield
    return MemberTasks(active, standby, warmup)
