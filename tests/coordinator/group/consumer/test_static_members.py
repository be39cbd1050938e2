"""Static members: an instance that comes back keeps its partitions, and no two members share one."""

import pytest

from broker.common.errors import ErrorCode
from tests.coordinator.group.consumer.consumers import SESSION_MS, Consumer, settle


def test_an_instance_that_returns_gets_its_partitions_without_a_new_epoch(talk):
    a, b = Consumer(talk, "a", instance_id="i"), Consumer(talk, "b", instance_id="j")
    a.enter()
    b.enter()
    settle(a, b)
    before = talk.owned()
    assert talk.beat("a", -2, instance_id="i").epoch == -2
    assert talk.group().members["a"].epoch == -2
    talk.wait(SESSION_MS - 1)
    assert b.beat().assignment is None
    reply = talk.enter("a2", instance_id="i")
    assert (reply.error, reply.epoch, talk.group().epoch) == (ErrorCode.NONE, 3, 3)
    assert talk.owned() == {"a2": before["a"], "b": before["b"]}
    assert talk.described().state == "Stable"


@pytest.mark.parametrize(("waited", "is_in"), [(SESSION_MS - 1, True), (SESSION_MS, False)])
def test_an_instance_that_stays_away_loses_its_partitions(talk, waited, is_in):
    talk.enter("a", instance_id="i")
    talk.beat("a", -2, instance_id="i")
    talk.wait(waited)
    assert bool(talk.group().members) is is_in


def test_an_instance_in_use_is_refused(talk):
    talk.enter("a", instance_id="i")
    before = talk.snapshot()
    assert talk.enter("b", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert talk.snapshot() == before


def test_the_earlier_member_of_an_instance_is_fenced(talk):
    talk.enter("a", instance_id="i")
    talk.beat("a", -2, instance_id="i")
    talk.enter("b", instance_id="i")
    for epoch in (2, -1, -2):
        assert talk.beat("a", epoch, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert talk.beat("b", 2, instance_id="i").error is ErrorCode.NONE


def test_an_unknown_instance_is_an_unknown_member(talk):
    talk.enter("a", instance_id="i")
    for epoch in (2, -1, -2):
        assert talk.beat("a", epoch, instance_id="j").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_may_leave_for_good(talk):
    talk.enter("a", instance_id="i")
    assert talk.beat("a", -1, instance_id="i").epoch == -1
    assert talk.described().state == "Empty"
    assert talk.enter("b", instance_id="i").error is ErrorCode.NONE


def test_an_instance_that_returns_with_other_topics_begins_an_epoch(talk):
    talk.set_topics(t=2, u=2)
    talk.enter("a", instance_id="i")
    talk.beat("a", -2, instance_id="i")
    reply = talk.enter("b", ("u",), instance_id="i")
    assert (reply.epoch, talk.group().epoch) == (3, 3)
    assert talk.owned() == {"b": {"u": {0, 1}}}


def test_an_instance_that_left_while_it_revoked_begins_without_partitions_to_revoke(talk):
    a, b = Consumer(talk, "a", instance_id="i"), Consumer(talk, "b")
    a.enter()
    b.enter()
    a.beat()
    talk.beat("a", -2, instance_id="i")
    a2 = Consumer(talk, "a2", instance_id="i")
    a2.enter()
    settle(a2, b)
    assert sorted(map(len, (a2.owned["t"], b.owned["t"]))) == [2, 2]
    assert talk.described().state == "Stable"


def test_a_static_member_survives_a_restart_of_the_broker(talk):
    a = Consumer(talk, "a", instance_id="i")
    a.enter()
    talk.beat("a", -2, instance_id="i")
    again = talk.reborn()
    assert again.snapshot() == talk.snapshot()
    assert again.enter("b", instance_id="i").epoch == 2
    assert again.owned() == {"b": {"t": {0, 1, 2, 3}}}
