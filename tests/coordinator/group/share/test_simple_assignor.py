"""Kafka's SimpleAssignor: examples with exact numbers, and what holds for random groups."""

import random

import pytest

from broker.common.slices import run_through
from broker.coordinator.group.consumer.assignment import Subscriber, pairs
from broker.coordinator.group.java_hash import java_hash
from broker.coordinator.group.share.simple_assignor import assign

A, B = b"a" * 16, b"b" * 16


def subscriber(*topics: bytes, **assigned: set[int]) -> Subscriber:
    """`assigned` is by "a" and "b"."""
    ids = {"a": A, "b": B}
    return Subscriber(
        None, frozenset(topics), {ids[name]: frozenset(some) for name, some in assigned.items()}
    )


def plain(found: dict[str, dict[bytes, frozenset[int]]]) -> dict[str, dict[str, set[int]]]:
    return {
        member: {chr(topic[0]): set(indexes) for topic, indexes in by_topic.items()}
        for member, by_topic in found.items()
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("m1", 3428),
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),
        ("\U0001f600", 1772899),
    ],
)
def test_the_hash_is_javas(text, value):
    assert java_hash(text) == value


def test_without_partitions_nobody_has_any():
    assert run_through(assign({"m": subscriber(A)}, {})) == {"m": {}}
    assert run_through(assign({}, {A: frozenset({0})})) == {}


def test_one_member_has_all():
    assert plain(run_through(assign({"m": subscriber(A)}, {A: frozenset(range(3))}))) == {
        "m": {"a": {0, 1, 2}}
    }


def test_more_members_than_partitions_share_them():
    # The hashes of "a" to "e" are 97 to 101, modulo 2: 1, 0, 1, 0, 1.
    found = plain(run_through(assign({each: subscriber(A) for each in "abcde"}, {A: frozenset({0, 1})})))
    assert found == {
        "a": {"a": {1}},
        "b": {"a": {0}},
        "c": {"a": {1}},
        "d": {"a": {0}},
        "e": {"a": {1}},
    }


def test_the_rest_is_dealt_to_the_members_in_turn():
    # 97 % 4 is 1 and 98 % 4 is 2.
    found = plain(run_through(assign({each: subscriber(A) for each in "ab"}, {A: frozenset(range(4))})))
    assert found == {"a": {"a": {0, 1}}, "b": {"a": {2, 3}}}


def test_a_member_keeps_what_it_had_up_to_its_share():
    members = {"a": subscriber(A, a={0, 1, 2, 3}), "b": subscriber(A)}
    # The share is 2: "a" has 1 by its hash and keeps 0; "b" has 2 by its hash, and 3 is dealt to "a" first.
    assert plain(run_through(assign(members, {A: frozenset(range(4))}))) == {
        "a": {"a": {0, 1, 3}},
        "b": {"a": {2}},
    }


def test_partitions_without_a_state_are_not_kept():
    members = {"a": subscriber(A, a={0, 1, 2, 3})}
    assert plain(run_through(assign(members, {A: frozenset({2})}))) == {"a": {"a": {2}}}


def test_members_of_different_topics_have_their_own():
    members = {"a": subscriber(A), "b": subscriber(B), "c": subscriber(A, B)}
    found = plain(run_through(assign(members, {A: frozenset({0}), B: frozenset({0})})))
    # "c" has the second of both by its hash, 99.
    assert found == {"a": {"a": {0}}, "b": {"b": {0}}, "c": {"b": {0}}}


def test_a_partition_of_a_member_that_no_longer_subscribes_goes_to_another():
    members = {"a": subscriber(A, a={0}, b={0, 1}), "b": subscriber(A, B)}
    found = plain(run_through(assign(members, {A: frozenset({0}), B: frozenset({0, 1})})))
    assert found["b"]["b"] == {0, 1}


def test_members_that_shared_all_their_partitions_can_have_others():
    # All hashes select partition 0 of 12; each keeps 1 and 2, and the other nine do not fit the share of 3.
    names = [chr(96 + 12 * number) for number in range(1, 5)]
    members = {name: subscriber(A, a={1, 2}) for name in names}
    found = run_through(assign(members, {A: frozenset(range(12))}))
    assert set().union(*(by_topic[A] for by_topic in found.values())) == set(range(12))
    assert sorted(len(by_topic[A]) for by_topic in found.values()) == [5, 5, 5, 6]


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(40))
def test_every_partition_has_a_member_that_subscribes(seed):
    chance = random.Random(seed)
    assignable = {A: frozenset(range(chance.randint(0, 9))), B: frozenset(range(chance.randint(1, 9)))}
    members: dict[str, Subscriber] = {}
    for _ in range(12):
        if members and chance.random() < 0.3:
            del members[chance.choice(list(members))]
        name = f"m{chance.randint(0, 50)}"
        topics = chance.choice([(A,), (B,), (A, B)]) if seed % 2 else (A, B)
        members[name] = Subscriber(None, frozenset(topics), {})
        found = run_through(assign(members, assignable))
        assert found.keys() == members.keys()
        wanted = {
            (topic, index)
            for topic in set().union(*(m.topics for m in members.values()))
            for index in assignable[topic]
        }
        assert {pair for each in found.values() for pair in pairs(each)} == wanted
        for member_id, assigned in found.items():
            assert assigned.keys() <= members[member_id].topics
            assert all(assigned.values())
            if any(assignable[topic] for topic in members[member_id].topics):
                assert assigned
        members = {each: members[each]._replace(assigned=found[each]) for each in members}


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(20))
def test_members_of_the_same_topics_have_about_the_same_number(seed):
    chance = random.Random(seed)
    count, size = chance.randint(1, 60), chance.randint(1, 12)
    members = {f"member-{chance.random()}": subscriber(A) for _ in range(size)}
    found = run_through(assign(members, {A: frozenset(range(count))}))
    share = -(-count // size)
    assert all(1 <= len(by_topic[A]) <= share + 1 for by_topic in found.values())
