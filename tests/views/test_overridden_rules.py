"""Rules that apply to no client, because others precede them for all of their clients."""

import pytest

from broker.common.slices import run_through
from broker.controller.commands import EntityPairs
from broker.controller.control import Control
from broker.controller.rows.quotas import OverriddenBy
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.table import overriding, probes
from broker.views.console import Views
from broker.views.quota_rows import MAX_RULES, ClientsByLimit, clients_by_limit, rules_in_steps
from tests.controller.live import Live, store

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
NAMES = (("alice", "app"), ("alice", "other"), ("bob", "app"), ("bob", "other"))


def overridden(views: Views, entity: EntityPairs) -> dict[str, EntityPairs | None]:
    """Return the rule that overrides each limit."""
    return {
        key: None if found is None else found.rules[0] for key, found in overriders(views, entity).items()
    }


def overriders(views: Views, entity: EntityPairs) -> dict[str, OverriddenBy | None]:
    (row,) = [row for row in views.quotas.each_quota() if row is not None and row.entity == entity]
    assert row == run_through(views.quotas.quota(entity))
    return {limit.key: limit.overridden_by for limit in row.limits}


@pytest.mark.parametrize("rule", probes("alice", "app"))
def test_a_rule_is_overridden_by_what_comes_first_for_each_of_its_clients(rule) -> None:
    above = overriding(rule)
    for client in NAMES:
        order = probes(*client)
        if rule in order:
            assert all(other in order and order.index(other) < order.index(rule) for other in above)


@pytest.mark.parametrize(
    ("rule", "above"),
    [
        (("alice", "app"), []),
        (("alice", DEFAULT), []),
        (("alice", None), [("alice", DEFAULT)]),
        ((DEFAULT, "app"), []),
        ((DEFAULT, DEFAULT), []),
        ((DEFAULT, None), [(DEFAULT, DEFAULT)]),
        ((None, "app"), [(DEFAULT, "app"), (DEFAULT, DEFAULT), (DEFAULT, None)]),
        ((None, DEFAULT), [(DEFAULT, DEFAULT), (DEFAULT, None)]),
    ],
)
def test_the_rules_that_override_another_are_in_order_of_precedence(rule, above) -> None:
    assert list(overriding(rule)) == above


async def test_a_default_user_overrides_client_ids_limit_by_limit(
    control: Control, views: Views, live: Live
) -> None:
    app, users, alice = (("client-id", "app"),), (("user", None),), (("user", "alice"),)
    await store(control, (app, PRODUCE, 1.0), (app, FETCH, 1.0), (alice, PRODUCE, 1.0))
    assert overridden(views, app) == {PRODUCE: None, FETCH: None}
    await store(control, (users, PRODUCE, 3.0))
    assert overridden(views, app) == {PRODUCE: users, FETCH: None}
    assert overridden(views, alice) == {PRODUCE: None}
    both = (("user", None), ("client-id", None))
    await store(control, (both, PRODUCE, 3.0), (both, FETCH, 3.0))
    assert overridden(views, app) == {PRODUCE: both, FETCH: both}
    assert overridden(views, users) == {PRODUCE: both}
    assert Entity(DEFAULT, DEFAULT).pairs == both


async def test_limits_of_addresses_are_never_overridden(control: Control, views: Views) -> None:
    key = "connection_creation_rate"
    await store(control, ((("ip", None),), key, 1.0), ((("ip", "10.0.0.7"),), key, 2.0))
    assert overridden(views, (("ip", "10.0.0.7"),)) == {key: None}


ALICE: EntityPairs = (("user", "alice"),)
BOB: EntityPairs = (("user", "bob"),)
APP: EntityPairs = (("client-id", "app"),)
EACH_USER: EntityPairs = (("user", None),)
EACH_CLIENT: EntityPairs = (("client-id", None),)


async def test_connected_clients_show_the_rules_that_override_a_limit(
    control: Control, views: Views, live: Live
) -> None:
    await store(control, (APP, PRODUCE, 1.0), (APP, FETCH, 1.0), (ALICE, PRODUCE, 2.0), (BOB, PRODUCE, 2.0))
    assert overriders(views, APP) == {PRODUCE: None, FETCH: None}

    live.connected = [("bob", "app"), ("alice", "other"), ("bob", "app")]
    by_bob = OverriddenBy((BOB,), clients=1)
    assert overriders(views, APP) == {PRODUCE: by_bob, FETCH: None}
    assert overriders(views, BOB) == {PRODUCE: None}

    live.connected += [("alice", "app")]
    assert overriders(views, APP)[PRODUCE] == OverriddenBy((ALICE, BOB), clients=2)
    assert overriders(views, ALICE) == {PRODUCE: None}

    live.connected += [("carol", "app")]
    assert overriders(views, APP)[PRODUCE] is None


async def test_connected_clients_name_the_rule_that_applies_to_them_before_a_default(
    control: Control, views: Views, live: Live
) -> None:
    await store(control, (APP, PRODUCE, 1.0), (ALICE, PRODUCE, 2.0), (EACH_USER, PRODUCE, 3.0))
    assert overriders(views, APP) == {PRODUCE: OverriddenBy((EACH_USER,))}
    live.connected = [("alice", "app")]
    assert overriders(views, APP) == {PRODUCE: OverriddenBy((ALICE,), clients=1)}
    assert overriders(views, EACH_USER) == {PRODUCE: OverriddenBy((ALICE,), clients=1)}
    live.connected = [("alice", "app"), ("bob", "app"), ("carol", "app")]
    assert overriders(views, APP) == {PRODUCE: OverriddenBy((EACH_USER, ALICE), clients=3)}
    assert overriders(views, EACH_USER) == {PRODUCE: None}


@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_so_many_overriding_rules_are_listed(
    control: Control, views: Views, live: Live, more: int
) -> None:
    users = [f"user-{number:02}" for number in range(MAX_RULES + more)]
    await store(control, (EACH_CLIENT, PRODUCE, 1.0), *(((("user", user),), PRODUCE, 2.0) for user in users))
    live.connected = [(user, "app") for user in users]
    found = overriders(views, EACH_CLIENT)[PRODUCE]
    assert found is not None
    assert found.rules == tuple((("user", user),) for user in users[:MAX_RULES])
    assert (found.more, found.clients) == (max(0, more), len(users))


@pytest.mark.parametrize(("clients", "is_reported"), [(2, True), (3, True), (4, False)])
async def test_nothing_is_known_of_more_clients_than_are_examined(
    control: Control, clients: int, is_reported: bool
) -> None:
    await store(control, (APP, PRODUCE, 1.0), (EACH_USER, PRODUCE, 2.0))

    def examined(rule: Entity | None = None) -> ClientsByLimit:
        connected = [(f"user-{number}", "app") for number in range(clients)]
        rules = run_through(rules_in_steps(control.image.quotas))
        return run_through(clients_by_limit(rules, connected * 2, rule, max_clients=3))

    expected = OverriddenBy((EACH_USER,), clients=clients if is_reported else None)
    assert examined().overriding(APP, PRODUCE) == expected
    assert examined(Entity(None, "app")).overriding(APP, PRODUCE) == expected
    assert examined(Entity("user-1", None)).overriding(APP, PRODUCE) == OverriddenBy((EACH_USER,), clients=1)
