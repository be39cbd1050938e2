"""Sessions and rebalance timeouts, to the millisecond."""

import pytest

from broker.common.errors import ErrorCode
from broker.config.sections.consumer_groups import ConsumerGroupConfig
from tests.coordinator.group.consumer.consumers import SESSION_MS, Consumer, Consumers


@pytest.mark.parametrize(("waited", "members"), [(SESSION_MS - 1, 1), (SESSION_MS, 0), (SESSION_MS + 1, 0)])
def test_a_member_without_heartbeats_is_removed(talk, waited, members):
    talk.enter("a")
    talk.wait(waited)
    assert len(talk.group().members) == members
    expected = ErrorCode.NONE if members else ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.beat("a", 1).error is expected


def test_each_heartbeat_renews_the_session(talk):
    talk.enter("a")
    for _ in range(3):
        talk.wait(SESSION_MS - 1)
        assert talk.beat("a", 1).error is ErrorCode.NONE
    talk.wait(SESSION_MS)
    assert talk.described().state == "Empty"


def test_a_refused_heartbeat_renews_nothing(talk):
    talk.enter("a")
    talk.wait(SESSION_MS - 1)
    assert talk.beat("a", 9).error is ErrorCode.FENCED_MEMBER_EPOCH
    talk.wait(1)
    assert talk.group().members == {}


def test_the_session_timeout_is_the_brokers():
    talk = Consumers(consumer=ConsumerGroupConfig(session_timeout_ms=50_000, heartbeat_interval_ms=7_000))
    assert talk.enter("a").interval_ms == 7_000
    talk.wait(49_999)
    assert len(talk.group().members) == 1
    talk.wait(1)
    assert talk.group().members == {}


@pytest.mark.parametrize(("waited", "is_in"), [(29_999, True), (30_000, False), (30_001, False)])
def test_a_member_that_does_not_revoke_in_time_is_fenced(talk, waited, is_in):
    a, b = Consumer(talk, "a", rebalance_timeout_ms=30_000), Consumer(talk, "b")
    a.enter()
    b.enter()
    a.beat()
    began = talk.elapsed
    while talk.elapsed - began < waited:
        talk.wait(min(1_000, waited - (talk.elapsed - began)))
        b.beat()
        if talk.elapsed - began < waited and "a" in talk.group().members:
            assert a.beat().epoch == 1  # heartbeats alone do not help
    assert ("a" in talk.group().members) is is_in
    b.beat()
    assert b.target == ({} if is_in else {"t": {0, 1, 2, 3}})


def test_a_member_that_revokes_in_time_stays(talk):
    a, b = Consumer(talk, "a", rebalance_timeout_ms=30_000), Consumer(talk, "b")
    a.enter()
    b.enter()
    a.beat()
    talk.wait(29_999)
    a.revoke()
    assert a.beat().epoch == 2
    talk.wait(15_000)
    b.beat()
    assert set(talk.group().members) == {"a", "b"}


def test_the_timers_run_on_after_a_restart(talk):
    a, b = Consumer(talk, "a", rebalance_timeout_ms=30_000), Consumer(talk, "b")
    a.enter()
    b.enter()
    a.beat()
    again = talk.reborn()
    again.wait(29_999)
    assert set(again.group().members) == {"a", "b"}
    again.wait(1)
    assert set(again.group().members) == {"b"}
    again.wait(SESSION_MS - 30_000)
    assert again.group().members == {}


def test_many_members_expire_together(talk):
    for number in range(40):
        talk.enter(f"m{number}")
    talk.wait(SESSION_MS)
    assert talk.described().state == "Empty"
    assert talk.group().timers == {}
