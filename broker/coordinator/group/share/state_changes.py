"""Changes of the share partitions that have a state, before and after the states themselves are changed.

Called by `coordinator`. (Kafka: completeAlterShareGroupOffsets, sharePartitionsEligibleForOffsetDeletion,
initializeShareGroupState, uninitializeShareGroupState, completeDeleteShareGroupOffsets)
"""

from collections.abc import Collection

from broker.common.errors import ApiError, ErrorCode
from broker.common.steps import Steps
from broker.coordinator.group.consumer.assignment import Assignment
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.share.records import states_record
from broker.coordinator.group.share.state_partitions import ByTopicId, StatePartitions
from broker.coordinator.group.transition import Transition


def check_empty(group: ShareGroup) -> None:
    """Raise ApiError NON_EMPTY_GROUP for a group with members."""
    if group.members:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def change(transition: Transition, group: ShareGroup, states: StatePartitions) -> Steps[None]:
    """Replace and record the partitions with a state, unless nothing has changed."""
    if states != group.states:
        transition.keep(group)
        group.states = states
        yield
        transition.record((yield from states_record(group, transition.pace)))


def begin(transition: Transition, group: ShareGroup, partitions: ByTopicId) -> Steps[None]:
    """Record that the states of `partitions` are initialized next. Raises ApiError."""
    check_empty(group)
    yield from change(transition, group, (yield from group.states.begin(partitions, transition.pace)))


def complete(transition: Transition, group: ShareGroup, done: Assignment, failed: Assignment) -> Steps[None]:
    """Record which states have been initialized, and which could not be."""
    states = yield from group.states.completed(done, failed, transition.pace)
    yield from change(transition, group, states)


def begin_deletion(
    transition: Transition, group: ShareGroup, topic_ids: Collection[bytes] | None
) -> Steps[None]:
    """Record that the states of topics, None for all, are deleted next. Raises ApiError."""
    check_empty(group)
    known = {*group.states.initialized, *group.states.initializing}
    wanted = known if topic_ids is None else known.intersection(topic_ids)
    yield from change(transition, group, (yield from group.states.delete(wanted, transition.pace)))


def complete_deletion(transition: Transition, group: ShareGroup, topic_ids: Collection[bytes]) -> Steps[None]:
    """Record that the states of topics have been deleted."""
    yield from change(transition, group, (yield from group.states.deleted(topic_ids, transition.pace)))


def forget(transition: Transition, group: ShareGroup, topic_ids: Collection[bytes]) -> Steps[None]:
    """Forget the states of deleted topics."""
    if group.states.has_any(topic_ids):
        yield from change(transition, group, (yield from group.states.without(topic_ids, transition.pace)))
