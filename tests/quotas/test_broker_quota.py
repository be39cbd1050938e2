"""The quota of the whole broker against AutoMQ's rules, with numbers calculated by hand.

The first record of a rate is measured over ten whole seconds. So with a limit of 1,000 a value v is observed
as v / 10 and throttled for v - 10,000 milliseconds.
"""

from dataclasses import replace
from sys import float_info

import pytest

from broker.config.sections import BrokerQuotaConfig
from broker.metrics.rate import Window, throttle_time_ms
from broker.quotas.broker_quota import BrokerQuota
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import BrokerWide, Entity
from broker.quotas.kinds import QuotaKind
from broker.quotas.throttled import Throttle, longer
from tests.quotas.scene import Connection

ENABLED = BrokerQuotaConfig(quota_enabled=True)
PRODUCE = replace(ENABLED, produce_bytes=1_000)
FETCH = replace(ENABLED, fetch_bytes=1_000)
RATE = replace(ENABLED, request_rate=1)
ANNE = Connection(principal="anne", client_id="app")


def quota_of(config: BrokerQuotaConfig, window: Window | None = None) -> BrokerQuota:
    quota = BrokerQuota() if window is None else BrokerQuota(window)
    quota.configure(config, 0)
    return quota


def wait_of(throttle: Throttle | None) -> int:
    return 0 if throttle is None else throttle.throttle_ms


def observed(quota: BrokerQuota, now_ms: int = 0) -> dict[QuotaKind, float]:
    return {row.kind: row.observed for row in quota.use(now_ms)}


def test_it_is_not_active_until_it_is_enabled():
    assert not BrokerQuota().active
    assert not quota_of(replace(PRODUCE, quota_enabled=False)).active
    assert quota_of(ENABLED).active


def test_without_limits_it_measures_and_throttles_no_client():
    quota = quota_of(ENABLED)
    assert quota.record_produce(ANNE, "app", 10**12, 0) is None
    assert observed(quota)[QuotaKind.BROKER_PRODUCE] == 10**11
    assert [row.bound for row in quota.use(0)] == [None] * 4


@pytest.mark.parametrize(("nbytes", "wait_ms"), [(9_999, 0), (10_000, 0), (10_001, 1), (15_000, 5_000)])
def test_the_limit_itself_is_allowed_and_one_byte_more_waits_by_kafkas_formula(nbytes, wait_ms):
    throttle = quota_of(PRODUCE).record_produce(ANNE, "app", nbytes, 0)
    assert wait_of(throttle) == wait_ms


def test_a_spike_of_2300_bytes_waits_exactly_2100_ms():
    """Kafka's ClientQuotaManagerTest, with all clients as one."""
    quota = quota_of(replace(ENABLED, produce_bytes=500))
    for second in range(10):
        client = Connection(principal=f"user{second}")
        assert quota.record_produce(client, f"client{second}", 400, second * 1_000) is None
    throttle = quota.record_produce(ANNE, "app", 2_300, 10_500)
    assert throttle is not None
    assert (throttle.throttle_ms, throttle.observed, throttle.bound) == (2_100, 600, 500)
    assert throttle.kind is QuotaKind.BROKER_PRODUCE
    assert throttle.rule == BrokerWide("broker.quota.produce.bytes", "produce bytes")
    assert str(throttle.rule) == "broker quota: produce bytes"


@pytest.mark.parametrize(("nbytes", "wait_ms"), [(20_999, 10_999), (21_000, 11_000), (21_001, 11_000)])
def test_154_a_throttle_is_never_longer_than_all_windows_together(nbytes, wait_ms):
    assert throttle_time_ms(nbytes / 10, 1_000, 10_000) == nbytes - 10_000
    assert wait_of(quota_of(PRODUCE).record_produce(ANNE, "app", nbytes, 0)) == wait_ms


def test_154_the_longest_throttle_follows_the_windows():
    quota = quota_of(PRODUCE, Window(samples=3, window_ms=2_000))
    assert wait_of(quota.record_produce(ANNE, "app", 10**9, 0)) == 6_000


@pytest.mark.parametrize(("requests", "wait_ms"), [(9, 0), (10, 0), (11, 1_000)])
def test_produce_and_fetch_requests_count_together_for_the_request_rate(requests, wait_ms):
    quota = quota_of(RATE)
    for number in range(requests - 1):
        if number % 2:
            assert quota.record_produce(ANNE, "app", 1, 0) is None
        else:
            assert quota.record_fetch(ANNE, "app", 1, 0, is_slow=False) is None
    throttle = quota.record_fetch(ANNE, "app", 1, 0, is_slow=False)
    assert wait_of(throttle) == wait_ms
    assert throttle is None or throttle.kind is QuotaKind.BROKER_REQUEST_RATE


def test_of_several_broken_limits_the_longest_wait_counts():
    quota = quota_of(replace(ENABLED, produce_bytes=1_000, request_rate=0.05))
    throttle = quota.record_produce(ANNE, "app", 10_001, 0)
    assert throttle is not None
    # 0.1 requests/s against 0.05 over 10 s: 10,000 ms, and 1 ms for the bytes.
    assert (throttle.kind, throttle.throttle_ms) == (QuotaKind.BROKER_REQUEST_RATE, 10_000)


def test_only_fetches_that_need_the_disk_count_as_slow():
    quota = quota_of(replace(ENABLED, slow_fetch_bytes=1_000))
    assert quota.record_fetch(ANNE, "app", 50_000, 0, is_slow=False) is None
    throttle = quota.record_fetch(ANNE, "app", 12_000, 0, is_slow=True)
    assert throttle is not None
    assert (throttle.kind, throttle.throttle_ms) == (QuotaKind.BROKER_SLOW_FETCH, 2_000)
    assert observed(quota)[QuotaKind.BROKER_FETCH] == 6_200


def test_where_both_fetch_limits_are_broken_alike_the_general_one_is_named():
    quota = quota_of(replace(FETCH, slow_fetch_bytes=1_000))
    throttle = quota.record_fetch(ANNE, "app", 12_000, 0, is_slow=True)
    assert throttle is not None
    assert throttle.kind is QuotaKind.BROKER_FETCH


@pytest.mark.parametrize(
    ("config", "measures"),
    [
        (ENABLED, False),
        (FETCH, False),
        (replace(ENABLED, slow_fetch_bytes=1), True),
        (replace(ENABLED, slow_fetch_bytes=1, quota_enabled=False), False),
    ],
)
def test_the_page_cache_is_not_queried_unless_slow_fetches_are_limited(config, measures):
    assert quota_of(config).measures_slow_fetches is measures


def test_unsent_bytes_are_taken_back_but_the_request_counts():
    quota = quota_of(ENABLED)
    quota.record_fetch(ANNE, "app", 5_000, 0, is_slow=True)
    quota.unrecord_fetch(ANNE, "app", 5_000, 0, is_slow=True)
    assert observed(quota) == {
        QuotaKind.BROKER_PRODUCE: 0,
        QuotaKind.BROKER_FETCH: 0,
        QuotaKind.BROKER_SLOW_FETCH: 0,
        QuotaKind.BROKER_REQUEST_RATE: 0.1,
    }


def test_a_fetch_is_cut_to_one_seconds_worth():
    assert quota_of(FETCH).fetch_max_bytes(ANNE, "app") == 1_000
    assert quota_of(ENABLED).fetch_max_bytes(ANNE, "app") == float_info.max
    exempt = quota_of(replace(FETCH, white_list_users=("anne",)))
    assert exempt.fetch_max_bytes(ANNE, "app") == float_info.max


@pytest.mark.parametrize(
    ("listed", "client"),
    [
        ({"white_list_users": ("anne",)}, Connection(principal="anne", client_id="x")),
        ({"white_list_client_ids": ("app",)}, Connection(client_id="app")),
        ({"white_list_client_ids": ("",)}, Connection(client_id=None)),
        ({"white_list_listeners": ("inside",)}, Connection(listener="INSIDE")),
        ({}, Connection(client_id="__automq_client_metrics")),
        ({}, Connection(client_id="__automq_client_")),
    ],
)
def test_an_exempt_client_is_neither_counted_nor_throttled(listed, client):
    quota = quota_of(replace(ENABLED, produce_bytes=1, fetch_bytes=1, request_rate=0.01, **listed))
    assert quota.record_produce(client, client.client_id, 10**9, 0) is None
    assert quota.record_fetch(client, client.client_id, 10**9, 0, is_slow=True) is None
    quota.unrecord_fetch(client, client.client_id, 10**9, 0, is_slow=True)
    assert set(observed(quota).values()) == {0}


@pytest.mark.parametrize(
    "client",
    [
        Connection(principal="ann", client_id="x"),
        Connection(client_id="app2"),
        Connection(client_id="__automq_client"),
        Connection(client_id="x__automq_client_"),
        Connection(listener="INSIDE2"),
        Connection(principal="app", client_id="anne"),
    ],
)
def test_a_name_that_is_only_like_one_of_the_list_is_counted(client):
    lists = {
        "white_list_users": ("anne",),
        "white_list_client_ids": ("app",),
        "white_list_listeners": ("INSIDE",),
    }
    quota = quota_of(replace(PRODUCE, **lists))
    assert wait_of(quota.record_produce(client, client.client_id, 10_001, 0)) == 1


def test_a_changed_white_list_holds_from_the_next_request_on():
    quota = quota_of(PRODUCE)
    assert wait_of(quota.record_produce(ANNE, "app", 10_001, 0)) == 1
    quota.configure(replace(PRODUCE, white_list_users=("anne",)), 0)
    assert quota.record_produce(ANNE, "app", 10_001, 0) is None
    quota.configure(PRODUCE, 0)
    assert wait_of(quota.record_produce(ANNE, "app", 10_001, 0)) == 10_002


def test_a_changed_limit_keeps_what_was_used():
    quota = quota_of(PRODUCE)
    assert quota.record_produce(ANNE, "app", 10_000, 0) is None
    quota.configure(replace(PRODUCE, produce_bytes=500), 0)
    assert wait_of(quota.record_produce(ANNE, "app", 0, 0)) == 10_000


def test_disabling_it_forgets_the_use_and_releases_all_clients():
    quota = quota_of(PRODUCE)
    hold(quota, ANNE, 15_000)
    quota.configure(replace(PRODUCE, quota_enabled=False), 1)
    assert quota.throttled.expired(1) == ["token"]
    quota.configure(PRODUCE, 2)
    assert observed(quota, 2)[QuotaKind.BROKER_PRODUCE] == 0


def hold(quota: BrokerQuota, client: Connection, nbytes: int, now_ms: int = 0) -> None:
    throttle = quota.record_produce(client, client.client_id, nbytes, now_ms)
    assert throttle is not None
    quota.throttle(client, "token", throttle, now_ms)


@pytest.mark.parametrize(
    ("limit", "end_ms"),
    [
        (2_000, 1_000),
        (1_500, 1_000),
        (1_200, 2_500),
        (1_001, 4_985),
        (1_000, 5_000),
        (800, 8_750),
        (500, 11_000),
    ],
)
def test_a_throttled_client_waits_as_long_as_a_new_limit_would_have_told_it(limit, end_ms):
    """15,000 bytes wait 15,000 / limit - 10 s from the moment of the request, and 11 s at most."""
    quota = quota_of(PRODUCE)
    hold(quota, ANNE, 15_000)
    assert quota.throttled.next_deadline() == 5_000
    quota.configure(replace(PRODUCE, produce_bytes=limit), 1_000)
    if end_ms > 1_000:
        assert quota.throttled.expired(end_ms - 1) == []
    assert quota.throttled.expired(end_ms) == ["token"]


def test_another_limit_than_the_one_that_holds_does_not_move_the_wait():
    quota = quota_of(PRODUCE)
    hold(quota, ANNE, 15_000)
    quota.configure(replace(PRODUCE, fetch_bytes=1), 1_000)
    assert quota.throttled.next_deadline() == 5_000


def test_many_small_changes_of_the_limit_release_no_client():
    quota = quota_of(replace(ENABLED, produce_bytes=50_000))
    throttle = quota.record_produce(ANNE, "app", 1_000_000, 0)
    assert throttle is not None
    quota.throttle(ANNE, "token", throttle, 0)
    assert throttle.throttle_ms == 10_000
    for second in range(1, 10):
        quota.configure(replace(ENABLED, produce_bytes=50_000 + second), second * 1_000)
        assert quota.throttled.expired(second * 1_000) == []
    # 1,000,000 bytes at 50,009 a second are 19,996 ms, ten of which were quiet before.
    assert quota.throttled.next_deadline() == 9_996


def test_a_client_that_comes_onto_a_white_list_is_freed():
    quota = quota_of(PRODUCE)
    hold(quota, ANNE, 15_000)
    quota.configure(replace(PRODUCE, white_list_client_ids=("app",)), 1_000)
    assert quota.throttled.expired(1_000) == ["token"]


def test_use_says_rate_limit_holds_and_what_was_held_in_all():
    quota = quota_of(PRODUCE)
    hold(quota, ANNE, 15_000)
    hold(quota, Connection(id="other"), 1_000)
    produce, fetch, slow, requests = quota.use(0)
    assert (produce.key, produce.observed, produce.bound) == ("broker.quota.produce.bytes", 1_600, 1_000)
    assert (produce.throttled, produce.throttles, produce.throttle_ms) == (2, 2, 11_000)
    assert (fetch.key, fetch.throttled) == ("broker.quota.fetch.bytes", 0)
    assert slow.key == "broker.quota.slow.fetch.bytes"
    assert (requests.key, requests.observed) == ("broker.quota.request.rate", 0.2)
    assert quota.mean_throttle_ms(QuotaKind.BROKER_PRODUCE, 0) == 5_500
    assert quota.mean_throttle_ms(QuotaKind.BROKER_FETCH, 0) == 0


def test_looking_leaves_no_trace():
    looked, unseen = quota_of(PRODUCE), quota_of(PRODUCE)
    for now_ms in (0, 3_000, 9_000, 12_500):
        for quota in (looked, unseen):
            quota.record_produce(ANNE, "app", 4_000, now_ms)
        looked.use(now_ms + 400)
    assert wait_of(looked.record_produce(ANNE, "app", 9_000, 14_000)) == wait_of(
        unseen.record_produce(ANNE, "app", 9_000, 14_000)
    )


def test_of_equals_the_clients_own_throttle_counts():
    quotas = ClientQuotas(paced=False)
    quotas.apply(Entity(user="anne"), "producer_byte_rate", 1_000)
    quotas.configure_broker(PRODUCE, 0)
    own = quotas.produce.record("anne", "app", 15_000, 0)
    broker = quotas.broker.record_produce(ANNE, "app", 15_000, 0)
    assert own is not None
    assert broker is not None
    assert own.throttle_ms == broker.throttle_ms == 5_000
    assert longer(own, broker) is own
    assert longer(None, broker) is broker
    assert longer(own, None) is own
    assert longer(None, None) is None


def test_the_test_that_handlers_make_follows_rules_and_the_broker():
    quotas = ClientQuotas()
    assert (quotas.produce_active, quotas.fetch_active) == (False, False)
    quotas.configure_broker(ENABLED, 0)
    assert (quotas.produce_active, quotas.fetch_active) == (True, True)
    quotas.configure_broker(BrokerQuotaConfig(), 0)
    quotas.apply(Entity(user="anne"), "producer_byte_rate", 1)
    assert (quotas.produce_active, quotas.fetch_active) == (True, False)
    quotas.apply(Entity(user="anne"), "producer_byte_rate", None)
    assert (quotas.produce_active, quotas.fetch_active) == (False, False)


def test_a_client_throttled_by_the_broker_quota_is_among_the_throttled_ones_and_is_forgotten_when_it_goes():
    quotas = ClientQuotas()
    quotas.configure_broker(PRODUCE, 0)
    throttle = quotas.broker.record_produce(ANNE, "app", 15_000, 0)
    assert throttle is not None
    quotas.throttle(ANNE, "token", throttle, 0)
    (row,) = quotas.rows(1_000)
    assert (row.quota_type, str(row.entity)) == (QuotaKind.BROKER_PRODUCE, "broker quota: produce bytes")
    assert (row.observed, row.bound, row.remaining_ms) == (1_500, 1_000, 4_000)
    assert quotas.prolong(ANNE, replace(throttle, throttle_ms=7_000), 1_000)
    assert quotas.broker.throttled.next_deadline() == 8_000
    quotas.extend(ANNE, 500)
    assert quotas.broker.throttled.next_deadline() == 8_500
    quotas.forget(ANNE)
    assert quotas.rows(1_000) == []
