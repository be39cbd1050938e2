"""The range assignor: each topic in ranges, in the order of the members, so that topics with as many
partitions are divided alike. (Kafka: RangeAssignor)
"""

from collections.abc import Mapping

from broker.common.steps import Pace, Steps
from broker.coordinator.group.consumer.subscriber import Assigned, Subscriber


def assign(members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]) -> Steps[Assigned]:
    """Return the partitions of each member. Static members come first, in the order of their instances."""
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
