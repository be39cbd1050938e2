"""Byte rates as a token bucket: initially full, spent and refilled, with exact numbers."""

import random
from sys import float_info

import pytest

from broker.common.clock import BASE_MS
from broker.common.slices import run_through
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.bucket import BucketQuotaManager
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from tests.quotas.scene import Scene
from tests.quotas.test_pacing import consume, produce

CLIENT = ("ANONYMOUS", "c")
BURST_MS = 2_000
QUOTA = 1_000


def manager(
    kind: QuotaKind = QuotaKind.PRODUCE, quota: float | None = QUOTA, longest_ms: int | None = None
) -> BucketQuotaManager:
    made = BucketQuotaManager(kind, longest_ms=longest_ms, burst_ms=BURST_MS)
    made.set_bound(None, "c", quota)
    return made


@pytest.fixture
def scene() -> Scene:
    return Scene(manager())


@pytest.mark.parametrize(
    ("value", "wait_ms"),
    [
        (0, 0),
        (1_999, 0),
        (2_000, 0),
        (2_000.4, 0),
        (2_000.5, 1),
        (2_001, 1),
        (2_001.5, 2),
        (2_500, 500),
        (100_000, 98_000),
    ],
)
def test_a_full_bucket_lets_its_burst_through_and_what_is_beyond_is_waited_for(scene, value, wait_ms):
    """-tokens / Q in ms, halves up, as in Kafka's TokenBucket."""
    assert scene.record(*CLIENT, value) == wait_ms


def test_it_is_spent_and_fills_again_at_the_rate(scene):
    steps = (
        (0, 1_500, 0),
        (500, 1_000, 0),
        (0, 250, 250),
        (250, 0, 0),
        (0, 1, 1),
        (1, 0, 0),
        (999, 1_000, 1),
    )
    for passed_ms, value, wait_ms in steps:
        scene.clock.advance(passed_ms)
        assert scene.record(*CLIENT, value) == wait_ms


def test_it_never_holds_more_than_the_burst(scene):
    scene.record(*CLIENT, 2_000)
    scene.clock.advance(3_600_000)
    assert scene.record(*CLIENT, 2_001) == 1


def test_one_burst_does_not_hold_a_client_for_ten_seconds(scene):
    """Kafka's formula admits 10,000 bytes at once; a client that sends 1,100 a second is throttled for long
    only after its burst.
    """
    kafka = Scene(RateQuotaManager(QuotaKind.PRODUCE))
    kafka.limit(None, "c", QUOTA)
    assert kafka.record(*CLIENT, 10_000) == 0
    assert kafka.record(*CLIENT, 10_000) == 10_000
    assert scene.record(*CLIENT, 2_000) == 0
    assert scene.record(*CLIENT, 1_000) == 1_000


def test_clients_that_share_a_bucket_wait_for_what_all_of_them_owe(scene):
    waits = [scene.record(*CLIENT, 1_000) for _ in range(5)]
    assert waits == [0, 0, 1_000, 2_000, 3_000]


def test_another_limit_keeps_what_was_spent(scene):
    scene.record(*CLIENT, 3_000)
    scene.limit(None, "c", 2_000)
    assert scene.record(*CLIENT, 0) == 500
    scene.limit(None, "c", 500)
    assert scene.record(*CLIENT, 0) == 2_000


def test_a_lower_limit_cuts_what_was_saved_up_to_its_burst(scene):
    scene.record(*CLIENT, 0)
    scene.limit(None, "c", 100)
    assert scene.record(*CLIENT, 201) == 10


@pytest.mark.parametrize("other", [None, QUOTA])
def test_spent_tokens_are_owed_over_a_time_without_a_limit(scene, other):
    """Whether or not other clients have a rule meanwhile."""
    scene.limit(None, "other", other)
    scene.record(*CLIENT, 20_000)
    scene.limit(None, "c", None)
    assert scene.record(*CLIENT, 1_000_000) == 0
    scene.clock.advance(3_000)
    scene.limit(None, "c", QUOTA)
    assert scene.record(*CLIENT, 0) == 15_000


@pytest.mark.parametrize(("quota", "fits"), [(QUOTA, 2_000.0), (None, float_info.max)])
def test_a_fetch_is_cut_to_the_burst(quota, fits):
    fetch = manager(QuotaKind.FETCH, quota)
    assert fetch.max_value_in_window(*CLIENT, BASE_MS) == fits


def test_a_fetch_that_was_taken_back_comes_through_when_its_tokens_are_there():
    fetch = manager(QuotaKind.FETCH)
    assert fetch.record(*CLIENT, 2_000, BASE_MS) is None
    throttle = fetch.record(*CLIENT, 1_500, BASE_MS + 500)
    assert throttle is not None and throttle.throttle_ms == 1_000
    fetch.unrecord(*CLIENT, 1_500, BASE_MS + 500)
    early = fetch.record(*CLIENT, 1_500, BASE_MS + 1_499)
    assert early is not None and early.throttle_ms == 1
    fetch.unrecord(*CLIENT, 1_500, BASE_MS + 1_499)
    assert fetch.record(*CLIENT, 1_500, BASE_MS + 1_500) is None


def test_a_fetch_larger_than_the_bucket_comes_through_when_that_is_full():
    """One batch exceeds the bucket: without this rule no consumer could ever fetch it."""
    fetch = manager(QuotaKind.FETCH)
    assert fetch.record(*CLIENT, 500, BASE_MS) is None
    throttle = fetch.record(*CLIENT, 5_000, BASE_MS)
    assert throttle is not None and throttle.throttle_ms == 500
    fetch.unrecord(*CLIENT, 5_000, BASE_MS)
    assert fetch.record(*CLIENT, 5_000, BASE_MS + 500) is None
    owing = fetch.record(*CLIENT, 0, BASE_MS + 500)
    assert owing is not None and owing.throttle_ms == 3_000


@pytest.mark.parametrize("longest_ms", [100, 500])
def test_the_longest_throttle_is_never_asked_for_more_than_once(longest_ms):
    scene = Scene(manager(longest_ms=longest_ms))
    assert scene.record(*CLIENT, 1_000_000) == longest_ms
    assert scene.record(*CLIENT, 0) == longest_ms
    scene.clock.advance(longest_ms)
    assert scene.record(*CLIENT, 0) == 0


def test_the_longest_throttle_gives_a_fetch_nothing():
    fetch = manager(QuotaKind.FETCH, longest_ms=100)
    assert fetch.record(*CLIENT, 2_000, BASE_MS) is None
    for at_ms in range(0, 2_000, 100):
        throttle = fetch.record(*CLIENT, 5_000, BASE_MS + at_ms)
        assert throttle is not None and throttle.throttle_ms == 100
        fetch.unrecord(*CLIENT, 5_000, BASE_MS + at_ms)
    assert fetch.record(*CLIENT, 5_000, BASE_MS + 2_000) is None


def test_a_client_that_is_over_a_new_rule_already_begins_with_an_empty_bucket():
    for per_second, wait_ms in ((999, 0), (1_000, 0), (1_001, 1)):
        fresh = manager()
        run_through(fresh.adopt([(*CLIENT, per_second)], BASE_MS))
        throttle = fresh.record(*CLIENT, 1, BASE_MS)
        assert (0 if throttle is None else throttle.throttle_ms) == wait_ms


def test_the_observed_rate_is_over_the_bound_by_the_wait():
    quota = manager()
    throttle = quota.record(*CLIENT, 3_000, BASE_MS)
    assert throttle is not None
    assert (throttle.throttle_ms, throttle.observed, throttle.bound) == (1_000, 1_500, 1_000)
    assert throttle.rule == Entity(client_id="c")
    sensor = quota.find(*CLIENT)
    assert sensor is not None and sensor.observed(BASE_MS) == 300


def test_in_shadow_it_counts_and_throttles_no_client():
    quota = manager()
    quota.set_shadow(None, "c", is_shadow=True)
    assert quota.record(*CLIENT, 3_000, BASE_MS) is None
    assert quota.max_value_in_window(*CLIENT, BASE_MS) == float_info.max
    sensor = quota.find(*CLIENT)
    assert sensor is not None and sensor.shadow is not None
    assert (sensor.shadow.times, sensor.shadow.throttled.at(BASE_MS + 2_000)) == (1, 1_000)


@pytest.mark.parametrize("clients", [1, 7])
@pytest.mark.parametrize("seed", range(5))
def test_over_any_span_no_more_than_the_burst_and_the_rate_and_a_request_of_each(seed, clients):
    """Clients with random sizes at random times: a leaky sum of accepted bytes never exceeds the burst,
    except by one request of each client, which may find the bucket nearly empty.
    """
    dice = random.Random(seed)
    quota = manager()
    free_at = [0.0] * clients
    biggest = 3_000
    level, last_ms, total, now_ms = 0.0, 0, 0, 0
    while now_ms < 600_000:
        who = min(range(clients), key=lambda each: free_at[each])
        now_ms = int(max(free_at[who], now_ms))
        value = dice.randint(0, biggest)
        throttle = quota.record(*CLIENT, value, BASE_MS + now_ms)
        level = max(level - QUOTA * (now_ms - last_ms) / 1000, 0.0) + value
        last_ms = now_ms
        total += value
        assert level <= BURST_MS * QUOTA / 1000 + biggest * clients + 1
        wait_ms = 0 if throttle is None else throttle.throttle_ms
        free_at[who] = now_ms + wait_ms + dice.choice((0, 1, 10, 3_000))
    assert total <= QUOTA * now_ms / 1000 + BURST_MS * QUOTA / 1000 + biggest * clients


@pytest.mark.parametrize("seed", range(5))
def test_over_any_span_fetches_bring_no_more_than_the_burst_and_the_rate(seed):
    dice = random.Random(seed)
    quota = manager(QuotaKind.FETCH)
    level, last_ms, now_ms = 0.0, 0, 0
    while now_ms < 600_000:
        value = dice.randint(0, 2_000)
        throttle = quota.record(*CLIENT, value, BASE_MS + now_ms)
        if throttle is not None:
            quota.unrecord(*CLIENT, value, BASE_MS + now_ms)
            now_ms += throttle.throttle_ms
            continue
        level = max(level - QUOTA * (now_ms - last_ms) / 1000, 0.0) + value
        last_ms = now_ms
        assert level <= BURST_MS * QUOTA / 1000 + 1
        now_ms += dice.choice((0, 1, 10, 3_000))


@pytest.mark.parametrize("request_bytes", [1_000, 16_384, 100_000])
@pytest.mark.parametrize("clients", [1, 200])
def test_an_unlimited_client_averages_its_quota(request_bytes, clients):
    quota = BucketQuotaManager(QuotaKind.PRODUCE, burst_ms=1_000)
    quota.set_bound(None, "c", 1_000_000)
    first, second = produce(quota, request_bytes, clients=clients, minutes=2, cost_ms=0.1)
    burst = 1_000_000 + request_bytes * clients
    assert 60_000_000 * 0.999 <= first <= 60_000_000 + burst
    assert second / 60_000_000 == pytest.approx(1, abs=0.002 if clients == 1 else 0.02)


@pytest.mark.parametrize("response", [1_000_000, 100_000])
def test_a_consumer_averages_its_quota(response):
    quota = BucketQuotaManager(QuotaKind.FETCH, burst_ms=1_000)
    quota.set_bound(None, "c", 1_000_000)
    first, second = consume(quota, response, minutes=2)
    assert 0.995 <= first / 60_000_000 <= 1 + 1 / 60
    assert second / 60_000_000 == pytest.approx(1, abs=0.005)


def test_produce_and_fetch_are_buckets_where_it_is_chosen_and_time_is_not():
    quotas = ClientQuotas(burst_ms=1_000)
    assert isinstance(quotas.produce, BucketQuotaManager) and isinstance(quotas.fetch, BucketQuotaManager)
    assert not isinstance(quotas.request, BucketQuotaManager)
    assert not isinstance(ClientQuotas().produce, BucketQuotaManager)
