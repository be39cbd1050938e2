"""Invalid entries of AlterClientQuotas.

Each entry is returned with INVALID_REQUEST and a message that names the field, and is not applied.
"""

import pytest

from broker.common.errors import MAX_MESSAGE_CHARACTERS, ErrorCode
from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
    ResponseEntryData,
)
from tests.api.harness import Harness

Parts = list[tuple[str, str | None]]

RATE = "producer_byte_rate"
PERCENT = "request_percentage"
CONNECTIONS = "connection_creation_rate"
LONGEST = "x" * 32_767
"""The longest string of version 0."""

ANN: Parts = [("user", "ann")]
GOOD = RequestEntryData([EntityData("client-id", "good")], [OpData(RATE, 5.0)])


def entry(parts: Parts, *ops: tuple[str, float]) -> RequestEntryData:
    return RequestEntryData([EntityData(*part) for part in parts], [OpData(*op) for op in ops])


async def altered(harness: Harness, *entries: RequestEntryData, version: int = 1) -> list[ResponseEntryData]:
    """Return the response entries: one for each request entry, with the same entity."""
    reply = await harness.ask(AlterClientQuotasRequest(list(entries)), version)
    for requested, answered in zip(entries, reply.entries, strict=True):
        assert answered.entity == requested.entity
    answers: list[ResponseEntryData] = reply.entries
    return answers


def limits(harness: Harness) -> dict[Parts, dict[str, float]]:
    quotas = harness.control.image.quotas
    return {pairs: {key: limit.value for key, limit in each.limits.items()} for pairs, each in quotas.items()}


@pytest.mark.parametrize(
    ("parts", "key", "value", "words"),
    [
        (ANN, RATE, float("nan"), "Quota producer_byte_rate must be a finite number"),
        (ANN, RATE, float("inf"), "Quota producer_byte_rate must be a finite number"),
        (ANN, RATE, float("-inf"), "Quota producer_byte_rate must be a finite number"),
        (ANN, RATE, 2.0**63 + 2_048, "Proposed value for producer_byte_rate is too large for a LONG."),
        (ANN, RATE, -1.0, "Quota producer_byte_rate must be greater than 0"),
        (ANN, RATE, 0.0, "Quota producer_byte_rate must be greater than 0"),
        (ANN, RATE, -0.0, "Quota producer_byte_rate must be greater than 0"),
        (ANN, RATE, 5e-324, "producer_byte_rate cannot be a fractional value."),
        (ANN, RATE, 10_000.5, "producer_byte_rate cannot be a fractional value."),
        (ANN, "consumer_byte_rate", 0.5, "consumer_byte_rate cannot be a fractional value."),
        (ANN, PERCENT, float("nan"), "Quota request_percentage must be a finite number"),
        (ANN, PERCENT, float("inf"), "Quota request_percentage must be a finite number"),
        (ANN, "controller_mutation_rate", -3.5, "Quota controller_mutation_rate must be greater than 0"),
        (ANN, "bad", 1.0, "Invalid configuration key bad"),
        (ANN, "", 1.0, "Invalid configuration key "),
        (ANN, "Producer_Byte_Rate", 1.0, "Invalid configuration key Producer_Byte_Rate"),
        (ANN, CONNECTIONS, 1.0, "Invalid configuration key connection_creation_rate"),
        ([("user", "")], RATE, 1.0, "Empty user not supported"),
        ([("client-id", "")], RATE, 1.0, "Empty client-id not supported"),
        ([("ip", "")], CONNECTIONS, 1.0, "Empty ip not supported"),
        ([("", "name")], RATE, 1.0, "Unhandled client quota entity type: "),
        ([("", None)], RATE, 1.0, "Unhandled client quota entity type: "),
        ([("group", "g")], RATE, 1.0, "Unhandled client quota entity type: group"),
        ([("User", "ann")], RATE, 1.0, "Unhandled client quota entity type: User"),
        ([], RATE, 1.0, "Invalid empty client quota entity"),
        (
            [("user", "a"), ("user", "b")],
            RATE,
            1.0,
            "Invalid client quota entity, duplicate entity entry user",
        ),
        ([("ip", "1.2.3")], CONNECTIONS, 1.0, "1.2.3 is not a valid IP or resolvable host."),
        (
            [("ip", "ip with spaces")],
            CONNECTIONS,
            1.0,
            "ip with spaces is not a valid IP or resolvable host.",
        ),
        (
            [("ip", "10.0.0.1")],
            CONNECTIONS,
            2.0**31,
            f"Proposed value for {CONNECTIONS} is too large for an INT.",
        ),
        ([("ip", "10.0.0.1")], CONNECTIONS, 1.5, f"{CONNECTIONS} cannot be a fractional value."),
        ([("ip", "10.0.0.1")], RATE, 1.0, "Invalid configuration key producer_byte_rate"),
        ([("user", "x" * 1_025)], RATE, 1.0, "A user longer than 1024 characters is not supported"),
        ([("client-id", "a\x00b")], RATE, 1.0, r"The client-id has the control character '\x00'"),
        ([("user", "a\nb")], RATE, 1.0, r"The user has the control character '\n'"),
        ([("user", "a\x9bb")], RATE, 1.0, r"The user has the control character '\x9b'"),
    ],
)
async def test_a_wrong_entry_is_named_and_the_entry_beside_it_holds(
    harness: Harness, parts: Parts, key: str, value: float, words: str
) -> None:
    bad = entry(parts, (PERCENT if key == RATE else RATE, 7.0), (key, value))
    if parts and parts[0][0] == "ip":
        bad = entry(parts, (key, value))
    wrong, right = await altered(harness, bad, GOOD)
    assert (wrong.error_code, wrong.error_message) == (ErrorCode.INVALID_REQUEST, words)
    assert (right.error_code, right.error_message) == (ErrorCode.NONE, None)
    assert limits(harness) == {(("client-id", "good"),): {RATE: 5.0}}


@pytest.mark.parametrize(
    "other", [("user", "ann"), ("client-id", "app"), ("user", None), ("client-id", None)]
)
async def test_an_address_stands_alone(harness: Harness, other: tuple[str, str | None]) -> None:
    for parts in ([("ip", "10.0.0.1"), other], [other, ("ip", None)]):
        (answer,) = await altered(harness, entry(parts, (CONNECTIONS, 1.0)))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert answer.error_message.startswith("Invalid quota entity combination, IP entity should")
    assert limits(harness) == {}


async def test_an_entity_asked_for_twice_is_left_as_it_was_whatever_the_order_of_its_parts(
    harness: Harness,
) -> None:
    both: Parts = [("user", "ann"), ("client-id", None)]
    answers = await altered(harness, entry(both, (RATE, 1.0)), GOOD, entry(both[::-1], (RATE, 2.0)))
    assert [each.error_code for each in answers] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]
    assert answers[0].error_message == "Ignoring duplicate entity user ann default client-id"
    assert limits(harness) == {(("client-id", "good"),): {RATE: 5.0}}


async def test_a_key_given_twice_refuses_its_entity_and_no_other(harness: Harness) -> None:
    wrong, right = await altered(harness, entry(ANN, (RATE, 1.0), (RATE, 2.0)), GOOD)
    assert (wrong.error_code, right.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.NONE)
    assert wrong.error_message == f"Duplicate quota key {RATE} not updating quota for this entity user ann"
    assert limits(harness) == {(("client-id", "good"),): {RATE: 5.0}}


async def test_an_entry_without_ops_and_a_request_without_entries_change_nothing(harness: Harness) -> None:
    (answer,) = await altered(harness, entry(ANN))
    assert answer.error_code == ErrorCode.NONE
    assert await altered(harness) == []
    assert limits(harness) == {}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "bad",
    [
        entry([(LONGEST, "a")], (RATE, 1.0)),
        entry([("user", LONGEST)], (RATE, 1.0)),
        entry([("ip", LONGEST)], (CONNECTIONS, 1.0)),
        entry(ANN, (LONGEST, 1.0)),
        entry(ANN, (LONGEST, 1.0), (LONGEST, 2.0)),
    ],
    ids=["type", "user", "ip", "key", "key twice"],
)
async def test_a_string_of_the_greatest_length_is_answered(
    harness: Harness, bad: RequestEntryData, version: int
) -> None:
    (answer,) = await altered(harness, bad, version=version)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert 0 < len(answer.error_message) <= MAX_MESSAGE_CHARACTERS
    assert limits(harness) == {}


@pytest.mark.parametrize("version", [0, 1])
async def test_a_filter_as_long_as_a_string_can_be_is_answered(harness: Harness, version: int) -> None:
    request = DescribeClientQuotasRequest([ComponentData(LONGEST, 0, LONGEST)])
    reply = await harness.ask(request, version)
    assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert len(reply.error_message) <= MAX_MESSAGE_CHARACTERS
