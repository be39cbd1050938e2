"""When the log rejects the records, nothing is granted that is not written."""

import pytest

from broker.common.errors import ErrorCode
from broker.coordinator.group.groups import COORDINATOR_ERRORS
from broker.coordinator.group.messages import OffsetToCommit

GONE = ErrorCode.NOT_COORDINATOR


def test_a_commit_that_was_not_written_is_refused_and_not_seen(talk):
    talk.commit("", -1, OffsetToCommit("t", 0, 1))
    talk.commit("", -1, OffsetToCommit("t", 0, 2), OffsetToCommit("u", 0, 3))
    (ask, _) = talk.last.replies[0]
    talk.fail(talk.last)
    assert ask.reply.errors == (GONE, GONE)
    assert (talk.committed("t"), talk.committed("u")) == (1, None)
    assert talk.coordinator.offsets.committed("g").keys() == {"t"}


def test_a_refused_offset_keeps_its_own_error(talk):
    talk.commit("", -1, OffsetToCommit("t", 0, 2), OffsetToCommit("u", 0, 3, metadata="x" * 5_000))
    (ask, _) = talk.last.replies[0]
    talk.fail(talk.last)
    assert ask.reply.errors == (GONE, ErrorCode.OFFSET_METADATA_TOO_LARGE)


def test_several_calls_are_taken_back_from_the_last_to_the_first(talk):
    calls = []
    for offset in (1, 2, 3):
        talk.commit("", -1, OffsetToCommit("t", 0, offset))
        calls.append(talk.last)
    talk.fail(*reversed(calls[1:]))
    assert talk.committed() == 1


def test_an_assignment_that_was_not_written_is_discarded_and_made_again(talk):
    (first, _), (second, _) = talk.join_twice(), talk.join_twice()
    talk.wait(6_000)
    waiting = talk.sync(second, 1)
    leader = talk.sync(first, 1, {first: b"one", second: b"two"})
    talk.fail(talk.last)
    assert (leader.reply.error, waiting.reply.error) == (GONE, GONE)
    assert leader.reply.assignment == waiting.reply.assignment == b""
    assert talk.state() == "PreparingRebalance"
    assert talk.members() == {first: b"", second: b""}
    asks = talk.join(first), talk.join(second)
    assert [ask.reply.generation_id for ask in asks] == [2, 2]


def test_a_restarted_static_member_that_was_not_recorded_tries_again(talk):
    one = talk.join(instance="a")
    talk.wait(3_000)
    talk.sync(one.reply.member_id, 1, {}, instance="a")
    ask = talk.join(instance="a")
    talk.fail(talk.last)
    assert ask.reply.error is GONE
    assert talk.join(instance="a").reply.generation_id == 2


def test_a_group_whose_deletion_was_not_written_is_still_there_with_its_offsets(talk):
    talk.commit("", -1, OffsetToCommit("t", 0, 1))
    talk.delete("g")
    (ask, _) = talk.last.replies[0]
    talk.fail(talk.last)
    assert ask.reply.errors == (GONE,)
    assert talk.committed() == 1 and talk.state() == "Empty"


def test_deleted_offsets_that_were_not_written_come_back(talk):
    talk.commit("", -1, OffsetToCommit("t", 0, 1))
    talk.delete_offsets(("t", 0))
    (ask, _) = talk.last.replies[0]
    talk.fail(talk.last)
    assert ask.reply.errors == (GONE,) and talk.committed() == 1


def test_a_member_that_left_has_left_whatever_the_disk_says(talk):
    (member_id,) = talk.stable(1)
    talk.leave(member_id)
    (ask, _) = talk.last.replies[0]
    talk.fail(talk.last)
    assert ask.reply.errors == (ErrorCode.NONE,)
    assert talk.state() == "Empty"


@pytest.mark.parametrize(
    ("logged", "answered"),
    [*COORDINATOR_ERRORS.items(), (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_RECORD)],
)
def test_the_logs_error_is_put_in_terms_of_a_coordinator(talk, logged, answered):
    talk.commit()
    (ask, _) = talk.last.replies[0]
    talk.fail(talk.last, error=logged)
    assert ask.reply.errors == (answered,)
