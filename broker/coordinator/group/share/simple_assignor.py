"""The assignor of share groups: every partition goes to at least one member, and the members have about the
same number. (Kafka: SimpleAssignor)

Called by `heartbeat`. A member first gets the partition that the hash of its id selects, so that with more
members than partitions all of them have one; then what is left is dealt out, and members keep what they had.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

from broker.common.slices import Steps, sorted_in_steps
from broker.coordinator.group.consumer.assignment import (
    Assigned,
    Assignment,
    Subscriber,
    by_topic,
    have_same_topics,
)
from broker.coordinator.group.java_hash import java_hash

Partition = tuple[bytes, int]
"""Topic id and index."""

Found = dict[str, set[Partition]]
"""The partitions of each member."""


def assign(subscribers: Mapping[str, Subscriber], assignable: Assignment) -> Steps[Assigned]:
    """Return the partitions of each member. Only those of `assignable` are assigned."""
    found: Found = {member_id: set() for member_id in subscribers}
    if (yield from have_same_topics(subscribers.values())):
        yield from _assign_alike(subscribers, assignable, found)
    else:
        yield from _assign_different(subscribers, assignable, found)
    assigned: Assigned = {}
    for member_id, partitions in found.items():
        assigned[member_id] = yield from by_topic((yield from _sorted(partitions)))
    return assigned


def _assign_alike(subscribers: Mapping[str, Subscriber], assignable: Assignment, found: Found) -> Steps[None]:
    """Assign partitions to members that all subscribe to the same topics."""
    if not subscribers:
        return
    topics = next(iter(subscribers.values())).topics
    wanted = yield from _partitions(topics, assignable)
    share = -(-len(wanted) // len(subscribers))
    hashed = set()
    if wanted:
        for member_id in subscribers:
            selected = _selected(member_id, wanted)
            found[member_id].add(selected)
            hashed.add(selected)
            yield
    taken = set(hashed)
    for member_id, subscriber in subscribers.items():
        of_member = found[member_id]
        for topic_id in (yield from sorted_in_steps(subscriber.assigned)):
            if len(of_member) >= share:
                break
            existing = assignable.get(topic_id, frozenset()) if topic_id in topics else frozenset()
            for index in sorted(subscriber.assigned[topic_id] & existing):
                partition = topic_id, index
                if partition not in hashed and len(of_member) < share:
                    of_member.add(partition)
                    taken.add(partition)
                yield
            yield
    yield from _deal(found, wanted, taken, share)


def _deal(found: Found, wanted: Sequence[Partition], taken: set[Partition], share: int) -> Steps[None]:
    """Deal the partitions that are not taken to the members in turn, up to one more than `share` to each.

    If all of them have that many, because they have shared others so far, each gets one more, and so on.
    (Kafka fails to assign then.)
    """
    members = list(found)
    at = 0
    for partition in wanted:
        yield
        if partition in taken:
            continue
        while len(found[members[at]]) > share:
            del members[at]
            if not members:
                members, share = list(found), share + 1
            at %= len(members)
        found[members[at]].add(partition)
        at = (at + 1) % len(members)


def _assign_different(
    subscribers: Mapping[str, Subscriber], assignable: Assignment, found: Found
) -> Steps[None]:
    """Assign partitions to members that subscribe to different topics."""
    taken: set[Partition] = set()
    partitions: dict[frozenset[bytes], Sequence[Partition]] = {}
    topics: set[bytes] = set()
    for member_id, subscriber in subscribers.items():
        if subscriber.topics not in partitions:
            yield
            partitions[subscriber.topics] = yield from _partitions(subscriber.topics, assignable)
            topics |= subscriber.topics & assignable.keys()
        wanted = partitions[subscriber.topics]
        if wanted:
            selected = _selected(member_id, wanted)
            found[member_id].add(selected)
            taken.add(selected)
    kept: dict[str, list[Partition]] = {}
    held = set(taken)
    for member_id, subscriber in subscribers.items():
        kept[member_id] = []
        for topic_id, indexes in subscriber.assigned.items():
            existing = assignable.get(topic_id) if topic_id in subscriber.topics else None
            if existing:
                some = [(topic_id, index) for index in indexes & existing]
                kept[member_id] += some
                held.update(some)
            yield
    subscribed: dict[bytes, list[str]] = {topic_id: [] for topic_id in topics}
    for member_id, subscriber in subscribers.items():
        for topic_id in subscriber.topics:
            if topic_id in subscribed:
                subscribed[topic_id].append(member_id)
            yield
    for topic_id in (yield from sorted_in_steps(topics)):
        turns = cycle(subscribed[topic_id])
        for index in sorted(assignable[topic_id]):
            if (topic_id, index) not in held:
                found[next(turns)].add((topic_id, index))
            yield
    for member_id, kept_partitions in kept.items():
        of_member = found[member_id]
        for partition in kept_partitions:
            if partition not in taken:
                of_member.add(partition)
            yield


def _partitions(topics: frozenset[bytes], assignable: Assignment) -> Steps[list[Partition]]:
    found: list[Partition] = []
    for topic_id in (yield from sorted_in_steps(topics & assignable.keys())):
        found += [(topic_id, index) for index in sorted(assignable[topic_id])]
        yield
    return found


def _selected(member_id: str, wanted: Sequence[Partition]) -> Partition:
    return wanted[abs(java_hash(member_id)) % len(wanted)]


def _sorted(partitions: set[Partition]) -> Steps[Iterator[Partition]]:
    """Return the partitions by topic id and index."""
    indexes: dict[bytes, list[int]] = {}
    for topic_id, index in partitions:
        indexes.setdefault(topic_id, []).append(index)
        yield
    order = yield from sorted_in_steps(indexes)
    return ((topic_id, index) for topic_id in order for index in sorted(indexes[topic_id]))
