"""Changes of the share partitions that have a state, before and after the states themselves are changed.

Called by `coordinator`. (Kafka: completeAlterShareGroupOffsets, sharePartitionsEligibleForOffsetDeletion,
initializeShareGroupState, uninitializeShareGroupState, completeDeleteShareGroupOffsets)
"""

from collections.abc import Collection

from broker.errors import ApiError, ErrorCode
from broker.groups.consumer.assignment import Assignment
from broker.groups.share.group import ShareGroup
from broker.groups.share.records import states_record
from broker.groups.share.state_partitions import ByTopicId, StatePartitions
from broker.groups.transition import Transition


def check_empty(group: ShareGroup) -> None:
    """Raise ApiError NON_EMPTY_GROUP for a group with members."""
    if group.members:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def change(transition: Transition, group: ShareGroup, states: StatePartitions) -> None:
    """Replace and record the partitions with a state, unless nothing has changed."""
    if states != group.states:
        transition.keep(group)
        group.states = states
        transition.record(states_record(group))


def begin(transition: Transition, group: ShareGroup, partitions: ByTopicId) -> None:
    """Record that the states of `partitions` are initialized next. Raises ApiError."""
    check_empty(group)
    change(transition, group, group.states.begin(partitions))


def complete(transition: Transition, group: ShareGroup, done: Assignment, failed: Assignment) -> None:
    """Record which states have been initialized, and which could not be."""
    change(transition, group, group.states.completed(done).abandoned(failed))


def begin_deletion(transition: Transition, group: ShareGroup, topic_ids: Collection[bytes]) -> None:
    """Record that the states of topics are deleted next. Raises ApiError."""
    check_empty(group)
    change(transition, group, group.states.delete(topic_ids))
