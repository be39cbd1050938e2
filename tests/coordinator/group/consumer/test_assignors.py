"""Every partition has exactly one member among the subscribers of its topic, and no more move than must."""

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.common.slices import run_through
from broker.coordinator.group.consumer.assignment import Subscriber
from broker.coordinator.group.consumer.assignors import ASSIGNORS, assign_uniformly

Assigned = dict[str, dict[bytes, frozenset[int]]]

TOPICS = (b"t", b"u", b"v", b"w")


def members(*names: str, topics: bytes = b"t", before: Assigned | None = None) -> dict[str, Subscriber]:
    """Return members that subscribe to the same topics, each named by one letter."""
    ids = frozenset(bytes([each]) for each in topics)
    return {name: Subscriber(None, ids, (before or {}).get(name, {})) for name in names}


def size(assigned: dict[bytes, frozenset[int]]) -> int:
    return sum(map(len, assigned.values()))


def moved(before: Assigned, after: Assigned) -> int:
    """Return how many partitions left a member that is still there."""
    return sum(
        len(indexes - after[member].get(topic, frozenset()))
        for member, assigned in before.items()
        if member in after
        for topic, indexes in assigned.items()
    )


subscriptions = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=2), st.sets(st.sampled_from(TOPICS)), min_size=1, max_size=9
)
partition_counts = st.fixed_dictionaries({topic: st.integers(0, 12) for topic in TOPICS})


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(wanted=subscriptions, counts=partition_counts, seed=st.integers(0, 1_000))
def test_each_partition_has_exactly_one_subscriber(name, wanted, counts, seed):
    chance = random.Random(seed)
    owners = {
        (topic, index): chance.choice(sorted(wanted))
        for topic, count in counts.items()
        for index in range(count)
    }
    before: Assigned = {member: {} for member in wanted}
    for (topic, index), member in owners.items():
        before[member][topic] = before[member].get(topic, frozenset()) | {index, index + 5}
    asked = {member: Subscriber(None, frozenset(topics), before[member]) for member, topics in wanted.items()}
    assigned = run_through(ASSIGNORS[name](asked, counts))
    assert assigned.keys() == wanted.keys()
    assert all(indexes for each in assigned.values() for indexes in each.values())
    held = [
        (topic, index) for each in assigned.values() for topic, indexes in each.items() for index in indexes
    ]
    subscribed = {topic for topics in wanted.values() for topic in topics}
    assert sorted(held) == [(topic, index) for topic in sorted(subscribed) for index in range(counts[topic])]
    assert all(topic in wanted[member] for member, each in assigned.items() for topic in each)


@given(wanted=subscriptions, counts=partition_counts)
def test_uniform_is_balanced_among_the_subscribers_of_each_topic(wanted, counts):
    asked = {member: Subscriber(None, frozenset(topics), {}) for member, topics in wanted.items()}
    assigned = run_through(assign_uniformly(asked, counts))
    for one, other in combinations(sorted(wanted), 2):
        for giver, receiver in ((one, other), (other, one)):
            if any(topic in wanted[receiver] for topic in assigned[giver]):
                assert size(assigned[giver]) - size(assigned[receiver]) <= 1


@given(
    counts=partition_counts,
    names=st.lists(st.text("abcdefgh", min_size=1, max_size=2), min_size=2, max_size=12, unique=True),
)
def test_uniform_moves_the_fewest_partitions_that_balance_needs(counts, names):
    total = sum(counts.values())
    settled = run_through(assign_uniformly(members(*names, topics=b"tuvw"), counts))
    assert run_through(assign_uniformly(members(*names, topics=b"tuvw", before=settled), counts)) == settled
    # One leaves: the others keep all they have.
    fewer = run_through(assign_uniformly(members(*names[1:], topics=b"tuvw", before=settled), counts))
    assert moved(settled, fewer) == 0
    # One comes: it takes no more than its share, and the others exchange nothing.
    more = run_through(assign_uniformly(members(*names, "new", topics=b"tuvw", before=settled), counts))
    assert moved(settled, more) == size(more["new"]) <= -(-total // (len(names) + 1))


def test_the_members_with_most_partitions_keep_the_extra_ones():
    before = {"b": {b"t": frozenset({0, 1, 2})}, "a": {b"t": frozenset({3, 4})}}
    assert run_through(assign_uniformly(members("a", "b", before=before), {b"t": 5})) == before


def test_uniform_gives_a_partition_with_two_owners_to_one():
    before = {"a": {b"t": frozenset({0})}, "b": {b"t": frozenset({0})}}
    assigned = run_through(assign_uniformly(members("a", "b", before=before), {b"t": 2}))
    assert sorted(index for each in assigned.values() for index in each[b"t"]) == [0, 1]


def test_range_gives_each_member_a_range_of_each_topic():
    assigned = run_through(ASSIGNORS["range"](members("c", "a", "b", topics=b"tu"), {b"t": 7, b"u": 2}))
    assert assigned == {
        "a": {b"t": frozenset({0, 1, 2}), b"u": frozenset({0})},
        "b": {b"t": frozenset({3, 4}), b"u": frozenset({1})},
        "c": {b"t": frozenset({5, 6})},
    }


def test_range_puts_static_members_first_in_the_order_of_their_instances():
    topics = frozenset({b"t"})
    asked = {
        "a": Subscriber(None, topics, {}),
        "b": Subscriber("2", topics, {}),
        "c": Subscriber("1", topics, {}),
    }
    assigned = run_through(ASSIGNORS["range"](asked, {b"t": 3}))
    assert [assigned[each][b"t"] for each in "cba"] == [{0}, {1}, {2}]


def test_a_chain_of_subscriptions_is_balanced_in_a_few_passes():
    # Each member shares one topic with the next: a balance of all would need a pass for each.
    count = 200
    asked = {
        f"{number:04}": Subscriber(
            None, frozenset({number.to_bytes(2, "big"), (number + 1).to_bytes(2, "big")}), {}
        )
        for number in range(count)
    }
    partitions = {number.to_bytes(2, "big"): 10 for number in range(count + 1)}
    assigned = run_through(assign_uniformly(asked, partitions))
    assert sum(map(size, assigned.values())) == 10 * (count + 1)
    assert max(map(size, assigned.values())) - min(map(size, assigned.values())) <= 10


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_no_members_have_no_partitions(name):
    assert run_through(ASSIGNORS[name]({}, {})) == {}
