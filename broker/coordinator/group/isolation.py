"""Changes of large groups, which pause: other requests are served in between.

A change is made in a copy that no other request sees. At the end the group takes it over in one step; if
another request has changed the group meanwhile, the change begins anew. So a call that fails, is dropped with
its client or ends with the broker has changed nothing.

Used by `groups`. (Kafka has a thread for all changes of a group, which no client waits for)
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol, TypeVar

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.coordinator.group.any_group import AnyGroup, GroupsById
from broker.coordinator.group.consumer.assignment import Topics
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.group import ClassicGroup
from broker.coordinator.group.modern_group import ModernGroup
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.timers import LaterTimers, SetsTimers, Timers
from broker.coordinator.group.transition import Transition

SMALL: Final = 512
"""Members, topics and partitions of a group whose changes need no pause, in all; ours."""

METADATA_AT_ONCE: Final = 4_096
"""Bytes of members' metadata and assignments that are read in one piece; ours."""

TRIES: Final = 8
"""Times that a change is made before it is refused. Only a group's own members can undo it."""

Result = TypeVar("Result")
Returned = TypeVar("Returned", covariant=True)

Begin = Callable[[SetsTimers], Transition]


class GroupChange(Protocol[Returned]):
    """Changes a group in `groups`, which has no other, or creates it. Raises ApiError. A classic group is not
    a copy: it may be replaced, but not changed.
    """

    def __call__(self, transition: Transition, groups: GroupsById) -> Steps[Returned]: ...


def is_large(
    group: ConsumerGroup | ShareGroup | None, stated: Iterable[Collection[str]], topics: Topics
) -> bool:
    """Return whether a change of the group needs pauses. `stated` are topics that it may add."""
    found = [*stated] if group is None else [group.subscribed, *stated]
    size = sum(map(len, found)) + (0 if group is None else len(group.members))
    if size > SMALL:
        return True
    known = (topics.get(name) for names in found for name in names)
    return size + sum(topic.partitions for topic in known if topic is not None) > SMALL


def is_costly(group: ClassicGroup) -> bool:
    """Return whether the conversion of a classic group needs pauses."""
    size = group.size + sum(len(member.assignment) for member in group.members.values())
    return size > METADATA_AT_ONCE


def changed(
    groups: GroupsById, timers: Timers, group_id: str, begin: Begin, change: "GroupChange[Result]"
) -> Steps[tuple[Transition, Result]]:
    """Make the change, with pauses, and return its transition. Raises ApiError; then nothing has changed."""
    for _ in range(TRIES):
        found = groups.get(group_id)
        facts = _facts(found)
        later = LaterTimers()
        transition = begin(later)
        own: GroupsById = {}
        if isinstance(found, ClassicGroup):
            own[group_id] = found
        elif found is not None:
            own[group_id] = found.isolated()
            transition.effects.replaced.append((group_id, found))
        result = yield from change(transition, own)
        if groups.get(group_id) is found and _facts(found) == facts:
            if group_id in own:
                _install(groups, found, own[group_id], transition)
            later.apply(timers)
            return transition, result
    raise ApiError(
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"Group {group_id} has changed all the time. Try again."
    )


def _facts(group: AnyGroup | None) -> object:
    """Return a value that is equal as long as the group has not changed."""
    if group is None:
        return None
    return group.facts if isinstance(group, ClassicGroup) else group.revision


def _install(groups: GroupsById, found: AnyGroup | None, made: AnyGroup, transition: Transition) -> None:
    replaced = transition.effects.replaced
    if isinstance(found, ModernGroup) and found.__class__ is made.__class__:
        replaced[0] = found.group_id, found.copy()
        found.adopt(made)
        if transition.effects.records:
            found.revision += 1
        else:
            replaced.clear()
    else:
        groups[made.group_id] = made
