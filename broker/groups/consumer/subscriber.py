"""A member as an assignor sees it."""

from typing import NamedTuple

from broker.groups.consumer.assignment import Assignment


class Subscriber(NamedTuple):
    """`topics` are the ids of the existing topics that it subscribes to; `assigned` is its target so far."""

    instance_id: str | None
    topics: frozenset[bytes]
    assigned: Assignment
