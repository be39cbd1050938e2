"""Offsets of consumer groups: who may commit and fetch them, and when they expire."""

import pytest

from broker.common.errors import ErrorCode
from broker.coordinator.group.consumer.assignment import ClusterTopics
from broker.coordinator.group.messages import CommitRequest, OffsetToCommit
from tests.coordinator.group.consumer.consumers import Consumer, Topic, settle, topic_id
from tests.coordinator.group.conversation import Ask

NONE, STALE, UNKNOWN = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID


def two(talk):
    """Members of epoch 3: `a` has had its partitions, 0 and 1, since epoch 2, and `b` its own since 3."""
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    a.enter()
    a.revoke()
    b.enter()
    settle(a, b)
    assert (a.owned, b.owned) == ({"t": {0, 1}}, {"t": {2, 3}})
    return a, b


@pytest.mark.parametrize(
    ("member_id", "epoch", "partition", "error"),
    [
        ("a", 1, 0, STALE),
        ("a", 2, 0, NONE),
        ("a", 3, 0, NONE),
        ("a", 4, 0, STALE),
        ("a", -1, 0, STALE),
        ("a", 2, 2, STALE),
        ("a", 3, 2, NONE),
        ("b", 2, 2, STALE),
        ("b", 3, 2, NONE),
        ("c", 3, 0, UNKNOWN),
        ("", -1, 0, UNKNOWN),
    ],
)
def test_a_member_commits_what_it_has_had_since_its_epoch(talk, member_id, epoch, partition, error):
    two(talk)
    assert talk.commit(member_id, epoch, OffsetToCommit("t", partition, 42)) == [error]
    assert talk.committed("t", partition) == (42 if error is NONE else None)


def test_one_offset_of_another_member_refuses_all(talk):
    two(talk)
    assert talk.commit("a", 2, OffsetToCommit("t", 0, 5), OffsetToCommit("t", 2, 5)) == [STALE, STALE]
    assert talk.commit("a", 2, OffsetToCommit("t", 0, 5), OffsetToCommit("u", 0, 5)) == [STALE, STALE]
    assert talk.commit("a", 2, OffsetToCommit("t", 0, 5), OffsetToCommit("t", 1, 5)) == [NONE, NONE]


def test_a_member_commits_what_it_still_has_to_give_up(talk):
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    a.enter()
    a.revoke()
    b.enter()
    a.beat()
    talk.enter("c")
    assert talk.group().members["a"].revoking == {topic_id("t"): {2, 3}}
    assert talk.commit("a", 2, OffsetToCommit("t", 3, 5)) == [NONE]


def test_a_partition_that_comes_back_counts_from_then_on(talk):
    a, b = two(talk)
    b.leave()
    settle(a)
    epoch = a.epoch
    assert talk.group().members["a"].since == {topic_id("t"): {0: 2, 1: 2, 2: epoch, 3: epoch}}
    assert talk.commit("a", epoch - 1, OffsetToCommit("t", 0, 5)) == [NONE]
    assert talk.commit("a", epoch - 1, OffsetToCommit("t", 2, 5)) == [STALE]
    assert talk.commit("a", epoch, OffsetToCommit("t", 2, 5)) == [NONE]
    assert talk.reborn().snapshot() == talk.snapshot()


def test_a_topic_of_the_same_name_is_another_one(talk):
    two(talk)
    by_name = {"t": Topic("t", topic_id("t", 1), 4)}
    talk.topics = ClusterTopics(by_name, talk.topics.version + 1)
    assert talk.commit("a", 2) == [STALE]


def test_a_static_member_that_came_back_commits_with_any_epoch_of_its_partitions(talk):
    """They count from epoch 0 on, as in Kafka."""
    a = Consumer(talk, "a", instance_id="i")
    a.enter()
    a.revoke()
    a.beat()
    talk.beat("a", -2, instance_id="i")
    assert talk.group().members["a"].since == {topic_id("t"): 0}
    again = Consumer(talk, "x", instance_id="i")
    again.enter()
    assert talk.group().members["x"].since == {topic_id("t"): 0}
    assert talk.commit("x", 0) == [NONE]
    assert talk.commit("a", 0) == [UNKNOWN]


@pytest.mark.parametrize(
    ("epoch", "partition", "error"), [(1, 0, STALE), (2, 0, NONE), (2, 2, STALE), (3, 2, NONE), (4, 0, STALE)]
)
@pytest.mark.parametrize("knows", [False, True])
def test_a_transaction_commits_as_a_member_does(talk, epoch, partition, error, knows):
    two(talk)
    offsets = (OffsetToCommit("t", partition, 1),)
    request = CommitRequest("g", epoch, "a", None, offsets, knows_member_epochs=knows)
    ask = Ask()
    talk._take(talk.coordinator.offsets.commit_in_transaction(request, ask, talk.now))
    assert ask.reply.errors == (ErrorCode.ILLEGAL_GENERATION if error is STALE and not knows else error,)


def test_anybody_commits_to_an_empty_group(talk):
    talk.enter("a")
    talk.beat("a", -1)
    assert talk.commit() == [NONE]
    assert talk.commit("x", 6) == [UNKNOWN]


def test_an_old_client_cannot_commit_as_a_member(talk):
    talk.enter("a")
    request = CommitRequest("g", 1, "a", None, (OffsetToCommit("t", 0, 1),), knows_member_epochs=False)
    ask = Ask()
    talk._take(talk.coordinator.offsets.commit(request, ask, talk.now))
    assert ask.reply.errors == (ErrorCode.UNSUPPORTED_VERSION,)


@pytest.mark.parametrize("knows", [False, True])
@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [("a", 2, NONE), ("a", 1, STALE), ("a", 3, STALE), ("b", 2, UNKNOWN)],
)
def test_a_transaction_states_the_epoch_as_its_generation(talk, member_id, epoch, error, knows):
    talk.enter("a")
    request = CommitRequest(
        "g", epoch, member_id, None, (OffsetToCommit("t", 0, 1),), knows_member_epochs=knows
    )
    ask = Ask()
    talk._take(talk.coordinator.offsets.commit_in_transaction(request, ask, talk.now))
    assert ask.reply.errors == (ErrorCode.ILLEGAL_GENERATION if error is STALE and not knows else error,)


def test_a_transaction_of_no_member_needs_no_epoch(talk):
    talk.enter("a")
    request = CommitRequest("g", -1, "", None, (OffsetToCommit("t", 0, 1),))
    ask = Ask()
    talk._take(talk.coordinator.offsets.commit_in_transaction(request, ask, talk.now))
    assert ask.reply.errors == (NONE,)


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [(None, -1, NONE), ("a", 2, NONE), ("a", 1, STALE), ("a", 3, STALE), ("b", 2, UNKNOWN), ("", 2, UNKNOWN)],
)
def test_a_member_fetches_with_its_epoch(talk, member_id, epoch, error):
    talk.enter("a")
    assert talk.coordinator.offsets.check_fetch("g", member_id, epoch) is error


def test_a_classic_or_missing_group_does_not_check_a_fetch(talk):
    talk.join(group="c")
    assert talk.coordinator.offsets.check_fetch("c", "a", 7) is NONE
    assert talk.coordinator.offsets.check_fetch("none", "a", 7) is NONE


def test_offsets_of_subscribed_topics_are_not_deleted(talk):
    talk.set_topics(t=1, u=1)
    talk.enter("a")
    talk.commit("a", 2, OffsetToCommit("t", 0, 1), OffsetToCommit("u", 0, 1))
    reply = talk.delete_offsets(("t", 0), ("u", 0))
    assert (reply.error, reply.errors) == (NONE, (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE))
    assert (talk.committed("t"), talk.committed("u")) == (1, None)


def test_a_topic_of_a_regular_expression_is_subscribed(talk):
    talk.enter("a", None, regex="t.*")
    talk.commit("a", 2)
    assert talk.delete_offsets(("t", 0)).errors == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,)


def test_offsets_expire_after_the_commit_unless_their_topic_is_subscribed(talk):
    day_ms = 24 * 3_600_000
    talk.set_topics(t=1, u=1)
    talk.enter("a")
    talk.commit("a", 2, OffsetToCommit("t", 0, 1), OffsetToCommit("u", 0, 1))
    while talk.elapsed < 8 * day_ms:
        talk.wait(40_000)
        talk.beat("a", 2)
    assert (talk.committed("t"), talk.committed("u")) == (1, None)
    # Seven days have gone by since the commit: once the group is empty, the next check deletes all of it.
    talk.beat("a", -1)
    talk.wait(600_000)
    assert talk.listed() == []
    assert talk.reborn().listed() == []
