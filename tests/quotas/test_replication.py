"""Replication throttles against the numbers of Kafka's ReplicationQuotaManagerTest, V38 and V39."""

import pytest

from broker.clock import BASE_MS
from broker.metrics.window import Window
from broker.quotas.kinds import QuotaKind
from broker.quotas.replication import ReplicationQuotaManager


@pytest.fixture
def quota() -> ReplicationQuotaManager:
    return ReplicationQuotaManager(QuotaKind.LEADER_REPLICATION, Window(10, 1_000))


def test_v38_the_rate_is_over_the_time_since_the_first_look(quota):
    quota.bound = 100
    assert not quota.is_exceeded(BASE_MS)
    now_ms = BASE_MS + 1_500
    quota.record(1, now_ms)
    assert not quota.is_exceeded(now_ms)
    quota.record(149, now_ms)
    assert quota.observed(now_ms) == 100
    assert not quota.is_exceeded(now_ms)
    quota.record(1, now_ms)
    assert quota.observed(now_ms) == pytest.approx(151 / 1.5)
    assert quota.is_exceeded(now_ms)
    now_ms = BASE_MS + 2_000
    assert quota.observed(now_ms) == 75.5
    assert not quota.is_exceeded(now_ms)
    now_ms = BASE_MS + 2_500
    quota.record(99, now_ms)
    assert quota.observed(now_ms) == 100
    assert not quota.is_exceeded(now_ms)
    quota.record(1, now_ms)
    assert quota.observed(now_ms) == 100.4
    assert quota.is_exceeded(now_ms)
    assert quota.observed(BASE_MS + 4_500) == pytest.approx(251 / 4.5)


def test_v39_only_marked_partitions_are_throttled_and_all_of_a_topic_without_a_list(quota):
    quota.mark("topic1", [1, 2, 3])
    assert [quota.is_marked("topic1", index) for index in range(5)] == [False, True, True, True, False]
    quota.mark("topic2")
    assert quota.is_marked("topic2", 0) and quota.is_marked("topic2", 9_999)
    assert not quota.is_marked("topic3", 0)
    quota.unmark("topic2")
    quota.unmark("unknown")
    assert not quota.is_marked("topic2", 0)


def test_a_topic_marked_with_an_empty_list_has_nothing_marked(quota):
    quota.mark("topic", [])
    assert not quota.is_marked("topic", 0)


def test_without_a_bound_nothing_is_exceeded_and_everything_is_recorded(quota):
    quota.record(10**15, BASE_MS)
    assert not quota.is_exceeded(BASE_MS)
    quota.bound = 10**14
    assert quota.is_exceeded(BASE_MS)
