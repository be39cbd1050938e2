"""The assignors by name, of which the range assignor is here. (Kafka: ConsumerGroupPartitionAssignor)

Called by `epochs` to compute the target assignment of a group.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from broker.common.steps import Pace, Steps
from broker.config.sections.consumer_groups import RANGE, UNIFORM
from broker.coordinator.group.consumer import uniform
from broker.coordinator.group.consumer.assignment import Assigned, Subscriber


def assign_ranges(members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]) -> Steps[Assigned]:
    """Return each topic in ranges, in the order of the members, so that topics with as many partitions are
    divided alike. Static members come first, in the order of their instances. (Kafka: RangeAssignor)
    """
    pace = Pace()
    order = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
    subscribers: dict[bytes, list[str]] = {}
    for member_id in order:
        for topic_id in members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
            if pace.spent():
                yield
    assigned: Assigned = {member_id: {} for member_id in members}
    for topic_id, of_topic in subscribers.items():
        least, extra = divmod(partitions[topic_id], len(of_topic))
        start = 0
        for number, member_id in enumerate(of_topic):
            end = start + least + (number < extra)
            if start == end:
                break  # so have the members that follow
            assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
            if pace.spent():
                yield
        if pace.spent():
            yield
    return assigned


def _place(member_id: str, member: Subscriber) -> tuple[bool, str]:
    return (member.instance_id is None, member.instance_id or member_id)


Assign = Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], Steps[Assigned]]
"""Returns the partitions of each member, with pauses. The second argument has the partition count of each
topic.
"""

ASSIGNORS: Final[Mapping[str, Assign]] = MappingProxyType({UNIFORM: uniform.assign, RANGE: assign_ranges})
