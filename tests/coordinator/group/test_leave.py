"""LeaveGroup: one member, several, by instance id, and with wrong names."""

from broker.common.errors import ErrorCode
from broker.coordinator.group.messages import JoinReply, LeaveReply, LeavingMember, SyncReply

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_calls_the_others_back(talk):
    first, second = talk.stable(2)
    assert talk.leave(first) == LeaveReply(NONE, (NONE,))
    assert talk.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert talk.join(second).reply.leader == second


def test_the_last_member_leaves_an_empty_group_and_a_record_of_it(talk):
    (member_id,) = talk.stable(1)
    before = len(talk.records)
    talk.leave(member_id)
    assert talk.state() == "Empty"
    assert len(talk.records) == before + 1
    assert talk.restarted().state() == "Empty"


def test_several_leave_in_one_request_and_the_group_rebalances_once(talk):
    first, second, third = talk.stable(3)
    assert talk.leave(second, "stranger", third) == LeaveReply(NONE, (NONE, UNKNOWN, NONE))
    assert list(talk.members()) == [first]
    assert talk.join(first).reply.generation_id == 2


def test_all_leave_in_one_request(talk):
    assert talk.leave(*talk.stable(3)) == LeaveReply(NONE, (NONE, NONE, NONE))
    assert talk.state() == "Empty"


def test_an_operator_removes_a_static_member_by_its_instance(talk):
    talk.join(instance="a")
    talk.wait(3_000)
    talk.sync("a-1", 1, {}, instance="a")
    assert talk.leave(LeavingMember("", "b"), LeavingMember(""), LeavingMember("", "a")) == LeaveReply(
        NONE, (UNKNOWN, UNKNOWN, NONE)
    )
    assert talk.state() == "Empty"


def test_a_member_that_waits_is_told_that_it_is_no_member_any_more(talk):
    first, second = talk.stable(2)
    joins = talk.join(first)
    talk.leave(first)
    assert joins.reply == JoinReply(UNKNOWN, "")
    ask = talk.join(second)
    syncs = talk.join_twice()
    talk.join(second)
    assert ask.reply.generation_id == 2 and syncs[1].reply.generation_id == 3
    parked = talk.sync(syncs[0], 3)
    talk.leave(syncs[0])
    assert parked.reply == SyncReply(UNKNOWN)


def test_a_member_that_leaves_during_a_rebalance_is_not_waited_for(talk):
    first, second = talk.stable(2)
    waiting = talk.join(first)
    talk.leave(second)
    assert waiting.reply.generation_id == 2


def test_an_id_that_was_never_used_can_be_given_back(talk):
    first, second = talk.stable(2)
    third = talk.join().reply.member_id
    asks = [talk.join(first), talk.join(second)]
    assert all(ask.parked for ask in asks)
    assert talk.leave(third) == LeaveReply(NONE, (NONE,))
    assert [ask.reply.generation_id for ask in asks] == [2, 2]


def test_giving_back_an_id_does_not_disturb_a_stable_group(talk):
    talk.stable(2)
    talk.leave(talk.join().reply.member_id)
    assert talk.state() == "Stable"


def test_a_group_whose_members_all_leave_before_the_first_generation_becomes_empty_when_it_would_begin(talk):
    member_id, ask = talk.join_twice()
    talk.leave(member_id)
    assert ask.reply == JoinReply(UNKNOWN, "")
    assert talk.state() == "PreparingRebalance"
    talk.wait(3_000)
    assert talk.state() == "Empty"


def test_leaving_a_group_that_does_not_exist_is_no_error_of_the_group(talk):
    assert talk.leave("x", "y", group="none") == LeaveReply(NONE, (UNKNOWN, UNKNOWN))
    assert talk.leave("x", group="") == LeaveReply(ErrorCode.INVALID_GROUP_ID)
