"""Equal subscriptions are held once, and what their expressions select is counted."""

from typing import NamedTuple

from broker.common.slices import SLICE, run_through
from broker.coordinator.group.consumer.assignment import metadata_hash
from broker.coordinator.group.modern_group import Subscriptions, bytes_of


def test_members_with_equal_names_share_one_tuple() -> None:
    subscriptions = Subscriptions()
    first, second = tuple("ab"), tuple("ab")
    assert first is not second
    assert subscriptions.add(first, None, ()) is first
    assert subscriptions.add(second, None, ()) is first
    assert subscriptions.topics == {"a": 1, "b": 1}
    subscriptions.remove(("a", "b"), None)
    assert subscriptions.topics == {"a": 1, "b": 1}
    subscriptions.remove(("a", "b"), None)
    assert subscriptions.topics == {}


def test_topics_are_those_of_the_names_and_of_the_expression() -> None:
    subscriptions = Subscriptions()
    subscriptions.add(("a",), "b.*", frozenset({"bb", "a"}))
    subscriptions.add((), "b.*", frozenset({"bb", "a"}))
    assert subscriptions.topics_of(("a",), "b.*") == {"a", "bb"}
    assert subscriptions.topics == {"a": 2, "bb": 2}
    # The selected topics count once for each list of names beside the expression.
    assert subscriptions.resolved_bytes == 3 + 3
    assert subscriptions.added_bytes(("c",), "b.*", {"bb"}) == 3
    assert subscriptions.added_bytes(("a",), "b.*", {"bb"}) == 0
    assert subscriptions.removed_bytes(("a",), "b.*") == 3
    before = subscriptions.copy()
    subscriptions.select("b.*", frozenset({"b"}))
    assert (subscriptions.topics, subscriptions.resolved_bytes) == ({"a": 1, "b": 2}, 3)
    assert (before.topics, before.resolved_bytes) == ({"a": 2, "bb": 2}, 6)
    subscriptions.remove(("a",), "b.*")
    subscriptions.remove((), "b.*")
    assert (subscriptions.topics, subscriptions.resolved_bytes) == ({}, 0)


def test_each_change_has_a_version_of_its_own() -> None:
    subscriptions = Subscriptions()
    versions = [subscriptions.version]
    for change in (
        lambda: subscriptions.add(("a",), "x", ()),
        lambda: subscriptions.add(("a",), "x", ()),
        lambda: subscriptions.select("x", frozenset({"b"})),
        lambda: subscriptions.remove(("a",), "x"),
    ):
        change()
        versions.append(subscriptions.version)
    assert len(set(map(id, versions))) == 5


def test_bytes_are_those_of_utf_8() -> None:
    assert bytes_of(["a", "ä", "\u20ac"]) == 1 + 2 + 3
    assert bytes_of(()) == 0


class Facts(NamedTuple):
    name: str
    topic_id: bytes
    partitions: int


def test_the_hash_is_that_of_the_topics_after_every_change() -> None:
    topics = {name: Facts(name, name.encode() * 16, 1) for name in "abc"}
    subscriptions = Subscriptions()

    def check() -> Subscriptions:
        found = run_through(subscriptions.metadata_hash(topics))
        assert found == run_through(metadata_hash(subscriptions.topics, topics))
        return subscriptions.copy()

    check()
    subscriptions.add(("a", "b"), None, ())
    before = check()
    subscriptions.add(("b", "c"), None, ())
    check()
    subscriptions.remove(("a", "b"), None)
    check()
    subscriptions.add((), "a.*", frozenset("a"))
    check()
    subscriptions.select("a.*", frozenset("ab"))
    check()
    topics = topics | {"b": Facts("b", b"b" * 16, 2)}
    check()
    subscriptions = before
    check()


def test_the_hash_of_the_same_topics_is_computed_once() -> None:
    topics = {name: Facts(name, name.encode().ljust(16), 1) for name in map(str, range(2 * SLICE))}
    subscriptions = Subscriptions()
    pauses = []
    for _ in range(3):
        subscriptions.add(tuple(topics), None, ())
        pauses.append(sum(1 for _ in subscriptions.copy().metadata_hash(topics)))
        run_through(subscriptions.metadata_hash(topics))
    assert pauses[0] > 0
    assert pauses[1:] == [0, 0]
