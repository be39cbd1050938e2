"""AlterClientQuotas and DescribeClientQuotas over the wire."""

from collections.abc import Mapping

import pytest

from broker.common.errors import ErrorCode
from broker.common.temporary_limits import TemporaryLimit
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, TemporaryOp
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from tests.api.harness import Harness

Entity = Mapping[str, str | None]
Values = dict[str, float | None]

EXACT, DEFAULT, ANY = 0, 1, 2
BOTH: Entity = {"user": "ann", "client-id": "app"}


async def alter(
    harness: Harness, entity: Entity, values: Values, *, validate_only: bool = False
) -> ErrorCode:
    parts = [EntityData(kind, name) for kind, name in entity.items()]
    ops = [OpData(key, value or 0.0, value is None) for key, value in values.items()]
    reply = await harness.ask(AlterClientQuotasRequest([RequestEntryData(parts, ops)], validate_only))
    (entry,) = reply.entries
    assert {part.entity_type: part.entity_name for part in entry.entity} == entity
    assert bool(entry.error_code) == bool(entry.error_message)
    return ErrorCode(entry.error_code)


async def describe(
    harness: Harness, *components: tuple[str, int, str | None], strict: bool = False
) -> list[tuple[Entity, dict[str, float]]]:
    filters = [ComponentData(*component) for component in components]
    reply = await harness.ask(DescribeClientQuotasRequest(filters, strict))
    assert reply.error_code == ErrorCode.NONE, reply
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in reply.entries
    ]


async def test_an_altered_quota_is_described(harness: Harness) -> None:
    steps: list[tuple[Values, dict[str, float]]] = [
        (
            {"producer_byte_rate": 10_000, "consumer_byte_rate": 20_000},
            {"producer_byte_rate": 10_000, "consumer_byte_rate": 20_000},
        ),
        ({"producer_byte_rate": 15_000}, {"producer_byte_rate": 15_000, "consumer_byte_rate": 20_000}),
        ({"producer_byte_rate": None}, {"consumer_byte_rate": 20_000}),
        ({"request_percentage": None}, {"consumer_byte_rate": 20_000}),
        ({"producer_byte_rate": 5_000}, {"producer_byte_rate": 5_000, "consumer_byte_rate": 20_000}),
        (
            {"producer_byte_rate": 20_000, "consumer_byte_rate": None, "request_percentage": 12.3},
            {"producer_byte_rate": 20_000, "request_percentage": 12.3},
        ),
    ]
    for values, expected in steps:
        assert await alter(harness, BOTH, values) == ErrorCode.NONE
        assert await describe(harness, ("user", EXACT, "ann"), ("client-id", EXACT, "app")) == [
            (BOTH, expected)
        ]


async def test_validating_changes_nothing(harness: Harness) -> None:
    steps: list[Values] = [
        {"producer_byte_rate": 20_000},
        {"consumer_byte_rate": 30_000},
        {"producer_byte_rate": None},
        {"producer_byte_rate": None, "request_percentage": 5},
    ]
    await alter(harness, BOTH, {"producer_byte_rate": 10_000})
    for values in steps:
        assert await alter(harness, BOTH, values, validate_only=True) == ErrorCode.NONE
        assert await describe(harness) == [(BOTH, {"producer_byte_rate": 10_000})]


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ({"user": ""}, {"producer_byte_rate": 1}),
        ({"client-id": ""}, {"producer_byte_rate": 1}),
        ({"": "name"}, {"producer_byte_rate": 1}),
        ({}, {"producer_byte_rate": 1}),
        ({"user": "ann"}, {"bad": 1}),
        ({"user": "ann"}, {"producer_byte_rate": 10_000.5}),
        ({"user": "ann"}, {"producer_byte_rate": 0.0}),
        ({"user": "ann"}, {"producer_byte_rate": -1}),
        ({"user": "ann"}, {"request_percentage": float("nan")}),
        ({"user": "ann", "ip": "127.0.0.1"}, {"producer_byte_rate": 1}),
        ({"client-id": "app", "ip": "127.0.0.1"}, {"producer_byte_rate": 1}),
        ({"ip": "not an address"}, {"connection_creation_rate": 1}),
        ({"ip": "127.0.0.1"}, {"producer_byte_rate": 1}),
        ({"user": "ann"}, {"connection_creation_rate": 1}),
    ],
)
async def test_a_wrong_alteration_is_an_invalid_request(
    harness: Harness, entity: Entity, values: Values
) -> None:
    assert await alter(harness, entity, values) == ErrorCode.INVALID_REQUEST
    assert await describe(harness) == []


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("ip", EXACT, "127.0.0.1"), ("user", EXACT, "ann")], ErrorCode.INVALID_REQUEST),
        ([("ip", EXACT, "127.0.0.1"), ("client-id", EXACT, "app")], ErrorCode.INVALID_REQUEST),
        ([("other", EXACT, "x")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("", EXACT, "x")], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_an_invalid_filter_gets_an_error_and_no_entries(
    harness: Harness, components: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    request = DescribeClientQuotasRequest([ComponentData(*each) for each in components])
    reply = await harness.ask(request)
    assert (reply.error_code, reply.entries) == (error, None)
    assert reply.error_message


async def test_addresses_have_one_limit(harness: Harness) -> None:
    one, all_others = {"ip": "127.0.0.1"}, {"ip": None}
    for rate in (100, 150):
        assert await alter(harness, one, {"connection_creation_rate": rate}) == ErrorCode.NONE
        assert await describe(harness, ("ip", EXACT, "127.0.0.1")) == [
            (one, {"connection_creation_rate": rate})
        ]
    await alter(harness, all_others, {"connection_creation_rate": 200})
    assert await describe(harness, ("ip", DEFAULT, None)) == [(all_others, {"connection_creation_rate": 200})]
    assert len(await describe(harness, ("ip", ANY, None))) == 2
    for entity in (one, all_others):
        await alter(harness, entity, {"connection_creation_rate": None})
    assert await describe(harness, ("ip", ANY, None)) == []


async def test_names_are_taken_as_they_are(harness: Harness) -> None:
    entities: list[Entity] = [{"user": "user with spaces"}, {"client-id": "<default>"}, {"client-id": None}]
    for number, entity in enumerate(entities, 1):
        assert await alter(harness, entity, {"producer_byte_rate": number}) == ErrorCode.NONE
    assert await describe(harness, ("user", EXACT, "user with spaces")) == [
        (entities[0], {"producer_byte_rate": 1})
    ]
    assert await describe(harness, ("client-id", EXACT, "<default>")) == [
        (entities[1], {"producer_byte_rate": 2})
    ]
    assert await describe(harness, ("client-id", DEFAULT, None)) == [(entities[2], {"producer_byte_rate": 3})]


async def test_shadow_mode_is_not_seen_over_the_wire_and_stays_until_the_last_limit_goes(
    harness: Harness,
) -> None:
    await alter(harness, BOTH, {"producer_byte_rate": 1_000})
    entry = QuotaAlteration(tuple(BOTH.items()), (), shadow=True)
    await harness.control.apply(AlterClientQuotas((entry,)), BROKER_ITSELF)
    assert await describe(harness) == [(BOTH, {"producer_byte_rate": 1_000})]
    assert await alter(harness, BOTH, {"producer_byte_rate": None, "consumer_byte_rate": 5}) == ErrorCode.NONE
    (entry_now,) = harness.control.image.quotas.values()
    assert entry_now.shadow
    await alter(harness, BOTH, {"consumer_byte_rate": None})
    await alter(harness, BOTH, {"consumer_byte_rate": 5})
    (entry_now,) = harness.control.image.quotas.values()
    assert not entry_now.shadow


async def test_the_permanent_limits_are_seen_over_the_wire_below_temporary_ones(harness: Harness) -> None:
    limit = TemporaryLimit(5_000.0, until_ms=harness.clock.wall_ms() + 1)
    times = (TemporaryOp("producer_byte_rate", limit), TemporaryOp("consumer_byte_rate", limit))
    entry = QuotaAlteration(tuple(BOTH.items()), (), temporary=times)
    await harness.control.apply(AlterClientQuotas((entry,)), BROKER_ITSELF)
    assert await describe(harness) == []
    await alter(harness, BOTH, {"producer_byte_rate": 1_000})
    assert await describe(harness) == [(BOTH, {"producer_byte_rate": 1_000})]
    (entry_now,) = harness.control.image.quotas.values()
    assert {key: each.value for key, each in entry_now.limits.items()} == {
        "consumer_byte_rate": 5_000,
        "producer_byte_rate": 5_000,
    }


async def test_every_entity_asked_for_is_echoed_and_stands_by_itself(harness: Harness) -> None:
    request = AlterClientQuotasRequest(
        [
            RequestEntryData([EntityData("user", "ann")], [OpData("producer_byte_rate", 1.0)]),
            RequestEntryData([EntityData("user", "bob")], [OpData("bad", 1.0)]),
            RequestEntryData([EntityData("user", None)], [OpData("producer_byte_rate", 3.0)]),
        ]
    )
    for version in (0, 1):
        reply = await harness.ask(request, version)
        assert [(each.entity[0].entity_name, each.error_code) for each in reply.entries] == [
            ("ann", ErrorCode.NONE),
            ("bob", ErrorCode.INVALID_REQUEST),
            (None, ErrorCode.NONE),
        ]
    assert len(await describe(harness)) == 2


async def test_nothing_found_is_an_empty_list_and_never_null(harness: Harness) -> None:
    for version in (0, 1):
        assert (await harness.ask(DescribeClientQuotasRequest(), version)).entries == []


async def test_a_limit_that_never_binds_is_logged_since_the_response_has_no_place_for_it(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    assert await alter(harness, BOTH, {"request_percentage": 100.0}) is ErrorCode.NONE
    assert not caplog.records
    assert await alter(harness, BOTH, {"request_percentage": 101.0}) is ErrorCode.NONE
    (record,) = caplog.records
    assert record.message.startswith("request_percentage=101 never takes effect")
