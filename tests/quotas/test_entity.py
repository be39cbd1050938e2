"""Entities and their pairs."""

import pytest

from broker.quotas.entity import DEFAULT, Entity

PAIRS = [
    ((("user", "alice"),), Entity(user="alice"), "user alice"),
    ((("user", None),), Entity(user=DEFAULT), "default user"),
    ((("client-id", "app"),), Entity(client_id="app"), "client-id app"),
    ((("user", "alice"), ("client-id", None)), Entity("alice", DEFAULT), "user alice default client-id"),
    ((("ip", "10.0.0.1"),), Entity(ip="10.0.0.1"), "ip 10.0.0.1"),
]


@pytest.mark.parametrize(("pairs", "entity", "text"), PAIRS)
def test_pairs_and_entities_are_the_same_thing(pairs, entity, text):
    assert Entity.of(pairs) == entity
    assert entity.pairs == pairs
    assert str(entity) == text


def test_the_order_of_pairs_does_not_matter():
    assert Entity.of((("client-id", "app"), ("user", "alice"))) == Entity("alice", "app")


@pytest.mark.parametrize("pairs", [(("group", "x"),), (("user", "a"), ("user", "b"))])
def test_unknown_and_repeated_types_are_the_callers_mistake(pairs):
    with pytest.raises(KeyError):
        Entity.of(pairs)


def test_names_are_kept_as_they_are_and_the_default_is_none_of_them():
    spaces = Entity.of((("user", "user with spaces"),))
    assert Entity.of(spaces.pairs) == spaces
    named = Entity.of((("client-id", "<default>"),))
    assert named != Entity.of((("client-id", None),))
    assert named.pairs == (("client-id", "<default>"),)
