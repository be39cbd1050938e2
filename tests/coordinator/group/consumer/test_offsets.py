"""Offsets of consumer groups: who may commit and fetch them, and when they expire."""

import pytest

from broker.common.errors import ErrorCode
from broker.coordinator.group.messages import CommitRequest, OffsetToCommit
from tests.coordinator.group.consumer.consumers import Consumer, settle
from tests.coordinator.group.conversation import Ask

NONE, STALE, UNKNOWN = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        ("a", 1, STALE),
        ("a", 2, NONE),
        ("a", 3, STALE),
        ("a", -1, STALE),
        ("c", 2, UNKNOWN),
        ("", -1, UNKNOWN),
    ],
)
def test_a_member_commits_with_its_epoch(talk, member_id, epoch, error):
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    a.enter()
    b.enter()
    settle(a, b)
    assert talk.commit(member_id, epoch) == [error]
    assert talk.committed() == (42 if error is NONE else None)


def test_anybody_commits_to_an_empty_group(talk):
    talk.enter("a")
    talk.beat("a", -1)
    assert talk.commit() == [NONE]
    assert talk.commit("x", 5) == [UNKNOWN]


def test_an_old_client_cannot_commit_as_a_member(talk):
    talk.enter("a")
    request = CommitRequest("g", 1, "a", None, (OffsetToCommit("t", 0, 1),), knows_member_epochs=False)
    ask = Ask()
    talk._take(talk.coordinator.offsets.commit(request, ask, talk.now))
    assert ask.reply.errors == (ErrorCode.UNSUPPORTED_VERSION,)


@pytest.mark.parametrize("knows", [False, True])
@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [("a", 1, NONE), ("a", 0, STALE), ("a", 2, STALE), ("b", 1, UNKNOWN)],
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
    [(None, -1, NONE), ("a", 1, NONE), ("a", 0, STALE), ("a", 2, STALE), ("b", 1, UNKNOWN), ("", 1, UNKNOWN)],
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
    talk.commit("a", 1, OffsetToCommit("t", 0, 1), OffsetToCommit("u", 0, 1))
    reply = talk.delete_offsets(("t", 0), ("u", 0))
    assert (reply.error, reply.errors) == (NONE, (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE))
    assert (talk.committed("t"), talk.committed("u")) == (1, None)


def test_a_topic_of_a_regular_expression_is_subscribed(talk):
    talk.enter("a", None, regex="t.*")
    talk.commit("a", 1)
    assert talk.delete_offsets(("t", 0)).errors == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,)


def test_offsets_expire_after_the_commit_unless_their_topic_is_subscribed(talk):
    day_ms = 24 * 3_600_000
    talk.set_topics(t=1, u=1)
    talk.enter("a")
    talk.commit("a", 1, OffsetToCommit("t", 0, 1), OffsetToCommit("u", 0, 1))
    while talk.elapsed < 8 * day_ms:
        talk.wait(40_000)
        talk.beat("a", 1)
    assert (talk.committed("t"), talk.committed("u")) == (1, None)
    # Seven days have gone by since the commit: once the group is empty, the next check deletes all of it.
    talk.beat("a", -1)
    talk.wait(600_000)
    assert talk.listed() == []
    assert talk.reborn().listed() == []
