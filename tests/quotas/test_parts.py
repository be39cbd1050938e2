"""The parts of a quota manager: usage of each upstream node by itself, under the same rules."""

from typing import Any

import pytest

from broker.common.clock import BASE_MS
from broker.common.slices import run_through
from broker.metrics.families import render
from broker.quotas.client_quotas import ClientQuotas, rule_use, rule_use_of
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.guarded_callback import GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.quotas.quota_metrics import families
from broker.quotas.usage import IDLE_MS, MAX_UPDATED_AT_ONCE
from tests.quotas.callbacks import Scripted
from tests.quotas.scene import Connection
from tests.support.prometheus import parse

ALICE = Entity("alice")
PRODUCE = "producer_byte_rate"
LIMIT = 1_000.0
FULL = 10_000
"""What ten whole windows allow, or the bucket of `ten_seconds` holds."""

ALGORITHMS: dict[str, dict[str, Any]] = {
    "rate": {"paced": False},
    "paced": {"paced": True},
    "ten_seconds": {"burst_ms": 10_000},
}


@pytest.fixture(params=ALGORITHMS)
def quotas(request: pytest.FixtureRequest) -> ClientQuotas:
    made = ClientQuotas(**ALGORITHMS[request.param])
    made.apply(ALICE, PRODUCE, LIMIT, BASE_MS)
    return made


def produced(quotas: ClientQuotas, node: int, nbytes: int, at_ms: int = 0, user: str = "alice") -> int:
    throttle = quotas.at_node(node).produce.record(user, "app", nbytes, BASE_MS + at_ms)
    return 0 if throttle is None else throttle.throttle_ms


def throttled(
    quotas: ClientQuotas, node: int, nbytes: int, at_ms: int = 0, user: str = "alice"
) -> Connection:
    throttle = quotas.at_node(node).produce.record(user, "app", nbytes, BASE_MS + at_ms)
    assert throttle is not None
    channel = Connection(principal=user, client_id="app")
    quotas.throttle(channel, node, throttle, BASE_MS + at_ms)
    return channel


@pytest.mark.parametrize(("nbytes", "wait_ms"), [(FULL - 1, 0), (FULL, 0), (FULL + 1, 1), (11_000, 1_000)])
def test_each_node_has_the_whole_limit(quotas: ClientQuotas, nbytes: int, wait_ms: int) -> None:
    assert produced(quotas, 1, nbytes) == wait_ms
    assert produced(quotas, 2, FULL) == 0
    assert produced(quotas, 1, 1_000) > 0
    assert produced(quotas, 2, 1_000) == 1_000


def test_a_node_is_the_same_each_time(quotas: ClientQuotas) -> None:
    assert quotas.at_node(1) is quotas.at_node(1)
    assert quotas.at_node(1).broker is quotas.at_node(2).broker is quotas.broker


@pytest.mark.parametrize("kind", ["fetch", "request"])
def test_fetch_and_request_time_count_by_node(kind: str) -> None:
    quotas = ClientQuotas()
    key = {"fetch": "consumer_byte_rate", "request": "request_percentage"}[kind]
    quotas.apply(ALICE, key, 1.0, BASE_MS)
    first, second = getattr(quotas.at_node(1), kind), getattr(quotas.at_node(2), kind)
    assert first.record("alice", "app", 10.0, BASE_MS) is None
    assert second.record("alice", "app", 11.0, BASE_MS).throttle_ms == 1_000


def test_exempt_time_is_one_for_all_nodes(quotas: ClientQuotas) -> None:
    quotas.apply(ALICE, "request_percentage", 1.0, BASE_MS)
    for node in (1, 2):
        quotas.at_node(node).request.record_exempt(100_000_000, BASE_MS)
    assert quotas.request.exempt.measure(BASE_MS) == pytest.approx(2.0)


def test_without_rules_nothing_is_counted_at_any_node() -> None:
    quotas = ClientQuotas()
    assert produced(quotas, 1, 10**9) == 0
    assert quotas.produce.sensor_count == 0
    quotas.apply(ALICE, PRODUCE, LIMIT, BASE_MS)
    assert produced(quotas, 1, 11_000) == 1_000
    quotas.apply(ALICE, PRODUCE, None, BASE_MS)
    assert not quotas.at_node(1).produce.active
    assert produced(quotas, 1, 10**9) == 0


def test_a_node_that_appears_later_has_the_present_rules(quotas: ClientQuotas) -> None:
    quotas.apply(ALICE, PRODUCE, 2 * LIMIT, BASE_MS)
    quotas.set_longest_throttle(500)
    assert produced(quotas, 3, 2 * FULL) == 0
    assert produced(quotas, 3, 2_000) == 500


def test_a_changed_limit_applies_at_every_node(quotas: ClientQuotas) -> None:
    produced(quotas, 1, FULL)
    produced(quotas, 2, FULL)
    quotas.apply(ALICE, PRODUCE, 2 * LIMIT, BASE_MS)
    for node in (1, 2):
        (sensor,) = [each for each in quotas.produce.sensors_of("alice", "app") if each.node == node]
        assert sensor.bound == 2 * LIMIT


@pytest.mark.parametrize(
    "count", [MAX_UPDATED_AT_ONCE - 1, MAX_UPDATED_AT_ONCE, MAX_UPDATED_AT_ONCE + 1, 3 * MAX_UPDATED_AT_ONCE]
)
def test_many_changed_rules_apply_at_every_node_in_the_first_step(count: int) -> None:
    quotas = ClientQuotas()
    names = [f"client-{number}" for number in range(count)]
    run_through(
        quotas.switch(
            run_through(quotas.draft([(Entity(client_id=n), PRODUCE, 1_000) for n in names], ())), 0
        )
    )

    def bounds() -> set[float]:
        return {
            quotas.at_node(node).produce.max_value_in_window("alice", name, BASE_MS)
            for node in (1, 2)
            for name in names
        }

    assert bounds() == {10_000}
    steps = quotas.switch(
        run_through(quotas.draft([(Entity(client_id=n), PRODUCE, 2_000) for n in names], ())), BASE_MS
    )
    next(steps, None)
    assert bounds() == {20_000}
    run_through(steps)
    assert bounds() == {20_000}
    assert {sensor.bound for sensor in quotas.produce.sensors()} == {2_000}


def test_throttles_follow_a_changed_limit_at_every_node(quotas: ClientQuotas) -> None:
    throttled(quotas, 1, 12_000)
    throttled(quotas, 2, 14_000)
    quotas.apply(ALICE, PRODUCE, 1_050, BASE_MS)
    ends = {each.token: each.end_ms - BASE_MS for each in quotas.produce.throttled.all()}
    assert ends == {1: 1_905, 2: 3_810}
    quotas.apply(ALICE, PRODUCE, None, BASE_MS)
    assert sorted(quotas.produce.throttled.expired(BASE_MS)) == [1, 2]  # type: ignore[type-var]


def test_a_limit_in_shadow_has_one_total_for_all_nodes(quotas: ClientQuotas) -> None:
    quotas.set_shadow(ALICE, is_shadow=True, now_ms=BASE_MS)
    assert [produced(quotas, node, 11_000) for node in (1, 2)] == [0, 0]
    (total,) = quotas.produce.shadows.values()
    assert (total.times, total.throttled.at(BASE_MS + 2_000)) == (2, 1_000)
    quotas.set_shadow(ALICE, is_shadow=False, now_ms=BASE_MS)
    assert [produced(quotas, node, FULL) for node in (1, 2)] == [0, 0]


def test_each_node_expires_by_itself(quotas: ClientQuotas) -> None:
    produced(quotas, 1, 1)
    produced(quotas, 2, 1, at_ms=1)
    assert quotas.produce.sensor_count == 2
    assert run_through(quotas.expire(BASE_MS + IDLE_MS)) == 0
    assert run_through(quotas.expire(BASE_MS + IDLE_MS + 1)) == 1
    (left,) = quotas.produce.sensors()
    assert left.node == 2
    assert run_through(quotas.expire(BASE_MS + IDLE_MS + 2)) == 1
    assert produced(quotas, 1, FULL, at_ms=IDLE_MS + 2) == 0


def test_debts_move_at_each_node_by_itself() -> None:
    quotas = ClientQuotas()
    quotas.apply(ALICE, PRODUCE, LIMIT, BASE_MS)
    first = throttled(quotas, 1, 12_000)
    assert produced(quotas, 2, 5_000) == 0
    quotas.apply(Entity("alice", "app"), PRODUCE, LIMIT, BASE_MS)
    for node in (1, 2):
        run_through(quotas.at_node(node).produce.recheck_clients([("alice", "app")], BASE_MS))
    (channel,) = quotas.produce.throttled.all()
    sensors = {sensor.node: sensor for sensor in quotas.produce.sensors_of("alice", "app")}
    assert channel.channel is first
    assert channel.sensor is sensors[1]
    assert (sensors[1].debt(BASE_MS), sensors[2].debt(BASE_MS)) == (12_000.0, 5_000.0)


def test_the_busiest_are_chosen_among_all_nodes() -> None:
    quotas = ClientQuotas()
    quotas.apply(Entity(client_id=DEFAULT), PRODUCE, LIMIT, BASE_MS)
    for node, name, nbytes in ((1, "a", 10), (2, "a", 40), (1, "b", 30), (2, "c", 20)):
        quotas.at_node(node).produce.record("alice", name, nbytes, BASE_MS)
    chosen = run_through(quotas.produce.busiest(3, BASE_MS))
    assert [(each.node, each.client_id) for each in chosen] == [(2, "a"), (1, "b"), (2, "c")]
    page = parse(render(families(quotas, BASE_MS, 3)).decode())
    labels = [dict(labels) for _, labels in page["kafka_server_produce_byte_rate"].samples]
    assert [(each["node"], each["client_id"]) for each in labels] == [("2", "a"), ("1", "b"), ("2", "c")]
    assert page["weir_quota_entities_left_out"].value(quota="produce") == 1
    (use,) = [each for each in rule_use(quotas, BASE_MS) if each is not None]
    (same,) = rule_use_of(quotas, Entity(client_id=DEFAULT), BASE_MS)
    assert (use.node, use.observed) == (same.node, same.observed) == (2, 4.0)


# With a callback


@pytest.fixture
def callback() -> Scripted:
    return Scripted()


@pytest.fixture
def grouped(callback: Scripted) -> ClientQuotas:
    callback.limits["red"] = LIMIT
    return ClientQuotas(callback=GuardedCallback(callback, "acme.quotas:Groups", lambda: 0))


def test_a_group_has_the_limit_at_each_node(grouped: ClientQuotas) -> None:
    assert produced(grouped, 1, FULL, user="red-1") == 0
    assert produced(grouped, 2, FULL, user="red-2") == 0
    assert produced(grouped, 1, 1_000, user="red-2") == 1_000


def test_a_callback_learns_of_each_rule_once(grouped: ClientQuotas, callback: Scripted) -> None:
    for node in (1, 2):
        produced(grouped, node, 1, user="red-1")
    grouped.apply(Entity("red"), PRODUCE, 2_000.0, BASE_MS)
    updates = [call for call in callback.calls if call[0] == "update"]
    assert updates == [("update", QuotaKind.PRODUCE, Entity("red"), 2_000.0)]
    assert {sensor.bound for sensor in grouped.produce.sensors()} == {2_000.0}


def test_a_reset_refreshes_the_limits_at_every_node(grouped: ClientQuotas, callback: Scripted) -> None:
    for node in (1, 2):
        throttled(grouped, node, 11_000, user="red-1")
    callback.limits["red"], callback.reset = 500.0, True
    produced(grouped, 1, 1, user="red-1")
    assert {sensor.bound for sensor in grouped.produce.sensors()} == {500.0}
    assert [each.bound for each in grouped.produce.throttled.all()] == [500.0, 500.0]


def test_changed_topics_refresh_the_limits_at_every_node(grouped: ClientQuotas, callback: Scripted) -> None:
    for node in (1, 2):
        produced(grouped, node, 1, user="red-1")
    callback.limits["red"], callback.cluster_changes = 500.0, True
    assert grouped.update_cluster_metadata("cluster", 1, {"orders": 1}, BASE_MS)
    assert {sensor.bound for sensor in grouped.produce.sensors()} == {500.0}
