"""Limits of which a gateway enforces its share."""

import pytest

from broker.common.clock import BASE_MS
from broker.common.slices import run_through
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.guarded_callback import GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.quotas.table import UNLIMITED
from tests.quotas.callbacks import Scripted
from tests.quotas.scene import Connection

LIMIT = 1_000_000.0


@pytest.fixture
def quotas() -> ClientQuotas:
    made = ClientQuotas(shared=True)
    made.apply(Entity("alice"), "producer_byte_rate", LIMIT, BASE_MS)
    return made


def share(quotas: ClientQuotas, alice: float, other: float = 1.0, at_ms: int = 0) -> None:
    run_through(quotas.produce.set_shares({("alice", None): alice}, other, BASE_MS + at_ms))


def record(quotas: ClientQuotas, nbytes: int, at_ms: int, user: str = "alice") -> int:
    throttle = quotas.record_produce(user, "app", nbytes, BASE_MS + at_ms)
    return 0 if throttle is None else throttle.throttle_ms


def test_clients_are_paced_from_their_first_request(quotas):
    """A request waits for the bytes before it; a fresh client has no credit of ten seconds."""
    assert record(quotas, 500_000, 0) == 0
    assert record(quotas, 500_000, 0) == 500
    assert record(quotas, 500_000, 0) == 1_000


def test_the_credit_of_an_idle_client_is_a_second_of_its_share(quotas):
    share(quotas, 0.25)
    record(quotas, 1, 0)
    assert record(quotas, 250_000, 60_000) == 0
    assert record(quotas, 250_000, 60_000) == 0
    assert record(quotas, 250_000, 60_000) == 1_000


def test_a_share_is_the_bound_of_the_sensor_and_the_rule_stays(quotas):
    record(quotas, 1, 0)
    share(quotas, 0.25)
    sensor = quotas.produce.find("alice", "app")
    assert sensor is not None
    assert sensor.bound == 250_000
    assert quotas.produce.bound("alice", "app") == LIMIT
    assert quotas.produce.whole_bound(sensor) == LIMIT
    assert quotas.produce.resolve("alice", "app").bound == LIMIT


def test_a_sensor_that_is_made_later_has_its_share_too(quotas):
    share(quotas, 0.25)
    record(quotas, 250_000, 0)
    assert record(quotas, 1, 0) == 1_000


def test_every_other_sensor_has_the_other_share(quotas):
    quotas.apply(Entity(DEFAULT), "producer_byte_rate", 2 * LIMIT, BASE_MS)
    record(quotas, 1, 0, "bob")
    share(quotas, 0.25, other=0.5)
    for user, bound in (("bob", LIMIT), ("carol", LIMIT), ("alice", LIMIT / 4)):
        record(quotas, 1, 0, user)
        sensor = quotas.produce.find(user, "app")
        assert sensor is not None and sensor.bound == bound


def test_a_changed_share_keeps_usage_and_debt(quotas):
    record(quotas, 1_000_000, 0)
    assert record(quotas, 500_000, 0) == 1_000
    share(quotas, 0.5)
    assert record(quotas, 1, 0) == 3_000
    # After a second at half the limit, 1,000,001 of 1,500,001 bytes are owed, at a quarter of the limit.
    share(quotas, 0.25, at_ms=1_000)
    assert record(quotas, 1, 1_000) == 4_000


def test_a_share_that_grows_admits_nothing_at_once(quotas):
    """By Kafka's formula, ten seconds of the growth would pass."""
    share(quotas, 0.1)
    for second in range(20):
        record(quotas, 100_000, second * 1_000)
    share(quotas, 1.0, at_ms=20_000)
    assert record(quotas, 1_000_000, 20_000) == 0
    assert record(quotas, 1_000_000, 20_000) == 1_000


def test_a_share_that_shrinks_does_not_throttle_for_what_the_former_one_allowed(quotas):
    """By Kafka's formula, the client would be throttled for ten seconds."""
    for second in range(20):
        assert record(quotas, 900_000, second * 1_000) == 0
    share(quotas, 0.45, at_ms=20_000)
    assert record(quotas, 450_000, 20_000) == 0
    assert record(quotas, 450_000, 21_000) == 0


@pytest.mark.parametrize(("part", "left_ms"), [(0.25, 4_000), (1.0, 1_000), (0.5, 2_000)])
def test_throttled_clients_repay_at_the_new_rate(quotas, part, left_ms):
    share(quotas, 0.5)
    connection = Connection(principal="alice", client_id="app")
    record(quotas, 1_000_000, 0)
    throttle = quotas.record_produce("alice", "app", 1, BASE_MS)
    assert throttle is not None and throttle.throttle_ms == 2_000
    quotas.throttle(connection, connection, throttle, BASE_MS)
    share(quotas, part)
    assert quotas.produce.throttled.next_deadline() == BASE_MS + left_ms
    (row,) = quotas.rows(BASE_MS)
    assert row.bound == LIMIT * part


def test_a_changed_rule_keeps_the_share(quotas):
    record(quotas, 1, 0)
    share(quotas, 0.25)
    quotas.apply(Entity("alice"), "producer_byte_rate", 2 * LIMIT, BASE_MS)
    sensor = quotas.produce.find("alice", "app")
    assert sensor is not None
    assert sensor.bound == LIMIT / 2
    connection = Connection(principal="alice", client_id="app")
    record(quotas, 1_000_000, 0)
    throttle = quotas.record_produce("alice", "app", 1, BASE_MS)
    assert throttle is not None
    quotas.throttle(connection, connection, throttle, BASE_MS)
    quotas.apply(Entity("alice"), "producer_byte_rate", LIMIT, BASE_MS)
    assert quotas.rows(BASE_MS)[0].bound == LIMIT / 4


def test_a_removed_rule_limits_nothing_with_a_share(quotas):
    share(quotas, 0.25)
    record(quotas, 1, 0)
    quotas.apply(Entity("alice"), "producer_byte_rate", None, BASE_MS)
    assert record(quotas, 100_000_000, 0) == 0
    assert record(quotas, 100_000_000, 0) == 0


def test_limits_in_shadow_mode_have_shares_too(quotas):
    quotas.set_shadow(Entity("alice"), is_shadow=True, now_ms=BASE_MS)
    share(quotas, 0.25)
    record(quotas, 250_000, 0)
    assert record(quotas, 1, 0) == 0
    (total,) = quotas.produce.shadows.values()
    assert (total.times, total.throttled.at(BASE_MS + 1_000)) == (1, 1_000)


def test_a_callbacks_limits_are_not_shared():
    callback = Scripted()
    callback.limits["red"] = LIMIT
    guarded = GuardedCallback(callback, "tests:Scripted", lambda: 0)
    manager = RateQuotaManager(QuotaKind.PRODUCE, paced=True, callback=guarded)
    manager.record("red-1", "app", 1, BASE_MS)
    run_through(manager.set_shares({}, 0.25, BASE_MS))
    (sensor,) = manager.sensors()
    assert sensor.bound == manager.whole_bound(sensor) == LIMIT


def test_a_sensor_without_a_limit_has_no_whole_bound(quotas):
    record(quotas, 1, 0, "bob")
    sensor = quotas.produce.find("bob", "app")
    assert sensor is not None
    assert quotas.produce.whole_bound(sensor) == UNLIMITED


def test_a_share_of_thousands_of_sensors_is_changed_in_steps():
    quotas = ClientQuotas(shared=True)
    quotas.apply(Entity(DEFAULT), "producer_byte_rate", LIMIT, BASE_MS)
    for number in range(1_000):
        record(quotas, 1, 0, f"user-{number}")
    assert sum(1 for _ in quotas.produce.set_shares({}, 0.5, BASE_MS)) == 1_000
    assert {sensor.bound for sensor in quotas.produce.sensors()} == {LIMIT / 2}


def test_token_buckets_keep_their_tokens():
    quotas = ClientQuotas(shared=True, burst_ms=1_000)
    quotas.apply(Entity("alice"), "producer_byte_rate", LIMIT, BASE_MS)
    share(quotas, 0.25)
    assert record(quotas, 250_000, 0) == 0
    share(quotas, 1.0)
    assert record(quotas, 500_000, 0) == 500
