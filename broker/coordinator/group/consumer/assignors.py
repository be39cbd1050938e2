"""The assignors by name. (Kafka: ConsumerGroupPartitionAssignor)

Called by `epochs` to compute the target assignment of a group.

The uniform assignor: as many partitions for each member, and as few moves as that allows. If all members
subscribe to the same topics, each keeps its partitions up to its quota, and the rest goes to the members
below theirs. Otherwise partitions move from the member with the most to the one with the fewest among the
subscribers of their topic. (Kafka: UniformHomogeneousAssignmentBuilder; for members with different topics,
the result of UniformHeterogeneousAssignmentBuilder by simpler means)
"""

from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from types import MappingProxyType
from typing import Final

from broker.common.slices import Steps, sorted_in_steps
from broker.config.sections.groups import RANGE, UNIFORM
from broker.coordinator.group.consumer.assignment import (
    Assigned,
    Assignment,
    Subscriber,
    by_topic,
    have_same_topics,
)

Partition = tuple[bytes, int]

PASSES: Final = 4
"""Times that the partitions of each topic are balanced; ours.

Most groups need one or two. A chain of many members, each of which shares one topic with the next, would need
as many as it has members.
"""


def assign_uniformly(members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]) -> Steps[Assigned]:
    """Return the partitions of each member."""
    if (yield from have_same_topics(members.values())):
        held = yield from _assign_alike(members, partitions)
    else:
        held = yield from _assign_each(members, partitions)
    assigned: Assigned = {}
    for member_id, some in held.items():
        assigned[member_id] = yield from by_topic(some)
    return assigned


def _assign_alike(
    members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]
) -> Steps[dict[str, list[Partition]]]:
    """Assign to members with the same topics."""
    if not members:
        return {}
    topics = next(iter(members.values())).topics
    total = 0
    for topic_id in topics:
        total += partitions[topic_id]
        yield
    least, extra = divmod(total, len(members))
    # The members with the most partitions keep the extra ones, so that fewer move.
    by_count = sorted(members, key=lambda each: -sum(map(len, members[each].assigned.values())))
    quotas = {each: least + (number < extra) for number, each in enumerate(by_count)}
    taken: set[Partition] = set()
    held: dict[str, list[Partition]] = {}
    for member_id, member in members.items():
        kept: list[Partition] = []
        for topic_id in (yield from sorted_in_steps(member.assigned)):
            if len(kept) == quotas[member_id]:
                break
            if topic_id in topics:
                for each in _existing(topic_id, member.assigned, partitions):
                    if each not in taken and len(kept) < quotas[member_id]:
                        kept.append(each)
                    yield
        taken.update(kept)
        held[member_id] = kept
    below = ((some, quotas[member_id]) for member_id, some in held.items() if len(some) < quotas[member_id])
    some, quota = next(below, ([], 0))
    for topic_id in (yield from sorted_in_steps(topics)):
        for index in range(partitions[topic_id]):
            if (topic_id, index) not in taken:
                some.append((topic_id, index))
                if len(some) == quota:
                    some, quota = next(below, ([], 0))
            yield
        yield
    return held


def _existing(topic_id: bytes, assigned: Assignment, partitions: Mapping[bytes, int]) -> Iterator[Partition]:
    """Yield the partitions of a topic that exist, in order."""
    return ((topic_id, index) for index in sorted(assigned[topic_id]) if index < partitions[topic_id])


Holders = dict[bytes, dict[str, list[int]]]
"""The partitions of each topic by member; every subscriber has a list."""


def _assign_each(
    members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]
) -> Steps[dict[str, list[Partition]]]:
    """Assign to members with different topics."""
    holders: Holders = {}
    counts: dict[str, int] = {}
    taken: set[Partition] = set()
    for member_id, member in members.items():
        counts[member_id] = 0
        for topic_id in member.topics:
            kept: list[int] = []
            if topic_id in member.assigned:
                for each in _existing(topic_id, member.assigned, partitions):
                    if each not in taken:
                        kept.append(each[1])
                        taken.add(each)
                    yield
            holders.setdefault(topic_id, {})[member_id] = kept
            counts[member_id] += len(kept)
            yield
    # Topics with few subscribers first: their partitions have the least choice.
    by_choice: dict[int, list[bytes]] = {}
    for topic_id, of_topic in holders.items():
        by_choice.setdefault(len(of_topic), []).append(topic_id)
        yield
    order: list[bytes] = []
    for choice in sorted(by_choice):
        order += yield from sorted_in_steps(by_choice[choice])
    for topic_id in order:
        queue = [(counts[member_id], member_id) for member_id in holders[topic_id]]
        heapify(queue)
        yield
        for index in range(partitions[topic_id]):
            if (topic_id, index) not in taken:
                _, member_id = heappop(queue)
                holders[topic_id][member_id].append(index)
                counts[member_id] += 1
                heappush(queue, (counts[member_id], member_id))
            yield
    for _ in range(PASSES):
        has_moved = False
        for topic_id in order:
            has_moved = (yield from _balance(holders[topic_id], counts)) or has_moved
        if not has_moved:
            break
    held: dict[str, list[Partition]] = {member_id: [] for member_id in members}
    for topic_id, of_topic in holders.items():
        for member_id, indexes in of_topic.items():
            held[member_id] += [(topic_id, index) for index in indexes]
            yield
    return held


def _balance(of_topic: dict[str, list[int]], counts: dict[str, int]) -> Steps[bool]:
    """Move partitions of one topic from the members with the most to those with the fewest."""
    yield
    fewest = [(counts[member_id], member_id) for member_id in of_topic]
    most = [(-counts[member_id], member_id) for member_id, indexes in of_topic.items() if indexes]
    if not most or -min(most)[0] - min(fewest)[0] <= 1:
        return False
    heapify(fewest)
    heapify(most)
    while most:
        yield
        giver, receiver = most[0][1], fewest[0][1]
        if -most[0][0] != counts[giver] or not of_topic[giver]:  # it has received or given meanwhile
            heappop(most)
            if of_topic[giver]:
                heappush(most, (-counts[giver], giver))
        elif fewest[0][0] != counts[receiver]:
            heapreplace(fewest, (counts[receiver], receiver))
        elif counts[giver] - counts[receiver] <= 1:
            break
        else:
            of_topic[receiver].append(of_topic[giver].pop())
            counts[giver] -= 1
            counts[receiver] += 1
    return True


def assign_ranges(members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]) -> Steps[Assigned]:
    """Return each topic in ranges, in the order of the members, so that topics with as many partitions are
    divided alike. Static members come first, in the order of their instances. (Kafka: RangeAssignor)
    """
    order = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
    subscribers: dict[bytes, list[str]] = {}
    for member_id in order:
        for topic_id in members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
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
            yield
        yield
    return assigned


def _place(member_id: str, member: Subscriber) -> tuple[bool, str]:
    return (member.instance_id is None, member.instance_id or member_id)


Assign = Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], Steps[Assigned]]
"""Returns the partitions of each member, with pauses. The second argument has the partition count of each
topic.
"""

ASSIGNORS: Final[Mapping[str, Assign]] = MappingProxyType({UNIFORM: assign_uniformly, RANGE: assign_ranges})
