"""Rules that apply to no client, because another one precedes them for all of their clients."""

import pytest

from broker.control.commands import EntityPairs
from broker.control.control import Control
from broker.control.views import Views
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.table import overriding, probes
from tests.control.live import Live, store

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
NAMES = (("alice", "app"), ("alice", "other"), ("bob", "app"), ("bob", "other"))


def overridden(views: Views, entity: EntityPairs) -> dict[str, EntityPairs | None]:
    (row,) = [row for row in views.each_quota() if row is not None and row.entity == entity]
    assert row == views.quota(entity)
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
