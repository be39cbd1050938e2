"""A partition has one owner at any time: it is revoked before another member receives it. Sessions and
rebalance timeouts, to the millisecond.
"""

import random

import pytest

from broker.common.errors import ErrorCode
from broker.config.sections.groups import ConsumerGroupConfig
from broker.coordinator.group.consumer.group import Owners
from broker.coordinator.group.consumer.member import MemberState
from tests.coordinator.group.consumer.consumers import SESSION_MS, Consumer, Consumers, settle

SEEDS = range(40)


def test_the_first_member_receives_everything_with_its_first_heartbeat(talk):
    reply = talk.enter("a")
    assert (reply.error, reply.member_id, reply.epoch, reply.interval_ms) == (ErrorCode.NONE, "a", 2, 5_000)
    assert talk.owned() == {"a": {"t": {0, 1, 2, 3}}}
    assert talk.described().state == "Stable"


def test_a_partition_is_revoked_before_another_member_receives_it(talk):
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    a.enter()
    a.revoke()
    joined = b.enter()
    # The group and the target are at epoch 3, and so is b, which has nothing to revoke and waits.
    assert (joined.epoch, joined.assignment) == (3, {})
    assert talk.group().members["b"].state is MemberState.UNRELEASED_PARTITIONS
    assert talk.described().state == "Reconciling"
    # a keeps its epoch while it revokes.
    reported = a.beat()
    assert (reported.epoch, a.target) == (2, {"t": {0, 1}})
    assert talk.group().members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert b.beat().assignment is None
    # It reports what it uses, and moves on.
    a.revoke()
    assert a.beat().epoch == 3
    b.beat()
    assert talk.owned() == {"a": {"t": {0, 1}}, "b": {"t": {2, 3}}}
    assert talk.described().state == "Stable"


def test_a_member_without_changes_is_not_told_its_assignment_again(talk):
    talk.enter("a")
    before = len(talk.records)
    reply = talk.beat("a", 2)
    assert (reply.epoch, reply.assignment) == (2, None)
    assert len(talk.records) == before


def test_a_full_request_is_answered_with_the_assignment(talk):
    talk.enter("a")
    reply = talk.beat("a", 2, topics=("t",), rebalance_timeout_ms=1, owned={"t": {0, 1, 2, 3}})
    assert reply.assignment is not None and sum(map(len, reply.assignment.values())) == 4


def test_what_a_member_leaves_goes_to_the_others_with_their_next_heartbeat(talk):
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    a.enter()
    b.enter()
    settle(a, b)
    assert (b.leave().epoch, talk.group().epoch, talk.group().target_epoch) == (-1, 4, 3)
    assert talk.described().state == "Assigning"
    a.beat()
    assert talk.owned() == {"a": {"t": {0, 1, 2, 3}}}


def test_the_last_member_leaves_an_empty_group(talk):
    talk.enter("a")
    talk.beat("a", -1)
    assert talk.described().state == "Empty"
    assert talk.group().owners == Owners()


def test_a_member_that_missed_a_response_repeats_its_epoch(talk):
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    a.enter()
    b.enter()
    a.beat()
    a.revoke()
    assert talk.beat("a", 2, owned={"t": {0, 1}}).epoch == 3
    # The response is lost: the member repeats the request, and is told the epoch again.
    assert talk.beat("a", 2, owned={"t": {0, 1}}).epoch == 3


@pytest.mark.parametrize(
    ("epoch", "owned"),
    [(4, {"t": {0, 1}}), (2, {"t": {0, 1, 2}}), (2, None), (0, None)],
    ids=["ahead", "more partitions than it has", "no partitions stated", "before the last epoch"],
)
def test_a_member_with_another_epoch_is_fenced(talk, epoch, owned):
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    a.enter()
    b.enter()
    settle(a, b)
    fields = {"topics": ("t",), "rebalance_timeout_ms": 1, "owned": {}} if epoch == 0 else {"owned": owned}
    before = talk.snapshot()
    assert talk.beat("a", epoch, **fields).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert talk.snapshot() == before


def test_unknown_members_and_groups_are_refused(talk):
    assert talk.beat("a", 2).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert talk.beat("a", -1).error is ErrorCode.GROUP_ID_NOT_FOUND
    talk.enter("a")
    assert talk.beat("b", 2).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.beat("b", -1).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("before", "after"), [({"t": 4}, {"t": 6}), ({"t": 4}, {}), ({}, {"t": 2})], ids=["more", "none", "new"]
)
def test_a_change_of_a_subscribed_topic_begins_an_epoch(before, after):
    talk = Consumers()
    talk.set_topics(**before)
    a = Consumer(talk, "a")
    a.enter()
    talk.set_topics(**after, other=3)
    settle(a, beats=3)
    assert talk.group().epoch == 3
    assert a.owned == {name: set(range(count)) for name, count in after.items()}


def test_a_change_of_another_topic_begins_none(talk):
    a = Consumer(talk, "a")
    a.enter()
    talk.set_topics(t=4, other=3)
    settle(a)
    assert talk.group().epoch == 2


def test_a_change_of_the_subscription_begins_an_epoch(talk):
    talk.set_topics(t=2, u=2)
    talk.enter("a")
    reply = talk.beat("a", 2, topics=("u",), owned={"t": {0, 1}})
    assert talk.group().epoch == 3
    assert reply.assignment == {}  # t is to be revoked first
    talk.beat("a", 2, owned={})
    assert talk.owned() == {"a": {"u": {0, 1}}}


def test_a_partition_that_returns_to_its_owner_while_it_revokes_is_kept_by_nobody_else(talk):
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    a.enter()
    a.revoke()
    b.enter()
    a.beat()
    b.leave()
    settle(a)
    assert talk.owned() == {"a": {"t": {0, 1, 2, 3}}}


@pytest.mark.rotates
@pytest.mark.parametrize("seed", SEEDS)
def test_no_partition_ever_has_two_users(seed):
    chance = random.Random(seed)
    talk = Consumers()
    topics = {"t": 5, "u": 3, "v": 1}
    talk.set_topics(**topics)
    everyone = [
        Consumer(
            talk,
            f"m{number}",
            chance.choice((("t",), ("t", "u"), ("t", "u", "v"))),
            rebalance_timeout_ms=20_000,
            assignor=chance.choice((None, "uniform", "range")),
        )
        for number in range(5)
    ]
    for step in range(150):
        consumer = chance.choice(everyone)
        match chance.randrange(12):
            case 0 if consumer.is_in:
                consumer.leave()
            case 1:
                talk.wait(chance.randrange(6_000))
            case 2:
                topics[chance.choice("tuv")] += 1
                talk.set_topics(**topics)
            case 3 | 4 if consumer.is_in:
                consumer.revoke()
            case 5 if step % 7 == 0:
                records, elapsed, cluster = talk.records, talk.elapsed, talk.topics
                talk = Consumers()
                talk.records, talk.elapsed, talk.topics = records, elapsed, cluster
                for key, value in records:
                    talk.coordinator.replay(key, value)
                talk._take(talk.coordinator.loaded(talk.now))
                for each in everyone:
                    each.talk = talk
            case _ if consumer.is_in:
                consumer.beat()
            case _:
                consumer.enter()
        # A client uses what it owned and still has; what it was told to receive, it uses after `revoke`.
        used = [
            (topic, index)
            for each in everyone
            if each.is_in and each.member_id in talk.group().members
            for topic, indexes in each.owned.items()
            for index in indexes
        ]
        assert len(used) == len(set(used)), f"step {step}"
    # Without further changes, everybody reaches its target.
    for consumer in everyone:
        if not consumer.is_in or consumer.member_id not in talk.group().members:
            consumer.enter()
    settle(*everyone, beats=12)
    assert talk.described().state == "Stable"
    assigned = sorted(
        (topic, index) for each in everyone for topic, indexes in each.owned.items() for index in indexes
    )
    subscribed = {topic for each in everyone for topic in each.topics}
    assert assigned == sorted((topic, index) for topic in subscribed for index in range(topics[topic]))


@pytest.mark.parametrize(("waited", "members"), [(SESSION_MS - 1, 1), (SESSION_MS, 0), (SESSION_MS + 1, 0)])
def test_a_member_without_heartbeats_is_removed(talk, waited, members):
    talk.enter("a")
    talk.wait(waited)
    assert len(talk.group().members) == members
    expected = ErrorCode.NONE if members else ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.beat("a", 2).error is expected


def test_each_heartbeat_renews_the_session(talk):
    talk.enter("a")
    for _ in range(3):
        talk.wait(SESSION_MS - 1)
        assert talk.beat("a", 2).error is ErrorCode.NONE
    talk.wait(SESSION_MS)
    assert talk.described().state == "Empty"


def test_a_refused_heartbeat_renews_nothing(talk):
    talk.enter("a")
    talk.wait(SESSION_MS - 1)
    assert talk.beat("a", 10).error is ErrorCode.FENCED_MEMBER_EPOCH
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
            assert a.beat().epoch == 2  # heartbeats alone do not help
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
    assert a.beat().epoch == 3
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
