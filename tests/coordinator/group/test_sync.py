"""SyncGroup: the leader's assignment reaches every member once."""

import pytest

from broker.common.errors import ErrorCode
from broker.coordinator.group.messages import SyncReply
from tests.coordinator.group.conversation import Conversation


@pytest.fixture
def pair(talk):
    """Two members of generation 1 that wait for the assignment; the first leads."""
    (first, _), (second, _) = talk.join_twice(), talk.join_twice()
    talk.wait(6_000)
    return first, second


def test_followers_wait_for_the_leader(talk, pair):
    first, second = pair
    waiting = talk.sync(second, 1)
    assert waiting.parked
    leader = talk.sync(first, 1, {first: b"one", second: b"two"})
    assert leader.reply == SyncReply(ErrorCode.NONE, "consumer", "range", b"one")
    assert waiting.reply == SyncReply(ErrorCode.NONE, "consumer", "range", b"two")
    assert talk.state() == "Stable"


def test_a_member_that_comes_later_gets_its_assignment_at_once(talk, pair):
    first, second = pair
    talk.sync(first, 1, {second: b"two"})
    assert talk.sync(second, 1).reply.assignment == b"two"
    assert talk.sync(second, 1).reply.assignment == b"two"


def test_members_that_the_leader_left_out_get_nothing(talk, pair):
    first, second = pair
    assert talk.sync(first, 1, {"stranger": b"x"}).reply.assignment == b""
    assert talk.members() == {first: b"", second: b""}


@pytest.mark.parametrize(
    ("generation", "error"),
    [
        (0, ErrorCode.ILLEGAL_GENERATION),
        (2, ErrorCode.ILLEGAL_GENERATION),
        (-1, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_another_generation_is_refused(talk, pair, generation, error):
    assert talk.sync(pair[0], generation).reply == SyncReply(error)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"protocol_type": None, "protocol": None}, ErrorCode.NONE),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_protocol_type_and_name_have_to_be_the_groups_where_they_are_given(talk, pair, options, error):
    assert talk.sync(pair[0], 1, {}, **options).reply.error is error


@pytest.mark.parametrize(
    ("group", "error"),
    [
        ("g", ErrorCode.UNKNOWN_MEMBER_ID),
        ("none", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_strangers_are_unknown(talk, pair, group, error):
    assert talk.sync("stranger", 1, group=group).reply == SyncReply(error)


def test_a_rebalance_that_starts_sends_waiting_members_back_to_join(talk, pair):
    waiting = talk.sync(pair[1], 1)
    talk.join_twice()
    assert waiting.reply == SyncReply(ErrorCode.REBALANCE_IN_PROGRESS)
    assert talk.sync(pair[0], 1).reply == SyncReply(ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_sync_sent_again_takes_the_place_of_the_one_that_waits(talk, pair):
    old = talk.sync(pair[1], 1)
    new = talk.sync(pair[1], 1)
    assert old.reply == SyncReply(ErrorCode.REBALANCE_IN_PROGRESS)
    talk.sync(pair[0], 1, {pair[1]: b"x"})
    assert new.reply.assignment == b"x"


@pytest.mark.parametrize(("later", "state"), [(59_999, "Stable"), (60_000, "PreparingRebalance")])
def test_a_member_that_never_asks_for_the_assignment_is_out_after_the_rebalance_time_out(talk, later, state):
    (first, _), (second, _) = (talk.join_twice(session=300_000) for _ in range(2))
    talk.wait(6_000)
    talk.sync(first, 1, {first: b"one"})
    talk.wait(later)
    assert talk.state() == state
    assert (second in talk.members()) is (state == "Stable")


def test_a_leader_that_never_assigns_is_out_and_the_next_one_leads(talk):
    (first, _), (second, _) = (talk.join_twice(session=300_000) for _ in range(2))
    talk.wait(6_000)
    waiting = talk.sync(second, 1)
    talk.wait(60_000)
    assert waiting.reply == SyncReply(ErrorCode.REBALANCE_IN_PROGRESS) and waiting.at == 66_000
    ask = talk.join(second, session=300_000)
    assert ask.reply.leader == second and ask.reply.generation_id == 2
    assert first not in talk.members()


def test_after_all_members_have_synced_none_is_removed(talk, pair):
    first, second = pair
    talk.sync(second, 1)
    talk.sync(first, 1, {})
    for _ in range(30):
        talk.wait(5_000)
        assert talk.heartbeat(first, 1) is ErrorCode.NONE
        assert talk.heartbeat(second, 1) is ErrorCode.NONE


def test_the_assignment_is_copied_out_of_the_requests_buffer(talk, pair):
    buffer = bytearray(b"one")
    talk.sync(pair[0], 1, {pair[0]: memoryview(buffer)})
    buffer[:] = b"xxx"
    assert talk.sync(pair[0], 1).reply.assignment == b"one"


@pytest.mark.parametrize(
    ("assigned", "error"),
    [(99, ErrorCode.NONE), (100, ErrorCode.NONE), (101, ErrorCode.UNKNOWN_SERVER_ERROR)],
)
def test_assignments_have_a_maximum_size_in_bytes(assigned, error):
    """All members rejoin, as if the record of the group could not be written."""
    talk = Conversation(max_group_bytes=100, initial_rebalance_delay_ms=0)
    protocols = (("r", b""),)
    first, _ = talk.join_twice(client="a", protocols=protocols)
    second = talk.join(client="b", protocols=protocols).reply.member_id
    joining = talk.join(second, client="b", protocols=protocols)
    talk.join(first, client="a", protocols=protocols)
    assert joining.reply.generation_id == 2
    waiting = talk.sync(second, 2, protocol="r")
    parts = {first: bytes(60), second: bytes(30), "stranger": bytes(assigned - 90)}
    leader = talk.sync(first, 2, parts, protocol="r")
    assert leader.reply.error is waiting.reply.error is error
    assert talk.state() == ("Stable" if error is ErrorCode.NONE else "PreparingRebalance")
