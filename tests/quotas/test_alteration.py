"""Validation of AlterClientQuotas, with Kafka's error messages. (KIP-546)"""

import pytest

from broker.errors import ApiError, ErrorCode
from broker.quotas.alteration import validate_alteration, validate_entity
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
        (USER, RATE, 10_000.5, "producer_byte_rate cannot be a fractional value."),
        (USER, RATE, 0.0, "Quota producer_byte_rate must be greater than 0"),
        (USER, RATE, -1.0, "Quota producer_byte_rate must be greater than 0"),
        (USER, RATE, float("nan"), "Quota producer_byte_rate must be greater than 0"),
        (USER, RATE, float("inf"), "Proposed value for producer_byte_rate is too large for a LONG."),
        (USER, RATE, 2.0**63, "Proposed value for producer_byte_rate is too large for a LONG."),
        (USER, "request_percentage", float("inf"), "too large for a DOUBLE."),
        (USER, "request_percentage", float("nan"), "Quota request_percentage must be greater than 0"),
        (IP, "connection_creation_rate", 2.0**31, "too large for an INT."),
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
