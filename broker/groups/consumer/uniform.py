"""The uniform assignor: as many partitions for each member, and as few moves as that allows.

If all members subscribe to the same topics, each keeps its partitions up to its quota, and the rest goes to
the members below theirs. Otherwise partitions move from the member with the most to the one with the fewest
among the subscribers of their topic. (Kafka: UniformHomogeneousAssignmentBuilder; for members with different
topics, the result of UniformHeterogeneousAssignmentBuilder by simpler means)
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from broker.groups.consumer.assignment import pairs
from broker.groups.consumer.subscriber import Subscriber

Partition = tuple[bytes, int]

PASSES: Final = 4
"""Times that the partitions of each topic are balanced; ours.

Most groups need one or two. A chain of many members, each of which shares one topic with the next, would need
as many as it has members.
"""


def assign(
    members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]
) -> dict[str, dict[bytes, frozenset[int]]]:
    """Return the partitions of each member."""
    if not members:
        return {}
    all_topics = {member.topics for member in members.values()}
    held = _assign_alike(members, partitions) if len(all_topics) == 1 else _assign_each(members, partitions)
    return {member_id: _by_topic(some) for member_id, some in held.items()}


def _assign_alike(
    members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]
) -> dict[str, set[Partition]]:
    """Assign to members with the same topics."""
    topics = next(iter(members.values())).topics
    free = [(topic_id, index) for topic_id in sorted(topics) for index in range(partitions[topic_id])]
    least, extra = divmod(len(free), len(members))
    taken: set[Partition] = set()
    held: dict[str, set[Partition]] = {}
    # The members with the most partitions keep the extra ones, so that fewer move.
    by_count = sorted(members, key=lambda each: -sum(map(len, members[each].assigned.values())))
    quotas = {each: least + (number < extra) for number, each in enumerate(by_count)}
    for member_id, member in members.items():
        own = [each for each in sorted(pairs(member.assigned)) if _exists(each, topics, partitions)]
        kept = [each for each in own if each not in taken][: quotas[member_id]]
        taken.update(kept)
        held[member_id] = set(kept)
    rest = iter([each for each in free if each not in taken])
    for member_id, some in held.items():
        while len(some) < quotas[member_id]:
            some.add(next(rest))
    return held


def _exists(partition: Partition, topics: frozenset[bytes], partitions: Mapping[bytes, int]) -> bool:
    return partition[0] in topics and partition[1] < partitions[partition[0]]


Holders = dict[bytes, dict[str, list[int]]]
"""The partitions of each topic by member; every subscriber has a list."""


def _assign_each(
    members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]
) -> dict[str, set[Partition]]:
    """Assign to members with different topics."""
    holders: Holders = {}
    counts: dict[str, int] = {}
    taken: set[Partition] = set()
    for member_id, member in members.items():
        counts[member_id] = 0
        for topic_id in sorted(member.topics):
            own = member.assigned.get(topic_id, frozenset())
            kept = [
                each for each in sorted(own) if each < partitions[topic_id] and (topic_id, each) not in taken
            ]
            taken.update((topic_id, each) for each in kept)
            holders.setdefault(topic_id, {})[member_id] = kept
            counts[member_id] += len(kept)
    # Topics with few subscribers first: their partitions have the least choice.
    order = sorted(holders, key=lambda each: (len(holders[each]), each))
    for topic_id in order:
        queue = [(counts[member_id], member_id) for member_id in holders[topic_id]]
        heapify(queue)
        for index in range(partitions[topic_id]):
            if (topic_id, index) not in taken:
                _, member_id = heappop(queue)
                holders[topic_id][member_id].append(index)
                counts[member_id] += 1
                heappush(queue, (counts[member_id], member_id))
    for _ in range(PASSES):
        moves = [_balance(holders[topic_id], counts) for topic_id in order]
        if not any(moves):
            break
    held: dict[str, set[Partition]] = {member_id: set() for member_id in members}
    for topic_id, of_topic in holders.items():
        for member_id, indexes in of_topic.items():
            held[member_id].update((topic_id, index) for index in indexes)
    return held


def _balance(of_topic: dict[str, list[int]], counts: dict[str, int]) -> bool:
    """Move partitions of one topic from the members with the most to those with the fewest."""
    fewest = [(counts[member_id], member_id) for member_id in of_topic]
    most = [(-counts[member_id], member_id) for member_id, indexes in of_topic.items() if indexes]
    if not most or -min(most)[0] - min(fewest)[0] <= 1:
        return False
    heapify(fewest)
    heapify(most)
    while most:
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


def _by_topic(some: set[Partition]) -> dict[bytes, frozenset[int]]:
    found: dict[bytes, list[int]] = {}
    for topic_id, index in some:
        found.setdefault(topic_id, []).append(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}
