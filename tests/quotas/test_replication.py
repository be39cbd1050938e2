"""Replication quotas against the numbers of Kafka's ReplicationQuotaManagerTest."""

import pytest

from broker.common.clock import BASE_MS
from broker.config.sections import ReplicationConfig, TopicThrottles
from broker.config.sections.quotas import ALL_REPLICAS
from broker.metrics.rate import Window
from broker.quotas.kinds import QuotaKind
from broker.quotas.quota_metrics import replication_families
from broker.quotas.replication import ReplicationQuotaManager, ReplicationQuotas


@pytest.fixture
def quota() -> ReplicationQuotaManager:
    return ReplicationQuotaManager(QuotaKind.LEADER_REPLICATION, Window(10, 1_000))


def test_the_rate_is_over_the_time_since_the_first_look(quota):
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


def test_only_marked_partitions_are_throttled_and_all_of_a_topic_without_a_list(quota):
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


@pytest.mark.parametrize(("recorded", "wait_ms"), [(99, 0), (100, 0), (101, 10), (150, 500), (200, 1_000)])
def test_the_wait_ends_when_the_rate_is_at_its_bound_again(quota, recorded, wait_ms):
    quota.bound = 100
    quota.record(recorded, BASE_MS)
    assert quota.wait_ms(BASE_MS) == wait_ms
    if wait_ms:
        # A rate covers at least one window, so usage in the first second waits for its end.
        assert quota.is_exceeded(BASE_MS + 1_000 + wait_ms - 1) and not quota.is_exceeded(
            BASE_MS + 1_000 + wait_ms
        )


@pytest.mark.parametrize(
    ("recorded", "later_ms", "allowed"), [(0, 0, 100), (99, 0, 1), (100, 0, 0), (150, 0, 0), (150, 2_000, 50)]
)
def test_as_much_is_allowed_as_does_not_exceed_the_bound(quota, recorded, later_ms, allowed):
    quota.bound = 100
    quota.record(recorded, BASE_MS)
    now_ms = BASE_MS + later_ms
    assert quota.allowance(now_ms) == allowed
    quota.record(allowed, now_ms)
    assert quota.is_exceeded(now_ms) is (recorded > 100 and not allowed)


def test_no_wait_is_longer_than_what_is_looked_back_to_and_nothing_passes_a_bound_of_zero(quota):
    quota.bound = 1
    quota.record(1_000_000, BASE_MS)
    assert quota.wait_ms(BASE_MS) == 10_000
    quota.bound = 0
    assert quota.wait_ms(BASE_MS) == 10_000


def test_windows_and_bounds_come_from_the_configuration_and_use_outlives_a_new_bound():
    config = ReplicationConfig(
        leader_rate=10, follower_rate=20, alter_log_dirs_rate=30, window_num=3, window_size_seconds=2
    )
    quotas = ReplicationQuotas(config, node_id=1)
    assert [each.bound for each in quotas.managers] == [10, 20, 30]
    quotas.leader.record(60, BASE_MS)
    assert quotas.leader.observed(BASE_MS) == 30, "a window of two seconds"
    quotas.configure(ReplicationConfig())
    assert not quotas.leader.is_exceeded(BASE_MS)
    quotas.configure(ReplicationConfig(leader_rate=29))
    assert quotas.leader.is_exceeded(BASE_MS)
    quotas.alter_log_dirs.record(60, BASE_MS)
    assert quotas.alter_log_dirs.observed(BASE_MS) == 60, "windows of its own"


def test_a_topic_marks_the_partitions_that_it_names_for_this_broker():
    quotas = ReplicationQuotas(ReplicationConfig(), node_id=1)
    quotas.mark("topic", TopicThrottles(leader=((0, 1), (1, 2)), follower=ALL_REPLICAS))
    assert [quotas.leader.is_marked("topic", index) for index in range(3)] == [True, False, False]
    assert quotas.follower.is_marked("topic", 2)
    quotas.mark("topic", TopicThrottles())
    assert not quotas.leader.is_marked("topic", 0) and not quotas.follower.is_marked("topic", 2)
    quotas.mark("topic", TopicThrottles(leader=ALL_REPLICAS))
    quotas.mark("topic", None)
    assert not quotas.leader.is_marked("topic", 0)


def test_a_rate_is_shown_once_it_is_used_and_a_bound_while_there_is_one():
    quotas = ReplicationQuotas(ReplicationConfig(), node_id=1)
    assert [family.samples for family in replication_families(quotas, BASE_MS)] == [[]] * 6
    quotas.configure(ReplicationConfig(leader_rate=50))
    quotas.leader.record(100, BASE_MS)
    shown = {
        each.name: each.samples[0].value for each in replication_families(quotas, BASE_MS) if each.samples
    }
    assert shown == {
        "kafka_server_leaderreplication_byte_rate": 100,
        "kafka_server_leaderreplication_quota_bound": 50,
    }
