"""Clients, addresses and Explain of all gateways that share limits, at the console of one."""

import pytest
from msgspec.structs import replace

from broker.common.slices import run_through
from broker.controller.commands import AlterClientQuotas, EntityPairs, QuotaAlteration, QuotaOp
from broker.controller.control import Control
from broker.controller.rows.connections import AddressUse
from broker.controller.rows.quotas import ClientUsage, FirstWait, GatewayUse, MeasuredBy, ResolvedLimit
from broker.controller.rows.upstream import Incomplete
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.remote_use import SensorUse
from broker.views.console import Views
from broker.views.quota_views import all_clients
from tests.controller.live import Live, client, store
from tests.controller.world import actor
from tests.support.fake_shares import FakeShares
from tests.support.view_rows import address_rows, usage_rows

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
PERCENT, MUTATIONS = "request_percentage", "controller_mutation_rate"
IP_RATE = "connection_creation_rate"
ALICE: EntityPairs = (("user", "alice"),)
ANY_APP: EntityPairs = (("client-id", None),)
QUOTA, CONNECTIONS = MeasuredBy.QUOTA, MeasuredBy.CONNECTIONS


def at(gateway: str, row: ClientUsage) -> ClientUsage:
    return replace(row, gateways=(gateway,))


def found_for(
    views: Views, key: str, *edits: QuotaAlteration, who: tuple[str, str] = ("alice", "app"), ip: str = ""
) -> tuple[ResolvedLimit, ResolvedLimit]:
    limits = run_through(views.quotas.resolve(*who, ip or None, edits))
    return next((now, then) for now, then in limits if now.key == key)


def set_limit(entity: EntityPairs, key: str, value: float | None) -> QuotaAlteration:
    return QuotaAlteration(entity, (QuotaOp(key, value),))


# Clients


def test_without_other_gateways_the_rows_are_its_own() -> None:
    own = [client("alice", "app", 1.0), client("bob", "app", 2.0)]
    assert list(all_clients(own, (), lambda _user, _client: ())) == own


def test_a_client_of_several_gateways_is_one_row() -> None:
    row = ClientUsage("alice", "app", 1, 10.0, 1.0, 0.5, 3.0, 100, 10, 5, 500, 900, (PRODUCE,))
    one = replace(row, history=lambda: [(0, 0, 0), (1, 2, 3)])
    two = replace(
        at("g2", row), connections=4, request_percentage=7.5, since_at_ms=400, limited_by=(), history=tuple
    )
    three = replace(
        at("g3", row),
        bytes_in_per_s=5.5,
        request_percentage=None,
        last_active_at_ms=1_000,
        limited_by=(),
        history=lambda: [(9, 9, 9), (10, 20, 30), (100, 200, 300)],
    )
    (found,) = filter(None, all_clients([one], [two, three], lambda _user, _client: ("unused",)))
    assert replace(found, history=tuple) == ClientUsage(
        "alice", "app", 6, 25.5, 3.0, 1.5, 7.5, 300, 30, 15, 400, 1_000, (PRODUCE,), gateways=("g2", "g3")
    )
    # The last intervals are the same.
    assert list(found.history()) == [(9, 9, 9), (10, 20, 30), (101, 202, 303)]


def test_a_client_only_of_other_gateways_has_the_limits_that_apply_to_it() -> None:
    limits = {("bob", "app"): (PRODUCE, FETCH)}
    there = [at("g2", client("bob", "app", 3.0)), at("g2", client("carol", "app", 2.0))]
    rows = filter(None, all_clients((), there, lambda user, name: limits.get((user, name), ())))
    assert [(row.user, row.limited_by, row.gateways, row.request_percentage) for row in rows] == [
        ("bob", (PRODUCE, FETCH), ("g2",), None),
        ("carol", (), ("g2",), None),
    ]


def test_a_gateway_that_lists_a_client_twice_is_named_once() -> None:
    there = [at("g2", client("bob", "app", 3.0))] * 2
    (found,) = filter(None, all_clients((), there, lambda _user, _client: ()))
    assert (found.bytes_in_per_s, found.gateways) == (6.0, ("g2",))


@pytest.mark.parametrize("rows", [0, 1, 129])
def test_many_clients_of_other_gateways_are_collected_one_at_a_time(rows: int) -> None:
    there = [at("g2", client("bob", f"app {number}")) for number in range(rows)]
    found = list(all_clients((), there, lambda _user, _client: ()))
    assert (found[:rows], found.count(None), len(found)) == ([None] * rows, rows, 2 * rows)


def test_the_usage_of_all_gateways_is_listed_the_busiest_first(
    gateway_views: Views, live: Live, shares: FakeShares
) -> None:
    live.clients = [client("alice", "app", 10.0), client("bob", "app", 12.0)]
    live.limiting["carol", "app"] = (PRODUCE,)
    shares.client_rows = [at("g2", client("alice", "app", 5.0)), at("g2", client("carol", "app", 13.0))]
    rows = [(row.user, row.bytes_in_per_s, row.limited_by) for row in usage_rows(gateway_views)]
    assert rows == [("alice", 15.0, ()), ("carol", 13.0, (PRODUCE,)), ("bob", 12.0, ())]
    assert (gateway_views.shares.unlisted_clients(), sorted(gateway_views.shares.without_report())) == (0, [])


# Addresses


async def test_an_address_has_its_use_at_each_gateway(
    control: Control, gateway_views: Views, live: Live, shares: FakeShares
) -> None:
    limits = (set_limit((("ip", None),), IP_RATE, 5.0), set_limit((("ip", "10.0.0.7"),), IP_RATE, 20.0))
    await control.apply(AlterClientQuotas(limits), actor())
    live.seen = [AddressUse("10.0.0.7", 1.0, 2, None, 9, 1, 0)]
    shares.address_rows = [
        AddressUse("10.0.0.7", 3.0, 4, None, 9, 1, 0, "g2"),
        AddressUse("10.0.0.7", 2.0, 4, None, 9, 1, 0, "g3"),
        AddressUse("10.0.0.8", 1.0, 4, None, 9, 1, 0, "g2"),
    ]
    rows = {row.address: row for row in address_rows(gateway_views)}
    assert set(rows) == {None, "10.0.0.7", "10.0.0.8"}
    both, there = rows["10.0.0.7"], rows["10.0.0.8"]
    assert (both.limit, both.use, both.elsewhere) == (20, live.seen[0], tuple(shares.address_rows[:2]))
    assert both.uses == (live.seen[0],) and both.all_uses == (live.seen[0], *shares.address_rows[:2])
    assert (there.limit, there.bound, there.use) == (None, 5, None)
    assert there.elsewhere == (shares.address_rows[2],)
    assert rows[None].elsewhere == () and gateway_views.shares.unlisted_addresses() == 0


# Explain


def use(
    gateway: str,
    observed: float,
    throttled: int = 0,
    *,
    key: str = PRODUCE,
    rule: Entity | None = None,
    clients: tuple[str | None, str | None] = ("alice", None),
) -> tuple[str, SensorUse]:
    return gateway, SensorUse(key, rule or Entity("alice"), clients, observed, throttled)


async def test_a_shared_limit_has_the_sum_and_what_each_gateway_does(
    control: Control, gateway_views: Views, live: Live, shares: FakeShares
) -> None:
    await store(control, (ALICE, PRODUCE, 100.0))
    live.sensors[PRODUCE, "alice", "app", ""] = 30.0
    live.throttled_here[PRODUCE] = [("alice", None), ("bob", None), ("alice", None)]
    shares.uses = [use("g2", 50.0, 3), use("g3", 40.0), use("g2", 7.0, 1, clients=("bob", None))]
    shares.parts = {"": 0.25, "g2": 0.5}
    now, then = found_for(gateway_views, PRODUCE)
    assert now is then
    assert (now.observed, now.measured_by, now.wait_ms, now.unlisted) == (120.0, QUOTA, 2_000, ())
    assert now.gateways == (
        GatewayUse("", 30.0, 2, 25.0),
        GatewayUse("g2", 50.0, 3, 50.0),
        GatewayUse("g3", 40.0, 0, None),
    )


async def test_the_first_throttle_is_that_of_this_gateways_share(
    control: Control, gateway_views: Views, live: Live, shares: FakeShares
) -> None:
    await store(control, (ALICE, PRODUCE, 100.0))
    live.sensors[PRODUCE, "alice", "app", ""] = 30.0
    lowered = set_limit(ALICE, PRODUCE, 20.0)
    assert found_for(gateway_views, PRODUCE, lowered)[1].first_wait == FirstWait(5_000, 25.0, 2_000)
    shares.parts = {"": 0.5}
    now, then = found_for(gateway_views, PRODUCE, lowered)
    assert (now.first_wait, then.first_wait) == (None, FirstWait(20_000, 50.0, 2_000))


async def test_a_limit_that_throttles_no_client_has_no_first_throttle(
    control: Control, gateway_views: Views, live: Live
) -> None:
    await store(control, (ALICE, PRODUCE, 100.0))
    live.sensors[PRODUCE, "alice", "app", ""] = 300.0
    into = QuotaAlteration(ALICE, (), shadow=True)
    assert found_for(gateway_views, PRODUCE, into)[1].first_wait is None
    await control.apply(AlterClientQuotas((into,)), actor())
    out = QuotaAlteration(ALICE, (), shadow=False)
    assert found_for(gateway_views, PRODUCE, out)[1].first_wait == FirstWait(0)


async def test_a_client_that_only_another_gateway_has_is_explained(
    control: Control, gateway_views: Views, shares: FakeShares
) -> None:
    await store(control, (ANY_APP, PRODUCE, 100.0))
    rule = Entity(client_id=DEFAULT)
    shares.uses = [use("g2", 150.0, 4, rule=rule, clients=(None, "app"))]
    now, _ = found_for(gateway_views, PRODUCE)
    assert (now.matched, now.observed, now.wait_ms) == (ANY_APP, 150.0, 5_000)
    assert now.gateways == (GatewayUse("g2", 150.0, 4, None),)
    other, _ = found_for(gateway_views, PRODUCE, who=("alice", "another"))
    assert (other.observed, other.wait_ms, other.gateways) == (None, None, ())


async def test_request_time_is_shared(
    control: Control, gateway_views: Views, live: Live, shares: FakeShares
) -> None:
    await store(control, (ALICE, PERCENT, 50.0))
    live.sensors[PERCENT, "alice", "app", ""] = 30.0
    shares.uses = [use("g2", 60.0, 1, key=PERCENT), use("g3", 40.0, key=PERCENT)]
    now, _ = found_for(gateway_views, PERCENT)
    assert now.observed == 130.0
    assert [each.gateway for each in now.gateways] == ["", "g2", "g3"]


async def test_mutations_are_shared(control: Control, gateway_views: Views, shares: FakeShares) -> None:
    await store(control, (ALICE, MUTATIONS, 10.0))
    shares.uses = [use("g2", 6.0, key=MUTATIONS), use("g3", 5.0, key=MUTATIONS)]
    now, _ = found_for(gateway_views, MUTATIONS)
    assert (now.observed, now.wait_ms) == (11.0, 1_000)


async def test_an_address_is_explained_by_its_rate_at_all_gateways(
    control: Control, gateway_views: Views, live: Live, shares: FakeShares
) -> None:
    limits = (set_limit((("ip", "10.0.0.7"),), IP_RATE, 10.0),)
    await control.apply(AlterClientQuotas(limits), actor())
    live.sensors[IP_RATE, "alice", "app", "10.0.0.7"] = 4.0
    shares.address_rows = [
        AddressUse("10.0.0.7", 12.0, 4, None, 9, 1, 0, "g2"),
        AddressUse("10.0.0.8", 99.0, 4, None, 9, 1, 0, "g2"),
    ]
    now, _ = found_for(gateway_views, IP_RATE, ip="10.0.0.7")
    assert now.observed == 16.0
    assert now.gateways == (GatewayUse("", 4.0), GatewayUse("g2", 12.0))
    shares.not_complete = Incomplete(uses=frozenset({"g2"}), addresses=frozenset({"g2", "g3"}))
    now, _ = found_for(gateway_views, IP_RATE, ip="10.0.0.7")
    assert now.unlisted == ("g3",)


async def test_a_client_without_a_limit_has_the_use_of_its_connections_at_all_gateways(
    gateway_views: Views, live: Live, shares: FakeShares
) -> None:
    live.clients = [client("alice", "app", 10.0, percent=3.0), client("bob", "app", 99.0)]
    shares.client_rows = [
        at("g2", client("alice", "app", 5.0, percent=4.0)),
        at("g3", client("alice", "other", 7.0)),
    ]
    shares.not_complete = Incomplete(clients=frozenset({"g2", "g3"}), uses=frozenset({"g4"}))
    now, _ = found_for(gateway_views, PRODUCE)
    assert (now.matched, now.observed, now.measured_by) == (None, 15.0, CONNECTIONS)
    assert now.gateways == (GatewayUse("", 10.0), GatewayUse("g2", 5.0))
    assert now.unlisted == ("g3",)
    percent, _ = found_for(gateway_views, PERCENT)
    assert percent.observed == 7.0


async def test_another_rule_is_tried_with_the_clients_of_all_gateways(
    control: Control, gateway_views: Views, live: Live, shares: FakeShares
) -> None:
    await store(control, (ANY_APP, PRODUCE, 100.0))
    live.sensors[PRODUCE, "alice", "app", ""] = 10.0
    live.clients = [client("alice", "app", 11.0)]
    shares.client_rows = [at("g2", client("alice", "app", 5.0)), at("g3", client("alice", "other", 7.0))]
    shares.parts = {"": 0.5}
    now, then = found_for(gateway_views, PRODUCE, set_limit(ALICE, PRODUCE, 20.0))
    assert (now.observed, now.measured_by) == (10.0, QUOTA)
    assert now.gateways == (GatewayUse("", 10.0, 0, 50.0),)
    assert (then.matched, then.observed, then.measured_by) == (ALICE, 23.0, CONNECTIONS)
    assert then.wait_ms == 1_500
    assert then.gateways == (GatewayUse("", 11.0), GatewayUse("g2", 5.0), GatewayUse("g3", 7.0))


async def test_another_limit_of_the_same_rule_has_the_same_use_and_no_shares_yet(
    control: Control, gateway_views: Views, live: Live, shares: FakeShares
) -> None:
    await store(control, (ALICE, PRODUCE, 100.0))
    live.clients = [client("alice", "app", 11.0)]
    live.sensors[PRODUCE, "alice", "app", ""] = 10.0
    shares.uses, shares.parts = [use("g2", 50.0, 3)], {"": 0.5, "g2": 0.5}
    now, then = found_for(gateway_views, PRODUCE, set_limit(ALICE, PRODUCE, 40.0))
    assert [each.share for each in now.gateways] == [50.0, 50.0]
    assert (then.observed, then.wait_ms) == (60.0, 5_000)
    assert then.gateways == (GatewayUse("", 10.0), GatewayUse("g2", 50.0, 3))


async def test_gateways_that_may_use_a_limit_without_telling_are_named(
    control: Control, gateway_views: Views, live: Live, shares: FakeShares
) -> None:
    await store(control, (ALICE, PRODUCE, 100.0), (ALICE, MUTATIONS, 10.0))
    shares.uses = [use("g2", 50.0)]
    shares.not_complete = Incomplete(uses=frozenset({"g2", "g4", "g3"}), clients=frozenset({"g5"}))
    # One that tells of this limit tells all of it.
    assert found_for(gateway_views, PRODUCE)[0].unlisted == ("g3", "g4")
    assert found_for(gateway_views, MUTATIONS)[0].unlisted == ("g2", "g3", "g4")
    shares.uses = []
    # No quota measures it, so the connections count.
    assert found_for(gateway_views, PRODUCE)[0].unlisted == ("g5",)


async def test_a_broker_names_no_gateways(control: Control, views: Views, live: Live) -> None:
    await store(control, (ALICE, PRODUCE, 100.0))
    live.sensors[PRODUCE, "alice", "app", ""] = 110.0
    live.throttled_here[PRODUCE] = [("alice", None)]
    now, _ = found_for(views, PRODUCE)
    assert (now.observed, now.wait_ms, now.gateways, now.unlisted) == (110.0, 1_000, (), ())
