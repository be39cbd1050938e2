"""Heartbeats and sessions: live members, and the effects of an expired session."""

import pytest

from broker.common.errors import ErrorCode
from broker.coordinator.group.messages import JoinReply, SyncReply
from tests.coordinator.group.conversation import Conversation


@pytest.mark.parametrize(("later", "alive"), [(9_999, True), (10_000, False), (10_001, False)])
def test_a_member_is_out_exactly_when_its_session_ends(talk, later, alive):
    (member_id,) = talk.stable(1)
    talk.wait(later)
    assert (member_id in talk.members()) is alive


def test_a_heartbeat_prolongs_the_session_from_when_it_came(talk):
    (member_id,) = talk.stable(1)
    talk.wait(9_999)
    assert talk.heartbeat(member_id, 1) is ErrorCode.NONE
    talk.wait(9_999)
    assert talk.members()
    talk.wait(1)
    assert not talk.members()


@pytest.mark.parametrize(
    ("member_id", "generation", "group", "error"),
    [
        ("client-1", 0, "g", ErrorCode.ILLEGAL_GENERATION),
        ("client-1", 2, "g", ErrorCode.ILLEGAL_GENERATION),
        ("stranger", 1, "g", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 1, "g", ErrorCode.UNKNOWN_MEMBER_ID),
        ("client-1", 1, "none", ErrorCode.UNKNOWN_MEMBER_ID),
        ("client-1", 1, "", ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_a_heartbeat_has_to_come_from_a_member_of_this_generation(talk, member_id, generation, group, error):
    talk.stable(1)
    assert talk.heartbeat(member_id, generation, group=group) is error


def test_a_refused_heartbeat_prolongs_nothing(talk):
    (member_id,) = talk.stable(1)
    talk.wait(9_000)
    talk.heartbeat(member_id, 7)
    talk.wait(1_000)
    assert not talk.members()


def test_a_heartbeat_while_the_assignment_is_awaited_is_fine(talk):
    (member_id, _), _ = talk.join_twice(), talk.join_twice()
    talk.wait(6_000)
    assert talk.heartbeat(member_id, 1) is ErrorCode.NONE


def test_a_heartbeat_during_a_rebalance_prolongs_the_session_all_the_same(talk):
    first, second = talk.stable(2)
    talk.join(first)
    for _ in range(5):
        talk.wait(9_999)
        assert talk.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert second in talk.members()


def test_a_member_that_waits_for_the_others_needs_no_heartbeat(talk):
    first, second = talk.stable(2)
    waiting = talk.join(first)
    for _ in range(5):
        talk.wait(9_000)
        talk.heartbeat(second, 1)
    assert waiting.parked and first in talk.members()
    talk.join(second)
    assert waiting.reply.generation_id == 2


def test_a_member_that_waits_for_its_assignment_needs_no_heartbeat(talk):
    (first, _), (second, _) = talk.join_twice(), talk.join_twice()
    talk.wait(6_000)
    waiting = talk.sync(second, 1)
    for _ in range(4):
        talk.wait(9_000)
        talk.heartbeat(first, 1)
    assert waiting.parked
    talk.sync(first, 1, {second: b"x"})
    assert waiting.reply.assignment == b"x"


def test_the_session_starts_over_with_the_answer_that_was_waited_for(talk):
    first, second = talk.stable(2)
    talk.join(first)
    talk.wait(9_000)
    talk.heartbeat(second, 1)
    talk.wait(9_000)
    talk.join(second)
    talk.wait(9_999)
    assert len(talk.members()) == 2
    talk.wait(1)
    assert not talk.members()


def test_the_death_of_the_leader_makes_the_next_member_lead(talk):
    first, second = talk.stable(2)
    talk.wait(5_000)
    talk.heartbeat(second, 1)
    talk.wait(5_000)
    assert talk.state() == "PreparingRebalance" and first not in talk.members()
    assert talk.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    ask = talk.join(second)
    assert ask.reply.leader == second and ask.reply.generation_id == 2


def test_the_expiry_of_the_awaited_member_ends_the_rebalance(talk):
    first, second = talk.stable(2)
    waiting = talk.join(first)
    start = talk.elapsed
    talk.wait(20_000)
    assert waiting.reply.generation_id == 2 and waiting.at == start + 10_000
    assert second not in talk.members()


def test_when_the_last_member_dies_the_group_is_empty_one_generation_on(talk):
    talk.stable(1)
    talk.wait(10_000)
    assert talk.state() == "Empty"
    _, ask = talk.join_twice()
    talk.wait(3_000)
    assert ask.reply.generation_id == 3


def test_deadlines_that_were_missed_happen_all_the_same_in_their_order(talk):
    first, second, third = talk.stable(3)
    waiting = talk.join(first)
    talk.wait_in_one_go(100_000)
    # Both sessions end, then the rebalance can; the member that waited has a session from now on.
    assert waiting.reply.generation_id == 2
    assert list(talk.members()) == [first]
    assert {second, third}.isdisjoint(talk.members())


def test_a_client_that_disconnects_while_it_waits_stays_a_member_until_its_session_ends(talk):
    first, second = talk.stable(2)
    talk.join(first)
    assert first in talk.members()
    ask = talk.join(second)
    assert ask.reply.generation_id == 2
    talk.wait(5_000)
    talk.heartbeat(second, 2)
    talk.wait(5_000)
    assert first not in talk.members()


def test_a_client_that_comes_back_after_a_disconnect_waits_anew(talk):
    first, second = talk.stable(2)
    talk.join(first)
    back = talk.join(first)
    assert back.parked
    talk.join(second)
    assert back.reply.generation_id == 2


def test_when_the_broker_stops_everything_parked_is_sent_to_look_for_a_coordinator(talk):
    first, _ = talk.stable(2)
    joins = talk.join(first)
    (one, _), (two, _) = talk.join_twice(group="h"), talk.join_twice(group="h")
    talk.wait(6_000)
    syncs = talk.sync(two, 1, group="h")
    effects = talk.coordinator.release()
    assert dict(effects.replies) == {
        joins: JoinReply(ErrorCode.NOT_COORDINATOR, first),
        syncs: SyncReply(ErrorCode.NOT_COORDINATOR),
    }
    assert talk.coordinator.release().replies == []
    assert one in talk.members("h")


def test_sessions_start_anew_when_the_groups_are_loaded():
    old = Conversation()
    (member_id,) = old.stable(1)
    old.wait(9_000)
    talk = old.restarted()
    talk.wait(9_999)
    assert member_id in talk.members()
    talk.wait(1)
    assert talk.state() == "Empty"
