"""A member as an assignor sees it, and what the assignor returns."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.common.steps import Pace, Steps
from broker.coordinator.group.consumer.assignment import Assignment

COMPARED: Final = 16
"""Topics that two sets compare in the time of one step of a loop."""

Assigned = dict[str, dict[bytes, frozenset[int]]]
"""The partitions of each member, by topic id."""


class Subscriber(NamedTuple):
    """`topics` are the ids of the existing topics that it subscribes to; `assigned` is its target so far.

    Members with the same topics have the same set, or a set per subscription.
    """

    instance_id: str | None
    topics: frozenset[bytes]
    assigned: Assignment


def by_topic(partitions: Iterable[tuple[bytes, int]], pace: Pace) -> Steps[dict[bytes, frozenset[int]]]:
    """Return the partitions by topic."""
    indexes: dict[bytes, list[int]] = {}
    for topic_id, index in partitions:
        indexes.setdefault(topic_id, []).append(index)
        if pace.spent():
            yield
    found = {}
    for topic_id, some in indexes.items():
        found[topic_id] = frozenset(some)
        if pace.spent():
            yield
    return found


def have_same_topics(subscribers: Iterable[Subscriber], pace: Pace) -> Steps[bool]:
    """Return whether all subscribe to the same topics."""
    first: frozenset[bytes] | None = None
    for subscriber in subscribers:
        if first is None:
            first = subscriber.topics
        elif subscriber.topics is not first:
            if pace.spent(1 + len(first) // COMPARED):
                yield
            if subscriber.topics != first:
                return False
    return True
