"""Rules of Group that a conversation cannot reach."""

import pytest

from broker.errors import BrokerBug
from broker.groups.group import VALID_PREVIOUS_STATES, Group, Member, State, subscribed_topics
from tests.groups.conversation import subscription


@pytest.mark.parametrize("before", list(State))
@pytest.mark.parametrize("after", list(State))
def test_a_phase_follows_only_those_that_the_table_names(before, after):
    group = Group("g")
    group.state = before
    if before in VALID_PREVIOUS_STATES[after]:
        group.enter(after, 5)
        assert (group.state, group.state_ms) == (after, 5)
    else:
        with pytest.raises(BrokerBug, match=after.value):
            group.enter(after, 5)


def member(member_id: str, *protocols: str) -> Member:
    return Member("g", member_id, None, "c", "/h", 10, 20, dict.fromkeys(protocols, b""))


def test_among_equal_votes_the_first_voted_for_is_chosen():
    group = Group("g")
    group.add(member("a", "x", "y"), "consumer")
    group.add(member("b", "y", "x"), "consumer")
    assert group.select_protocol() == "x"


def test_when_the_leader_goes_the_next_in_line_leads_and_then_nobody():
    group = Group("g")
    first, second = member("a", "x"), member("b", "x")
    group.add(first, "consumer")
    group.add(second, "consumer")
    group.remove(first)
    assert group.leader_id == "b"
    group.remove(second)
    assert group.leader_id is None


def test_a_member_without_a_common_protocol_cannot_vote():
    with pytest.raises(BrokerBug, match="supports none"):
        member("a", "x").vote({"y"})


@pytest.mark.parametrize("topics", [(), ("t",), ("t", "ünï", "t")])
def test_topics_are_read_from_a_subscription(topics):
    assert subscribed_topics(subscription(*topics)) == frozenset(topics)


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00\x01",
        bytes.fromhex("0001 7fffffff"),
        bytes.fromhex("0001 ffffffff"),
        bytes.fromhex("0001 00000001 0005 74"),
        bytes.fromhex("0001 00000001 ffff"),
        bytes.fromhex("0001 00000001 0001 ff"),
        bytes.fromhex("0001 00000002 0001 74 00"),
    ],
)
def test_what_is_no_subscription_tells_nothing(metadata):
    assert subscribed_topics(metadata) is None
