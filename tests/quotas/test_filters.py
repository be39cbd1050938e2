"""Filters of DescribeClientQuotas on Kafka's thirteen entities, and invalid filters. (KIP-546)"""

import pytest

from broker.errors import ApiError, ErrorCode
from broker.quotas.entity import Entity
from broker.quotas.filters import Component, EntityFilter, MatchType

STORED = [
    Entity.of(pairs)
    for pairs in (
        (("user", "user-1"), ("client-id", "client-id-1")),
        (("user", "user-2"), ("client-id", "client-id-1")),
        (("user", "user-3"), ("client-id", "client-id-2")),
        (("user", None), ("client-id", "client-id-1")),
        (("user", "user-1"), ("client-id", None)),
        (("user", "user-3"), ("client-id", None)),
        (("user", "user-1"),),
        (("user", "user-2"),),
        (("user", "user-3"),),
        (("user", None),),
        (("client-id", "client-id-2"),),
        (("ip", "1.2.3.4"),),
        (("ip", None),),
    )
]


def named(kind: str, name: str | None) -> Component:
    return Component(kind, MatchType.DEFAULT) if name is None else Component(kind, MatchType.EXACT, name)


def found(*components: Component, strict: bool) -> list[Entity]:
    wanted = EntityFilter(components, strict=strict)
    return [entity for entity in STORED if wanted.matches(entity)]


@pytest.mark.parametrize("entity", STORED, ids=str)
def test_asked_for_exactly_each_is_found_alone(entity):
    assert found(*(named(kind, name) for kind, name in entity.pairs), strict=True) == [entity]


@pytest.mark.parametrize(
    "pairs",
    [
        (("user", "user-1"), ("client-id", "client-id-2")),
        (("user", "user-3"), ("client-id", "client-id-1")),
        (("user", "user-2"), ("client-id", None)),
        (("user", "user-4"),),
        (("user", None), ("client-id", "client-id-2")),
        (("client-id", "client-id-1"),),
        (("client-id", "client-id-3"),),
    ],
)
def test_what_is_not_stored_is_not_found(pairs):
    assert found(*(named(kind, name) for kind, name in pairs), strict=True) == []


@pytest.mark.parametrize(
    ("components", "strict", "count"),
    [
        ([named("user", "user-1")], False, 3),
        ([named("user", "unknown")], False, 0),
        ([named("client-id", "client-id-2")], False, 2),
        ([named("user", None)], False, 2),
        ([named("user", "user-2")], True, 1),
        ([named("client-id", "client-id-1")], True, 0),
        ([Component("user", MatchType.SPECIFIED)], True, 4),
        ([Component("user", MatchType.SPECIFIED)], False, 10),
        ([Component("client-id", MatchType.SPECIFIED)], True, 1),
        ([Component("client-id", MatchType.SPECIFIED)], False, 7),
        ([Component("ip", MatchType.SPECIFIED)], True, 2),
        ([], False, 13),
        ([], True, 0),
    ],
)
def test_open_and_closed_filters_find_as_many_as_kafka(components, strict, count):
    assert len(found(*components, strict=strict)) == count


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        (
            [named("ip", "1.2.3.4"), named("user", "u")],
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component",
        ),
        (
            [Component("client-id", MatchType.SPECIFIED), Component("ip", MatchType.SPECIFIED)],
            ErrorCode.INVALID_REQUEST,
            "IP filter component should not be used with user or clientId",
        ),
        ([named("other", "name")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type other"),
        ([named("", "name")], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        (
            [named("user", "a"), Component("user", MatchType.SPECIFIED)],
            ErrorCode.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([Component("user", MatchType.EXACT)], ErrorCode.INVALID_REQUEST, "set match string to null"),
        (
            [Component("user", MatchType.DEFAULT, "x")],
            ErrorCode.INVALID_REQUEST,
            "MATCH_TYPE_DEFAULT, but also",
        ),
        (
            [Component("user", MatchType.SPECIFIED, "x")],
            ErrorCode.INVALID_REQUEST,
            "MATCH_TYPE_SPECIFIED, but",
        ),
        ([Component("user", 3)], ErrorCode.INVALID_REQUEST, "Unknown match type 3"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_kafkas_words(components, code, message):
    with pytest.raises(ApiError) as refusal:
        EntityFilter(components, strict=False)
    assert refusal.value.code is code
    assert message in (refusal.value.message or "")
