"""AlterClientQuotas responds as Kafka does (ClientQuotasRequestTest, ClientQuotaControlManagerTest)."""

import pytest

from broker.common.errors import ErrorCode
from broker.controller.client_quotas import plan_client_quotas
from broker.controller.commands import AlterClientQuotas, EntityPairs, QuotaAlteration, QuotaOp, QuotaOutcome
from broker.metadata.actor import Role
from tests.controller.world import World

ALICE: EntityPairs = (("user", "alice"),)
BOTH: EntityPairs = (("user", "alice"), ("client-id", "app"))


def alter(
    world: World,
    entity: EntityPairs,
    *ops: tuple[str, float | None],
    validate_only: bool = False,
    expected_version: int | None = None,
) -> QuotaOutcome:
    entry = QuotaAlteration(entity, tuple(QuotaOp(*op) for op in ops), expected_version)
    (outcome,) = world.do(plan_client_quotas, AlterClientQuotas((entry,), validate_only))
    return outcome


def limits(world: World, entity: EntityPairs) -> dict[str, float]:
    entry = world.image.quotas.get(entity)
    return {} if entry is None else {key: limit.value for key, limit in entry.limits.items()}


def test_the_published_sequence_of_alterations_gives_the_published_values(world: World) -> None:
    """ClientQuotasRequestTest.testAlterClientQuotasRequest."""
    assert alter(world, BOTH, ("producer_byte_rate", 10000.0), ("consumer_byte_rate", 20000.0)).ok
    assert limits(world, BOTH) == {"producer_byte_rate": 10000.0, "consumer_byte_rate": 20000.0}
    assert alter(world, BOTH, ("producer_byte_rate", 15000.0)).ok
    assert limits(world, BOTH) == {"producer_byte_rate": 15000.0, "consumer_byte_rate": 20000.0}
    assert alter(world, BOTH, ("producer_byte_rate", None)).ok
    assert limits(world, BOTH) == {"consumer_byte_rate": 20000.0}
    before = world.image
    assert alter(world, BOTH, ("request_percentage", None)).ok
    assert world.image.quotas == before.quotas
    assert alter(world, BOTH, ("producer_byte_rate", 5000.0)).ok
    assert limits(world, BOTH) == {"producer_byte_rate": 5000.0, "consumer_byte_rate": 20000.0}
    mixed = (("producer_byte_rate", 20000.0), ("consumer_byte_rate", None), ("request_percentage", 12.3))
    assert alter(world, BOTH, *mixed).ok
    assert limits(world, BOTH) == {"producer_byte_rate": 20000.0, "request_percentage": 12.3}


@pytest.mark.parametrize(
    "ops",
    [
        [("producer_byte_rate", 1.0), ("controller_mutation_rate", 2.0)],
        [("producer_byte_rate", 30000.0)],
        [("consumer_byte_rate", None)],
        [("producer_byte_rate", None), ("consumer_byte_rate", 1.0)],
    ],
)
def test_validating_only_changes_nothing(world: World, ops: list[tuple[str, float | None]]) -> None:
    """ClientQuotasRequestTest.testAlterClientQuotasRequestValidateOnly."""
    alter(world, ALICE, ("producer_byte_rate", 10000.0), ("consumer_byte_rate", 20000.0))
    before = world.image.quotas
    assert alter(world, ALICE, *ops, validate_only=True).ok
    assert world.image.quotas == before


def test_validating_only_still_says_what_is_wrong(world: World) -> None:
    outcome = alter(world, ALICE, ("producer_byte_rate", 10000.5), validate_only=True)
    assert outcome.error is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("entity", "ops"),
    [
        ((("user", ""),), [("producer_byte_rate", 1.0)]),
        ((("client-id", ""),), [("producer_byte_rate", 1.0)]),
        ((("", "name"),), [("producer_byte_rate", 1.0)]),
        ((), [("producer_byte_rate", 1.0)]),
        (ALICE, [("bad", 1.0)]),
        (ALICE, [("producer_byte_rate", 10000.5)]),
        (ALICE, [("producer_byte_rate", 0.0)]),
        (ALICE, [("producer_byte_rate", -1.0)]),
        (ALICE, [("producer_byte_rate", float("nan"))]),
        (ALICE, [("producer_byte_rate", float("inf"))]),
        (ALICE, [("producer_byte_rate", 2.0**63 + 2_048)]),
        (ALICE, [("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)]),
        (ALICE, [("connection_creation_rate", 1.0)]),
        ((("user", "a"), ("user", "b")), [("producer_byte_rate", 1.0)]),
        ((("user", "a"), ("ip", "1.2.3.4")), [("connection_creation_rate", 1.0)]),
        ((("client-id", "a"), ("ip", "1.2.3.4")), [("connection_creation_rate", 1.0)]),
        ((("ip", "1.2.3.4"),), [("producer_byte_rate", 1.0)]),
        ((("ip", "not an address"),), [("connection_creation_rate", 1.0)]),
        ((("user", "\ud800"),), [("producer_byte_rate", 1.0)]),
    ],
)
def test_bad_requests_are_invalid_and_change_nothing(
    world: World, entity: EntityPairs, ops: list[tuple[str, float | None]]
) -> None:
    """ClientQuotasRequestTest, its tests of bad entities, keys and values."""
    outcome = alter(world, entity, *ops)
    assert outcome.error is ErrorCode.INVALID_REQUEST
    assert outcome.message
    assert outcome.entity == entity
    assert world.image.version == 0


@pytest.mark.parametrize(("length", "fine"), [(1_023, True), (1_024, True), (1_025, False)])
def test_a_name_has_at_most_1024_characters(world: World, length: int, fine: bool) -> None:
    assert alter(world, (("client-id", "x" * length),), ("producer_byte_rate", 1.0)).ok is fine


def test_address_quotas_are_set_listed_and_removed(world: World) -> None:
    """ClientQuotasRequestTest.testAlterIpQuotasRequest."""
    one: EntityPairs = (("ip", "1.2.3.4"),)
    default: EntityPairs = (("ip", None),)
    assert alter(world, one, ("connection_creation_rate", 100.0)).ok
    assert alter(world, one, ("connection_creation_rate", 150.0)).ok
    assert alter(world, default, ("connection_creation_rate", 200.0)).ok
    assert limits(world, one) == {"connection_creation_rate": 150.0}
    assert set(world.image.quotas) == {one, default}
    assert alter(world, one, ("connection_creation_rate", None)).ok
    assert alter(world, default, ("connection_creation_rate", None)).ok
    assert world.image.quotas == {}


def test_names_are_kept_as_they_are(world: World) -> None:
    """ClientQuotasRequestTest.testClientQuotasWithDefaultName."""
    spaces: EntityPairs = (("user", "user with spaces"),)
    literal: EntityPairs = (("client-id", "<default>"),)
    default: EntityPairs = (("client-id", None),)
    alter(world, spaces, ("producer_byte_rate", 1.0))
    alter(world, literal, ("producer_byte_rate", 2.0))
    alter(world, default, ("producer_byte_rate", 3.0))
    assert {entity: limits(world, entity) for entity in world.image.quotas} == {
        spaces: {"producer_byte_rate": 1.0},
        literal: {"producer_byte_rate": 2.0},
        default: {"producer_byte_rate": 3.0},
    }


def test_one_record_is_written_for_each_key(world: World) -> None:
    """ClientQuotaControlManagerTest."""
    entry = QuotaAlteration(BOTH, (QuotaOp("producer_byte_rate", 1.0), QuotaOp("consumer_byte_rate", 2.0)))
    plan = world.plan(plan_client_quotas, AlterClientQuotas((entry,)))
    assert [(each.entity, each.key, each.new) for each in plan.changes] == [
        ('[["user","alice"],["client-id","app"]]', "producer_byte_rate", "1"),
        ('[["user","alice"],["client-id","app"]]', "consumer_byte_rate", "2"),
    ]


def test_the_order_of_an_entitys_parts_does_not_matter(world: World) -> None:
    alter(world, BOTH, ("producer_byte_rate", 1.0))
    alter(world, BOTH[::-1], ("producer_byte_rate", 2.0))
    assert limits(world, BOTH) == {"producer_byte_rate": 2.0}
    assert len(world.image.quotas) == 1


def test_a_value_that_is_already_so_is_not_written_again(world: World) -> None:
    alter(world, ALICE, ("producer_byte_rate", 1000.0))
    before = world.image.version
    assert alter(world, ALICE, ("producer_byte_rate", 1000.0)).ok
    assert world.image.version == before


def test_entries_are_answered_in_order_and_stand_or_fall_by_themselves(world: World) -> None:
    bob: EntityPairs = (("user", "bob"),)
    carol: EntityPairs = (("user", "carol"),)
    command = AlterClientQuotas(
        (
            QuotaAlteration(ALICE, (QuotaOp("producer_byte_rate", 1.0),)),
            QuotaAlteration(bob, (QuotaOp("consumer_byte_rate", 2.0), QuotaOp("bad", 1.0))),
            QuotaAlteration(carol, (QuotaOp("producer_byte_rate", 3.0),)),
        )
    )
    outcomes = world.do(plan_client_quotas, command)
    assert [(each.entity, each.error) for each in outcomes] == [
        (ALICE, ErrorCode.NONE),
        (bob, ErrorCode.INVALID_REQUEST),
        (carol, ErrorCode.NONE),
    ]
    assert limits(world, ALICE) == {"producer_byte_rate": 1.0}
    assert limits(world, bob) == {}
    assert limits(world, carol) == {"producer_byte_rate": 3.0}


def test_an_entity_given_twice_keeps_what_it_had(world: World) -> None:
    """Kafka applies the first and reports an error for both."""
    alter(world, BOTH, ("producer_byte_rate", 1.0))
    command = AlterClientQuotas(
        (
            QuotaAlteration(BOTH, (QuotaOp("producer_byte_rate", 2.0),)),
            QuotaAlteration(BOTH[::-1], (QuotaOp("producer_byte_rate", 3.0),)),
        )
    )
    words = "Ignoring duplicate entity user alice client-id app"
    assert world.do(plan_client_quotas, command) == [
        QuotaOutcome(ErrorCode.INVALID_REQUEST, words, BOTH),
        QuotaOutcome(ErrorCode.INVALID_REQUEST, words, BOTH[::-1]),
    ]
    assert limits(world, BOTH) == {"producer_byte_rate": 1.0}


def test_an_edit_of_the_current_version_is_accepted_and_of_an_older_one_refused(world: World) -> None:
    assert alter(world, ALICE, ("producer_byte_rate", 1.0), expected_version=0).ok
    stale = alter(world, ALICE, ("producer_byte_rate", 2.0), expected_version=0)
    assert (stale.error, stale.message) == (
        ErrorCode.INVALID_UPDATE_VERSION,
        "The quota of user alice was changed by ann (version 1)",
    )
    assert alter(world, ALICE, ("producer_byte_rate", 3.0), expected_version=1).ok
    assert limits(world, ALICE) == {"producer_byte_rate": 3.0}


def test_a_removed_entity_is_version_0_again_and_its_old_version_is_stale(world: World) -> None:
    alter(world, ALICE, ("producer_byte_rate", 1.0))
    alter(world, ALICE, ("producer_byte_rate", None))
    stale = alter(world, ALICE, ("producer_byte_rate", 2.0), expected_version=1)
    assert (stale.error, stale.message) == (
        ErrorCode.INVALID_UPDATE_VERSION,
        "The quota of user alice is now version 0",
    )
    assert alter(world, ALICE, ("producer_byte_rate", 2.0), expected_version=0).ok
    assert world.image.quotas[ALICE].version == 3


@pytest.mark.parametrize(
    ("role", "error"),
    [
        (Role.VIEWER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (Role.EDITOR, ErrorCode.NONE),
        (Role.ADMIN, ErrorCode.NONE),
    ],
)
def test_quotas_are_an_editors_to_change(world: World, role: Role, error: ErrorCode) -> None:
    command = AlterClientQuotas((QuotaAlteration(ALICE, (QuotaOp("producer_byte_rate", 1.0),)),))
    (outcome,) = world.do(plan_client_quotas, command, role)
    assert outcome.error is error
    assert bool(world.image.quotas) is outcome.ok


# Shadow mode: limits that are measured, not enforced. Kafka has no such mode.


def mark(
    world: World, entity: EntityPairs, shadow: bool | None, *ops: tuple[str, float | None]
) -> QuotaOutcome:
    entry = QuotaAlteration(entity, tuple(QuotaOp(*op) for op in ops), shadow=shadow)
    (outcome,) = world.do(plan_client_quotas, AlterClientQuotas((entry,)))
    return outcome


def is_shadow(world: World, entity: EntityPairs) -> bool:
    return entity in world.image.quotas and world.image.quotas[entity].shadow


def test_an_entity_is_marked_with_its_limits_or_later_and_the_mark_is_a_change_like_any_other(
    world: World,
) -> None:
    assert mark(world, ALICE, True, ("producer_byte_rate", 10.0)).ok
    assert is_shadow(world, ALICE)
    assert limits(world, ALICE) == {"producer_byte_rate": 10.0}
    version = world.image.quotas[ALICE].version
    assert mark(world, ALICE, False).ok
    assert not is_shadow(world, ALICE)
    assert world.image.quotas[ALICE].version > version
    before = world.image
    assert mark(world, ALICE, False).ok
    assert world.image == before
    assert mark(world, ALICE, True).ok
    assert is_shadow(world, ALICE)


def test_other_origins_leave_the_mark_alone_until_the_last_limit_goes(world: World) -> None:
    mark(world, ALICE, True, ("producer_byte_rate", 10.0), ("consumer_byte_rate", 10.0))
    assert alter(world, ALICE, ("producer_byte_rate", None)).ok
    assert alter(world, ALICE, ("request_percentage", 5.0)).ok
    assert is_shadow(world, ALICE)
    assert alter(world, ALICE, ("consumer_byte_rate", None), ("request_percentage", None)).ok
    assert ALICE not in world.image.quotas
    assert alter(world, ALICE, ("producer_byte_rate", 10.0)).ok
    assert not is_shadow(world, ALICE)


def test_an_entity_without_a_limit_cannot_be_in_shadow(world: World) -> None:
    for ops in ((), (("producer_byte_rate", None),)):
        outcome = mark(world, ALICE, True, *ops)
        assert (outcome.error, outcome.message) == (
            ErrorCode.INVALID_REQUEST,
            "user alice has no limit to put in shadow mode",
        )
    assert mark(world, ALICE, False).ok
    alter(world, ALICE, ("producer_byte_rate", 10.0))
    assert not mark(world, ALICE, True, ("producer_byte_rate", None)).ok
    assert limits(world, ALICE) == {"producer_byte_rate": 10.0}


def test_addresses_cannot_be_in_shadow(world: World) -> None:
    outcome = mark(world, (("ip", "10.0.0.7"),), True, ("connection_creation_rate", 5.0))
    assert (outcome.error, outcome.message) == (
        ErrorCode.INVALID_REQUEST,
        "Shadow mode does not apply to limits of an address",
    )
    assert world.image.quotas == {}


def test_no_key_of_kafkas_is_called_like_the_mark(world: World) -> None:
    mark(world, ALICE, True, ("producer_byte_rate", 10.0))
    assert alter(world, ALICE, ("shadow", 1.0)).message == "Invalid configuration key shadow"
    assert alter(world, ALICE, ("shadow", None)).ok
    assert is_shadow(world, ALICE)
    assert limits(world, ALICE) == {"producer_byte_rate": 10.0}


def test_a_limit_that_never_binds_is_accepted_with_a_warning(world: World) -> None:
    assert alter(world, ALICE, ("request_percentage", 100.0)).warnings == ()
    outcome = alter(world, ALICE, ("request_percentage", 800.0), ("producer_byte_rate", 5.0))
    assert outcome.ok and len(outcome.warnings) == 1
    assert "request_percentage=800 never takes effect" in outcome.warnings[0]
    assert limits(world, ALICE) == {"request_percentage": 800.0, "producer_byte_rate": 5.0}


@pytest.mark.parametrize(("algorithm", "warned"), [("rate", 1), ("paced", 0), ("token_bucket", 0)])
def test_a_small_rate_of_connections_is_warned_of_where_it_is_kept_only_roughly(
    algorithm: str, warned: int
) -> None:
    world = World(f"quota.bandwidth.algorithm={algorithm}")
    one = QuotaAlteration((("ip", "10.0.0.7"),), (QuotaOp("connection_creation_rate", 1.0),))
    (outcome,) = world.do(plan_client_quotas, AlterClientQuotas((one,), True))
    assert outcome.ok and len(outcome.warnings) == warned
    assert alter(world, ALICE, ("producer_byte_rate", 1.0)).warnings == ()
