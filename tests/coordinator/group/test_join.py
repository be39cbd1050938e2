"""JoinGroup: admission, the time of the response, and the causes of a rebalance."""

import pytest

from broker.common.errors import ErrorCode
from broker.coordinator.group.group import size_of
from broker.coordinator.group.membership import MAX_PENDING_IDS
from broker.coordinator.group.messages import JoinedMember, JoinReply
from tests.coordinator.group.conversation import Conversation, subscription

RANGE = ("range", subscription("t"))
STICKY = ("sticky", subscription("t"))


def test_a_new_member_is_first_given_its_id(talk):
    first = talk.join(client="billing")
    assert first.reply == JoinReply(ErrorCode.MEMBER_ID_REQUIRED, "billing-1")
    assert talk.members() == {}
    second = talk.join("billing-1", client="billing")
    assert second.parked
    assert list(talk.members()) == ["billing-1"]


def test_a_client_from_before_member_ids_gets_in_at_once(talk):
    ask = talk.join(old_client=True)
    assert ask.parked
    assert list(talk.members()) == ["client-1"]


@pytest.mark.parametrize(
    ("session", "error"),
    [
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.MEMBER_ID_REQUIRED),
        (6_001, ErrorCode.MEMBER_ID_REQUIRED),
        (1_799_999, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_the_session_time_out_has_to_be_in_the_configured_range(talk, session, error):
    assert talk.join(session=session).reply.error is error


def test_a_group_has_to_have_a_name(talk):
    assert talk.join("x", group="").reply == JoinReply(ErrorCode.INVALID_GROUP_ID, "x")


@pytest.mark.parametrize("group", ["g", "other"])
def test_an_id_that_was_not_assigned_is_unknown(talk, group):
    talk.stable(1)
    assert talk.join("stranger", group=group).reply == JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, "stranger")
    assert talk.state("other") == "Dead"


@pytest.mark.parametrize(
    "options",
    [
        {"protocol_type": ""},
        {"protocols": ()},
    ],
)
def test_a_member_without_protocols_is_refused_and_leaves_no_group_behind(talk, options):
    assert talk.join(**options).reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert talk.listed() == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (STICKY,)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (STICKY, RANGE)}, ErrorCode.MEMBER_ID_REQUIRED),
    ],
)
def test_a_member_must_support_a_protocol_that_all_members_support(talk, options, error):
    talk.stable(2)
    assert talk.join(**options).reply.error is error


@pytest.mark.parametrize(("later", "parked"), [(2_999, True), (3_000, False), (3_001, False)])
def test_the_first_rebalance_waits_for_the_initial_delay(talk, later, parked):
    _, ask = talk.join_twice()
    talk.wait(later)
    assert ask.parked is parked


def test_without_an_initial_delay_the_first_member_is_answered_at_once():
    talk = Conversation(initial_rebalance_delay_ms=0)
    member_id, ask = talk.join_twice()
    assert ask.reply.generation_id == 1 and ask.reply.leader == member_id


def test_a_member_that_comes_during_the_initial_delay_prolongs_it_once_by_another_delay(talk):
    _, first = talk.join_twice()
    talk.wait(1_000)
    _, second = talk.join_twice()
    talk.wait(20_000)
    assert (first.at, second.at) == (6_000, 6_000)


def test_the_initial_delay_never_outlasts_the_rebalance_time_out(talk):
    _, first = talk.join_twice(rebalance=5_000)
    for _ in range(4):
        talk.wait(1_100)
        talk.join_twice(rebalance=5_000)
    talk.wait(20_000)
    assert first.at == 5_000


def test_the_initial_delay_is_waited_out_even_when_no_member_is_missing(talk):
    member_id, ask = talk.join_twice()
    talk.wait(1_000)
    again = talk.join(member_id)
    assert ask.reply == JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, member_id)
    talk.wait(10_000)
    assert again.at == 3_000


def test_only_the_leader_gets_the_members_of_the_generation(talk):
    first, led = talk.join_twice()
    second, followed = talk.join_twice()
    talk.wait(6_000)
    members = (JoinedMember(first, None, RANGE[1]), JoinedMember(second, None, RANGE[1]))
    assert led.reply == JoinReply(ErrorCode.NONE, first, 1, "consumer", "range", first, False, members)
    assert followed.reply == JoinReply(ErrorCode.NONE, second, 1, "consumer", "range", first)


def test_a_third_member_calls_the_others_back_and_the_generation_begins_when_all_have_come(talk):
    first, second = talk.stable(2)
    third, came = talk.join_twice()
    assert talk.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    one = talk.join(first)
    assert came.parked and one.parked
    talk.wait(500)
    two = talk.join(second)
    assert [ask.reply.generation_id for ask in (came, one, two)] == [2, 2, 2]
    assert [ask.reply.leader for ask in (came, one, two)] == [first] * 3
    assert [member.member_id for member in one.reply.members] == [first, second, third]


@pytest.mark.parametrize(
    ("later", "state"), [(59_999, "PreparingRebalance"), (60_000, "CompletingRebalance")]
)
def test_a_member_that_does_not_come_back_is_out_when_the_rebalance_time_out_ends(talk, later, state):
    first, second = talk.stable(2, session=300_000)
    talk.join_twice(session=300_000)
    one = talk.join(first, session=300_000)
    talk.wait(later)
    assert talk.state() == state
    assert (second in talk.members()) is (state == "PreparingRebalance")
    assert one.parked is (state == "PreparingRebalance")


def test_the_longest_rebalance_time_out_of_the_members_counts(talk):
    first, _ = talk.stable(2, session=300_000, rebalance=20_000)
    talk.join_twice(session=300_000, rebalance=90_000)
    one = talk.join(first, session=300_000, rebalance=20_000)
    start = talk.elapsed
    talk.wait(200_000)
    assert one.at == start + 90_000


def test_an_id_that_was_given_out_is_waited_for_until_its_session_ends(talk):
    first, second = talk.stable(2)
    talk.join(session=7_000)
    start = talk.elapsed
    one, two = talk.join(first), talk.join(second)
    assert one.parked and two.parked
    talk.wait(20_000)
    assert (one.at, two.at) == (start + 7_000, start + 7_000)


def test_an_id_that_was_never_used_cannot_be_used_after_its_session(talk):
    member_id = talk.join(session=7_000).reply.member_id
    talk.wait(7_000)
    assert talk.listed() == []
    assert talk.join(member_id).reply.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_asks_again_unchanged_is_told_the_generation_that_stands(talk):
    first, second = talk.stable(2)
    ask = talk.join(second)
    assert ask.reply == JoinReply(ErrorCode.NONE, second, 1, "consumer", "range", first)
    assert talk.state() == "Stable"


def test_a_leader_that_joins_again_starts_a_rebalance(talk):
    first, _ = talk.stable(2)
    assert talk.join(first).parked
    assert talk.state() == "PreparingRebalance"


@pytest.mark.parametrize(
    "protocols",
    [
        (("range", subscription("t", "u")),),
        (RANGE, STICKY),
    ],
)
def test_a_follower_that_changed_its_metadata_starts_a_rebalance(talk, protocols):
    _, second = talk.stable(2)
    assert talk.join(second, protocols=protocols).parked
    assert talk.state() == "PreparingRebalance"


def test_another_order_of_preference_is_a_change(talk):
    _, second = talk.stable(2, protocols=(RANGE, STICKY))
    assert talk.join(second, protocols=(STICKY, RANGE)).parked


def test_a_member_that_missed_the_answer_of_a_running_generation_gets_it_again(talk):
    (first, led), (second, followed) = talk.join_twice(), talk.join_twice()
    talk.wait(6_000)
    assert talk.state() == "CompletingRebalance"
    assert talk.join(first).reply == led.reply
    assert talk.join(second).reply == followed.reply


def test_a_change_while_the_assignment_is_awaited_starts_over(talk):
    (_, _), (second, _) = talk.join_twice(), talk.join_twice()
    talk.wait(6_000)
    waiting = talk.sync(second, 1)
    assert talk.join(second, protocols=(RANGE, STICKY)).parked
    assert waiting.reply.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert talk.state() == "PreparingRebalance"


def test_a_join_sent_again_takes_the_place_of_the_one_that_waits(talk):
    first, second = talk.stable(2)
    old = talk.join(first)
    new = talk.join(first)
    assert old.reply == JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, first)
    talk.join(second)
    assert new.reply.generation_id == 2


def test_the_protocol_with_most_votes_among_those_that_all_support_is_chosen(talk):
    asks = [
        talk.join_twice(protocols=protocols)[1]
        for protocols in ((RANGE, STICKY), (STICKY, RANGE), (("mine", b""), STICKY, RANGE))
    ]
    talk.wait(6_000)
    assert {ask.reply.protocol_name for ask in asks} == {"sticky"}


def test_of_a_protocol_named_twice_the_first_counts(talk):
    _, ask = talk.join_twice(protocols=(RANGE, ("range", b"other")))
    talk.wait(3_000)
    assert ask.reply.members[0].metadata == RANGE[1]


@pytest.mark.parametrize(
    ("max_size", "error"),
    [
        (2, ErrorCode.GROUP_MAX_SIZE_REACHED),
        (3, ErrorCode.MEMBER_ID_REQUIRED),
    ],
)
def test_a_stable_group_takes_no_more_members_than_its_maximum(max_size, error):
    talk = Conversation(max_size=max_size)
    talk.stable(2)
    ask = talk.join()
    assert ask.reply.error is error
    assert (ask.reply.member_id == "") is (error is ErrorCode.GROUP_MAX_SIZE_REACHED)


@pytest.mark.parametrize("ids", [MAX_PENDING_IDS - 1, MAX_PENDING_IDS])
def test_so_many_ids_of_a_group_wait_to_be_used(talk, ids):
    first = talk.join().reply.member_id
    for _ in range(ids - 1):
        talk.join()
    ask = talk.join()
    if ids < MAX_PENDING_IDS:
        assert ask.reply.error is ErrorCode.MEMBER_ID_REQUIRED
    else:
        assert ask.reply == JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert talk.join(first).parked
    assert talk.join().reply.error is ErrorCode.MEMBER_ID_REQUIRED or ids < MAX_PENDING_IDS


def bytes_of(member_id: str, *protocols: tuple[str, bytes]) -> int:
    """Return the size of a member of `Conversation.join`."""
    return len(member_id) + len("client") + len("/10.0.0.1") + size_of(protocols)


GREEDY = ("greedy", bytes(500))


@pytest.mark.parametrize(
    ("spare", "error"), [(1, ErrorCode.NONE), (0, ErrorCode.NONE), (-1, ErrorCode.GROUP_MAX_SIZE_REACHED)]
)
def test_the_members_of_a_group_have_a_maximum_size_in_bytes(spare, error):
    """A new member's id does not count before it has joined."""
    limit = bytes_of("client-1", RANGE) + size_of((RANGE, GREEDY))
    talk = Conversation(max_group_bytes=limit + spare, initial_rebalance_delay_ms=0)
    assert talk.join(old_client=True).reply.error is ErrorCode.NONE
    ask = talk.join(old_client=True, protocols=(RANGE, GREEDY))
    talk.wait(60_000)
    assert ask.reply.error is error


@pytest.mark.parametrize(
    ("spare", "error"), [(1, ErrorCode.NONE), (0, ErrorCode.NONE), (-1, ErrorCode.GROUP_MAX_SIZE_REACHED)]
)
def test_a_member_that_rejoins_is_counted_once(spare, error):
    protocols = (RANGE, GREEDY)
    limit = size_of(protocols)
    talk = Conversation(max_group_bytes=limit + spare, initial_rebalance_delay_ms=0)
    member_id = talk.join(old_client=True).reply.member_id
    assert talk.join(member_id, protocols=protocols).reply.error is error
    assert (member_id in talk.members()) is (error is ErrorCode.NONE)


def test_the_size_of_protocols_counts_bytes():
    assert size_of((("\u00fc", b"12"), ("a", b""))) == 5


def test_members_that_leave_make_space():
    limit = bytes_of("client-1", GREEDY) + size_of([GREEDY])
    talk = Conversation(max_group_bytes=limit - 1, initial_rebalance_delay_ms=0)
    first = talk.join(old_client=True, protocols=(GREEDY,)).reply.member_id
    refused = talk.join(old_client=True, protocols=(GREEDY,)).reply
    assert refused == JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    talk.join(first, protocols=((GREEDY[0], b""),))
    second = talk.join(old_client=True, protocols=(GREEDY,))
    assert second.parked
    talk.leave(first)
    assert second.reply.error is ErrorCode.NONE


def test_during_a_rebalance_the_first_members_to_join_get_the_places():
    talk = Conversation(max_size=2)
    first, second = talk.stable(2)
    talk.join(first)
    stranger = talk.join(old_client=True)
    late = talk.join(second)
    assert late.reply == JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert stranger.reply.generation_id == 2
    assert second not in talk.members()


def test_an_id_that_was_given_out_is_no_promise_of_a_place():
    talk = Conversation(max_size=2)
    (first,) = talk.stable(1)
    slow = talk.join().reply.member_id
    fast, _ = talk.join_twice()
    waiting = talk.join(first)
    assert talk.join(slow).reply == JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert waiting.reply.generation_id == 2
    assert list(talk.members()) == [first, fast]


def test_a_group_loaded_above_its_maximum_is_called_to_a_rebalance_that_cuts_it():
    old = Conversation()
    first, second, third = old.stable(3)
    talk = old.restarted(max_size=2)
    assert talk.state() == "PreparingRebalance"
    asks = [talk.join(member_id) for member_id in (first, second, third)]
    assert [ask.reply.error for ask in asks] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]
    assert sorted(talk.members()) == [first, second]


def test_a_new_members_first_join_may_wait_five_minutes_whatever_its_session(talk):
    talk.stable(1, session=1_000_000, rebalance=1_000_000)
    _, ask = talk.join_twice(session=6_000, rebalance=6_000)
    start = talk.elapsed
    talk.wait(299_999)
    assert ask.parked
    talk.wait(1)
    assert ask.reply == JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, "") and ask.at == start + 300_000


def test_metadata_is_copied_out_of_the_requests_buffer(talk):
    buffer = bytearray(RANGE[1])
    _, ask = talk.join_twice(protocols=(("range", memoryview(buffer)),))
    buffer[:] = bytes(len(buffer))
    talk.wait(3_000)
    assert ask.reply.members[0].metadata == RANGE[1]
