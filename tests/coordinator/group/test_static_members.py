"""Static membership (KIP-345, KIP-814): members that rejoin under their instance id."""

import pytest

from broker.common.errors import ErrorCode
from broker.coordinator.group.messages import JoinedMember, JoinReply, LeaveReply, LeavingMember, SyncReply
from tests.coordinator.group.conversation import Conversation, subscription

RANGE = ("range", subscription("t"))
STICKY = ("sticky", subscription("t"))


def stable_pair(talk: Conversation, **options: object) -> tuple[str, str]:
    """Instances a and b in generation 1; a leads."""
    one = talk.join(instance="a", **options)
    two = talk.join(instance="b", **options)
    talk.wait(6_000)
    first, second = one.reply.member_id, two.reply.member_id
    waiting = talk.sync(second, 1, instance="b")
    talk.sync(first, 1, {first: b"for a", second: b"for b"}, instance="a")
    assert waiting.reply.assignment == b"for b"
    return first, second


def test_a_static_member_needs_no_id_first_and_is_named_after_its_instance(talk):
    ask = talk.join(instance="a")
    talk.wait(3_000)
    assert ask.reply.member_id == "a-1"
    assert ask.reply.members == (JoinedMember("a-1", "a", RANGE[1]),)


def test_a_restarted_follower_keeps_its_assignment_without_a_rebalance(talk):
    first, second = stable_pair(talk)
    ask = talk.join(instance="b")
    assert ask.reply == JoinReply(ErrorCode.NONE, "b-3", 1, "consumer", "range", first)
    assert talk.state() == "Stable"
    assert talk.sync("b-3", 1, instance="b").reply.assignment == b"for b"
    assert second not in talk.members()


def test_a_restarted_leader_is_told_to_skip_the_assignment_and_gets_the_members(talk):
    stable_pair(talk)
    ask = talk.join(instance="a")
    members = {JoinedMember("a-3", "a", RANGE[1]), JoinedMember("b-2", "b", RANGE[1])}
    assert set(ask.reply.members) == members
    assert ask.reply == JoinReply(
        ErrorCode.NONE, "a-3", 1, "consumer", "range", "a-3", True, ask.reply.members
    )
    assert talk.sync("a-3", 1, instance="a").reply.assignment == b"for a"


def test_a_restarted_leader_that_cannot_skip_is_told_that_its_old_id_leads(talk):
    first, _ = stable_pair(talk)
    ask = talk.join(instance="a", can_skip=False)
    assert ask.reply == JoinReply(ErrorCode.NONE, "a-3", 1, "consumer", "range", first)


def test_a_restart_that_changes_the_protocol_starts_a_rebalance(talk):
    stable_pair(talk, protocols=(RANGE, STICKY))
    ask = talk.join(instance="a", protocols=(STICKY,))
    assert ask.parked and talk.state() == "PreparingRebalance"


def test_a_restart_with_new_metadata_alone_does_not(talk):
    """Kafka compares the selected protocol only; the leader gets the metadata with its next rebalance."""
    stable_pair(talk)
    ask = talk.join(instance="b", protocols=(("range", subscription("t", "u")),))
    assert ask.reply.error is ErrorCode.NONE and talk.state() == "Stable"


def test_the_replaced_member_is_fenced_wherever_it_shows_up(talk):
    _, second = stable_pair(talk)
    talk.join(instance="b")
    assert talk.heartbeat(second, 1, instance="b") is ErrorCode.FENCED_INSTANCE_ID
    assert talk.join(second, instance="b").reply == JoinReply(ErrorCode.FENCED_INSTANCE_ID, second)
    assert talk.sync(second, 1, instance="b").reply == SyncReply(ErrorCode.FENCED_INSTANCE_ID)
    assert talk.commit(second, 1, instance="b") == [ErrorCode.FENCED_INSTANCE_ID]
    leaving = LeavingMember(second, "b")
    assert talk.leave(leaving) == LeaveReply(ErrorCode.NONE, (ErrorCode.FENCED_INSTANCE_ID,))
    # Without its instance id it is an unknown member.
    assert talk.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_that_never_joined_is_unknown(talk):
    first, _ = stable_pair(talk)
    assert talk.heartbeat(first, 1, instance="c") is ErrorCode.UNKNOWN_MEMBER_ID


def test_replacing_a_member_that_waits_to_join_fences_it_and_takes_its_place(talk):
    old = talk.join(instance="a")
    new = talk.join(instance="a")
    assert old.reply == JoinReply(ErrorCode.FENCED_INSTANCE_ID, "a-1")
    talk.wait(3_000)
    assert new.reply.member_id == new.reply.leader == "a-2"
    assert list(talk.members()) == ["a-2"]


def test_replacing_a_member_while_the_assignment_is_awaited_starts_over(talk):
    one, two = talk.join(instance="a"), talk.join(instance="b")
    talk.wait(6_000)
    waiting = talk.sync(two.reply.member_id, 1, instance="b")
    new = talk.join(instance="b")
    assert waiting.reply == SyncReply(ErrorCode.FENCED_INSTANCE_ID)
    assert new.parked and talk.state() == "PreparingRebalance"
    again = talk.join(one.reply.member_id, instance="a")
    assert new.reply.generation_id == again.reply.generation_id == 2


def test_a_member_of_a_running_rebalance_that_restarts_is_waited_for_no_longer(talk):
    first, _ = stable_pair(talk)
    waiting = talk.join(first, instance="a")
    assert waiting.parked
    new = talk.join(instance="b")
    assert waiting.reply.generation_id == new.reply.generation_id == 2


def test_a_static_member_that_misses_a_rebalance_stays_in_the_generation(talk):
    first, second = stable_pair(talk, session=200_000, rebalance=20_000)
    ask = talk.join(first, instance="a", session=200_000, rebalance=20_000)
    talk.wait(20_000)
    assert ask.reply.generation_id == 2
    assert {member.member_id for member in ask.reply.members} == {first, second}


def test_a_leader_that_misses_a_rebalance_hands_over_to_one_that_came(talk):
    first, second = stable_pair(talk, session=200_000, rebalance=20_000)
    options = {"instance": "b", "session": 200_000, "rebalance": 20_000}
    ask = talk.join(second, protocols=(("range", subscription("u")),), **options)
    talk.wait(20_000)
    assert ask.reply.leader == second
    assert first in talk.members()


def test_a_rebalance_to_which_no_static_member_comes_is_prolonged(talk):
    stable_pair(talk, session=200_000, rebalance=20_000)
    third = talk.join_twice(session=200_000, rebalance=20_000)[0]
    talk.leave(third)
    talk.wait(20_000)
    assert talk.state() == "PreparingRebalance"
    ask = talk.join("a-1", instance="a", session=200_000, rebalance=20_000)
    start = talk.elapsed
    talk.wait(20_000)
    assert ask.reply.generation_id == 2 and ask.at == start + 20_000


def test_a_static_member_is_out_when_its_session_ends(talk):
    first, second = stable_pair(talk)
    for _ in range(4):
        talk.wait(5_000)
        talk.heartbeat(first, 1, instance="a")
    assert second not in talk.members()
    assert talk.state() == "PreparingRebalance"


@pytest.mark.parametrize("later", [10_000, 10_001])
def test_the_replaced_members_session_does_not_end_the_new_ones(talk, later):
    stable_pair(talk)
    talk.wait(9_000)
    talk.heartbeat("a-1", 1, instance="a")
    talk.join(instance="b")
    talk.wait(later - 9_000)
    assert "b-3" in talk.members()


def test_an_id_that_was_given_out_cannot_be_claimed_with_an_instance(talk):
    member_id = talk.join().reply.member_id
    assert talk.join(member_id, instance="a").reply.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restarted_member_that_has_not_synced_is_still_expected_to(talk):
    """Kafka keeps waiting for the old id; here the group waits for the id that replaced it."""
    one, two = talk.join(instance="a"), talk.join(instance="b")
    talk.wait(6_000)
    first = one.reply.member_id
    talk.sync(first, 1, {first: b"x"}, instance="a")
    assert talk.state() == "Stable" and two.reply.member_id == "b-2"
    talk.join(instance="b")
    talk.sync("b-3", 1, instance="b")
    for _ in range(30):
        talk.wait(4_000)
        talk.heartbeat(first, 1, instance="a")
        talk.heartbeat("b-3", 1, instance="b")
    assert talk.state() == "Stable"


@pytest.mark.parametrize(("max_size", "error"), [(2, ErrorCode.GROUP_MAX_SIZE_REACHED), (3, ErrorCode.NONE)])
def test_static_members_that_miss_a_rebalance_keep_their_places(max_size, error):
    talk = Conversation(max_size=max_size)
    first, _ = stable_pair(talk)
    talk.join(first, instance="a")
    assert talk.state() == "PreparingRebalance"
    ask = talk.join(instance="c")
    talk.wait(60_000)
    assert ask.reply.error is error


@pytest.mark.parametrize("rebalances", [False, True])
def test_a_known_instance_of_a_full_group_may_restart(rebalances):
    talk = Conversation(max_size=2)
    first, second = stable_pair(talk)
    if rebalances:
        talk.join(first, instance="a")
    ask = talk.join(instance="b")
    assert ask.reply.error is ErrorCode.NONE
    assert second not in talk.members() and len(talk.members()) == 2


def test_static_members_loaded_above_the_maximum_are_cut_in_the_order_of_joining():
    old = Conversation()
    first, second = stable_pair(old)
    talk = old.restarted(max_size=1)
    ask = talk.join(second, instance="b")
    assert talk.join(first, instance="a").reply == JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert ask.reply.generation_id == 2 and list(talk.members()) == [second]
