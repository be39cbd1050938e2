"""When the log rejects the records, nothing is granted that is not written."""

import pytest

from broker.common.errors import ErrorCode
from broker.coordinator.group.groups import COORDINATOR_ERRORS
from broker.coordinator.group.messages import OffsetToCommit
from tests.coordinator.group.consumer.consumers import Consumers
from tests.coordinator.group.consumer.test_migration import classic_group
from tests.coordinator.group.share.sharers import Sharers
from tests.coordinator.group.streams.streamers import Streamers

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


OTHERS = pytest.mark.parametrize("kind", [Consumers, Sharers, Streamers])


def set_timers(talk):
    """Return the timers that are set, by kind and member, but that of the retention."""
    queue = talk.coordinator.groups.timers._queue
    return {
        (timer.kind.name, timer.member_id)
        for _, _, timer in queue
        if timer.at_ms is not None and timer.group_id
    }


@OTHERS
def test_a_member_whose_join_was_not_written_has_no_timers(kind):
    talk = kind()
    talk.enter("a")
    before = set_timers(talk)
    assert before
    talk.enter("b")
    assert set_timers(talk) > before
    talk.fail(talk.last)
    assert set_timers(talk) == before
    assert list(talk.group().timers) == ["a"]
    assert talk.enter("b").error is ErrorCode.NONE
    assert list(talk.group().timers) == ["a", "b"]


@OTHERS
def test_a_group_that_was_not_written_has_no_timers(kind):
    talk = kind()
    talk.enter("a")
    talk.fail(talk.last)
    assert not talk.coordinator.groups.by_id
    assert not set_timers(talk)


def test_the_first_assignment_of_a_member_that_was_not_written_is_not_timed():
    talk = Streamers(streams=Streamers().streams.__class__())
    talk.enter("a")
    talk.beat("a", -1)
    talk.wait(10_000)
    talk.enter("b")
    assert ("INITIAL", "") in set_timers(talk)
    talk.fail(talk.last)
    assert not set_timers(talk)


@pytest.mark.parametrize("kind", [Consumers, Streamers])
def test_a_classic_member_of_a_group_that_was_not_converted_joins_again(kind):
    """The records are those of the conversion: its JoinGroup would else wait for a rebalance of a group that
    is gone.
    """
    talk = kind()
    talk.enter("a")
    talk.beat("a", -1)
    ask = talk.join(old_client=True)
    converted = talk.last
    other = talk.join(old_client=True)
    assert (ask.parked, other.parked) == (True, True)
    talk.fail(talk.last, converted)
    assert (ask.reply.error, other.reply.error) == (GONE, GONE)
    assert talk.group().is_empty
    assert not set_timers(talk)
    assert not talk.coordinator.release().replies


def test_the_classic_members_of_a_group_that_was_not_converted_keep_only_their_timers():
    talk = Consumers()
    classic_group(talk, 2)
    before = set_timers(talk)
    talk.enter("a")
    assert talk.group().members.keys() > {"a"}
    talk.fail(talk.last)
    assert talk.state() == "Stable"
    assert set_timers(talk) == before
