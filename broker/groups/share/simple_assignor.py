"""The assignor of share groups: every partition goes to at least one member, and the members have about the
same number. (Kafka: SimpleAssignor)

Called by `epochs`. A member first gets the partition that the hash of its id selects, so that with more
members than partitions all of them have one; then what is left is dealt out, and members keep what they had.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle

from broker.groups.consumer.assignment import Assignment, pairs
from broker.groups.consumer.subscriber import Subscriber
from broker.groups.java_hash import java_hash

Partition = tuple[bytes, int]
"""Topic id and index."""


def assign(
    subscribers: Mapping[str, Subscriber], assignable: Assignment
) -> dict[str, dict[bytes, frozenset[int]]]:
    """Return the partitions of each member. Only those of `assignable` are assigned."""
    partitions: dict[frozenset[bytes], Sequence[Partition]] = {}
    for subscriber in subscribers.values():
        if subscriber.topics not in partitions:
            partitions[subscriber.topics] = _partitions(subscriber.topics, assignable)
    found: dict[str, set[Partition]] = {member_id: set() for member_id in subscribers}
    if len(partitions) == 1:
        (wanted,) = partitions.values()
        _assign_alike(subscribers, wanted, found)
    else:
        _assign_different(subscribers, partitions, found)
    return {member_id: _by_topic(assigned) for member_id, assigned in found.items()}


def _assign_alike(
    subscribers: Mapping[str, Subscriber], wanted: Sequence[Partition], found: dict[str, set[Partition]]
) -> None:
    """Assign partitions to members that all subscribe to the same topics."""
    share = -(-len(wanted) // len(subscribers))
    hashed = set()
    if wanted:
        for member_id in subscribers:
            selected = _selected(member_id, wanted)
            found[member_id].add(selected)
            hashed.add(selected)
    taken = set(hashed)
    existing = set(wanted)
    for member_id, subscriber in subscribers.items():
        of_member = found[member_id]
        for partition in _sorted_pairs(subscriber.assigned):
            if partition in existing and partition not in hashed and len(of_member) < share:
                of_member.add(partition)
                taken.add(partition)
    _deal(found, (partition for partition in wanted if partition not in taken), share)


def _deal(found: dict[str, set[Partition]], left: Iterable[Partition], share: int) -> None:
    """Deal partitions to the members in turn, up to one more than `share` to each.

    If all of them have that many, because they have shared others so far, each gets one more, and so on.
    (Kafka fails to assign then.)
    """
    members = list(found)
    at = 0
    for partition in left:
        while len(found[members[at]]) > share:
            del members[at]
            if not members:
                members, share = list(found), share + 1
            at %= len(members)
        found[members[at]].add(partition)
        at = (at + 1) % len(members)


def _assign_different(
    subscribers: Mapping[str, Subscriber],
    partitions: Mapping[frozenset[bytes], Sequence[Partition]],
    found: dict[str, set[Partition]],
) -> None:
    """Assign partitions to members that subscribe to different topics."""
    taken: set[Partition] = set()
    for member_id, subscriber in subscribers.items():
        wanted = partitions[subscriber.topics]
        if wanted:
            selected = _selected(member_id, wanted)
            found[member_id].add(selected)
            taken.add(selected)
    existing = {topics: set(wanted) for topics, wanted in partitions.items()}
    kept = {
        member_id: [each for each in pairs(subscriber.assigned) if each in existing[subscriber.topics]]
        for member_id, subscriber in subscribers.items()
    }
    left = set().union(*existing.values()) - taken - {each for some in kept.values() for each in some}
    turns: dict[bytes, Iterator[str]] = {}
    for topic_id, index in sorted(left):
        if topic_id not in turns:
            turns[topic_id] = cycle([each for each in subscribers if topic_id in subscribers[each].topics])
        found[next(turns[topic_id])].add((topic_id, index))
    for member_id, some in kept.items():
        found[member_id].update(partition for partition in some if partition not in taken)


def _partitions(topics: frozenset[bytes], assignable: Assignment) -> Sequence[Partition]:
    known = sorted(topics & assignable.keys())
    return [(topic_id, index) for topic_id in known for index in sorted(assignable[topic_id])]


def _selected(member_id: str, wanted: Sequence[Partition]) -> Partition:
    return wanted[abs(java_hash(member_id)) % len(wanted)]


def _sorted_pairs(assigned: Assignment) -> Sequence[Partition]:
    return sorted(pairs(assigned))


def _by_topic(partitions: Iterable[Partition]) -> dict[bytes, frozenset[int]]:
    by_topic: dict[bytes, set[int]] = {}
    for topic_id, index in sorted(partitions):
        by_topic.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in by_topic.items()}
