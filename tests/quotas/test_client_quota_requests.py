"""Validation of AlterClientQuotas, with Kafka's error messages. (KIP-546)"""

from math import inf, nextafter

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.quotas.client_quota_requests import (
    Component,
    EntityFilter,
    MatchType,
    validate_alteration,
    validate_entity,
    warnings_about,
)
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.kinds import CLIENT_KEYS, IP_KEYS

USER = (("user", "alice"),)
IP = (("ip", "10.0.0.1"),)
RATE = "producer_byte_rate"


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ((("user", ""),), "Empty user not supported"),
        ((("client-id", ""),), "Empty client-id not supported"),
        ((("ip", ""),), "Empty ip not supported"),
        ((("", "name"),), "Unhandled client quota entity type: "),
        ((("group", "name"),), "Unhandled client quota entity type: group"),
        ((), "Invalid empty client quota entity"),
        ((("user", "a"), ("user", "b")), "Invalid client quota entity, duplicate entity entry user"),
        ((("user", "a"), ("ip", "1.2.3.4")), "Invalid quota entity combination"),
        ((("client-id", "a"), ("ip", "1.2.3.4")), "Invalid quota entity combination"),
        ((("ip", "not a valid host because it has spaces"),), "is not a valid IP"),
        ((("ip", "RFC2606.invalid"),), "RFC2606.invalid is not a valid IP"),
    ],
)
def test_a_bad_entity_is_refused_with_what_is_wrong(pairs, message):
    with pytest.raises(ApiError) as refusal:
        validate_entity(pairs)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    assert message in (refusal.value.message or "")


@pytest.mark.parametrize(
    ("pairs", "key", "value", "message"),
    [
        (USER, "bad", 1.0, "Invalid configuration key bad"),
        *(
            (
                IP,
                key,
                1.0,
                f"{key} (KIP-612 rejected this key: set connection_creation_rate of an ip entity)",
            )
            for key in (
                "max.connection.creation.rate.per.ip",
                "max.connection.creation.rate.per.ip.overrides",
            )
        ),
        (USER, RATE, 10_000.5, "producer_byte_rate cannot be a fractional value."),
        (USER, RATE, 0.0, "Quota producer_byte_rate must be greater than 0"),
        (USER, RATE, -1.0, "Quota producer_byte_rate must be greater than 0"),
        (USER, RATE, float("nan"), "Quota producer_byte_rate must be a finite number"),
        (USER, RATE, float("inf"), "Quota producer_byte_rate must be a finite number"),
        (USER, RATE, float("-inf"), "Quota producer_byte_rate must be a finite number"),
        (
            USER,
            RATE,
            nextafter(2.0**63, inf),
            "Proposed value for producer_byte_rate is too large for a LONG.",
        ),
        (USER, "request_percentage", float("inf"), "Quota request_percentage must be a finite number"),
        (USER, "request_percentage", float("nan"), "Quota request_percentage must be a finite number"),
        (IP, "connection_creation_rate", 2.0**31, "too large for an INT."),
        (IP, "connection_creation_rate", 2.0**31 - 0.5, "too large for an INT."),
        (IP, "connection_creation_rate", 1.5, "connection_creation_rate cannot be a fractional value."),
    ],
)
def test_a_bad_key_or_value_is_refused_with_the_key_in_the_message(pairs, key, value, message):
    with pytest.raises(ApiError) as refusal:
        validate_alteration(pairs, [("controller_mutation_rate", None), (key, value)])
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    assert message in (refusal.value.message or "")


@pytest.mark.parametrize(
    ("pairs", "key", "value"),
    [
        (USER, RATE, 1.0),
        (USER, RATE, 2.0**63 - 1_024),
        (USER, RATE, 2.0**63),
        (USER, RATE, 10_000.0000001),
        (USER, "request_percentage", 0.01),
        (USER, "controller_mutation_rate", 12.3),
        (IP, "connection_creation_rate", 2.0**31 - 1),
        ((("ip", None),), "connection_creation_rate", 10.0),
        ((("ip", "2001:db8::1"),), "connection_creation_rate", 10.0),
    ],
)
def test_values_just_inside_their_ranges_are_allowed(pairs, key, value):
    assert validate_alteration(pairs, [(key, value)]) == Entity.of(pairs)


def test_addresses_have_their_own_key_and_clients_theirs():
    assert set(CLIENT_KEYS) == {
        *("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    }
    assert set(IP_KEYS) == {"connection_creation_rate"}
    for pairs, key in ((USER, "connection_creation_rate"), (IP, RATE)):
        with pytest.raises(ApiError, match=f"Invalid configuration key {key}"):
            validate_alteration(pairs, [(key, 1.0)])


def test_a_key_may_be_given_once():
    with pytest.raises(ApiError, match=r"Duplicate quota key producer_byte_rate .* user alice"):
        validate_alteration(USER, [(RATE, 1.0), (RATE, None)])


def test_a_removal_names_any_key():
    assert validate_alteration(USER, [("never heard of", None)]) == Entity("alice")


def test_the_default_and_both_parts_are_entities():
    assert validate_entity((("client-id", None), ("user", "alice"))) == Entity("alice", DEFAULT)


@pytest.mark.parametrize(
    ("spelling", "written"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_an_address_has_one_spelling_and_another_can_still_be_removed(spelling, written):
    entity = (("ip", spelling),)
    with pytest.raises(ApiError, match=f"Invalid ip {spelling}, expected {written}"):
        validate_alteration(entity, [("connection_creation_rate", 1.0)])
    assert validate_alteration(entity, [("connection_creation_rate", None)]) == Entity(ip=spelling)
    validate_alteration((("ip", written),), [("connection_creation_rate", 1.0)])


@pytest.mark.parametrize(("percent", "warnings"), [(99.9, 0), (100.0, 0), (100.1, 1), (800.0, 1)])
def test_more_request_time_than_one_thread_has_is_reported(percent: float, warnings: int) -> None:
    assert len(warnings_about([("request_percentage", percent)])) == warnings


def test_the_sentence_names_key_value_and_what_can_be_reached() -> None:
    (sentence,) = warnings_about([("request_percentage", 800.0)])
    assert sentence == (
        "request_percentage=800 never takes effect: one thread serves all requests, "
        "so no client can use more than 100"
    )


@pytest.mark.parametrize(
    ("gateways", "most", "there"), [(1, 100, "is one gateway"), (3, 300, "are 3 gateways")]
)
def test_gateways_that_share_a_limit_have_a_thread_each(gateways: int, most: int, there: str) -> None:
    assert warnings_about([("request_percentage", most)], gateways) == ()
    (sentence,) = warnings_about([("request_percentage", most + 0.5)], gateways)
    assert sentence == (
        f"request_percentage={most}.5 takes no effect while there {there}: each has one thread, "
        f"so no client can use more than {most}"
    )


def test_a_removal_and_other_keys_are_not_reported() -> None:
    assert warnings_about([("request_percentage", None), ("producer_byte_rate", 800.0)]) == ()


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
def test_an_absent_entity_is_not_found(pairs):
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
def test_an_invalid_filter_is_refused_with_kafkas_words(components, code, message):
    with pytest.raises(ApiError) as refusal:
        EntityFilter(components, strict=False)
    assert refusal.value.code is code
    assert message in (refusal.value.message or "")
