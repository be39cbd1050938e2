"""Rules of ClassicGroup that a conversation cannot reach."""

import pytest

from broker.common.errors import BrokerBug
from broker.coordinator.group.group import (
    VALID_PREVIOUS_STATES,
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
)


@pytest.mark.parametrize("before", list(ClassicGroupState))
@pytest.mark.parametrize("after", list(ClassicGroupState))
def test_a_phase_follows_only_those_that_the_table_names(before, after):
    group = ClassicGroup("g")
    group.state = before
    if before in VALID_PREVIOUS_STATES[after]:
        group.enter(after, 5)
        assert (group.state, group.state_ms) == (after, 5)
    else:
        with pytest.raises(BrokerBug, match=after.value):
            group.enter(after, 5)


def member(member_id: str, *protocols: str) -> ClassicGroupMember:
    return ClassicGroupMember("g", member_id, None, "c", "/h", 10, 20, dict.fromkeys(protocols, b""))


def test_among_equal_votes_the_first_voted_for_is_chosen():
    group = ClassicGroup("g")
    group.add(member("a", "x", "y"), "consumer")
    group.add(member("b", "y", "x"), "consumer")
    assert group.select_protocol() == "x"


def test_when_the_leader_leaves_the_next_member_leads_and_then_none():
    group = ClassicGroup("g")
    first, second = member("a", "x"), member("b", "x")
    group.add(first, "consumer")
    group.add(second, "consumer")
    group.remove(first)
    assert group.leader_id == "b"
    group.remove(second)
    assert group.leader_id is None


def test_of_equal_votes_that_of_the_first_remaining_member_counts():
    group = ClassicGroup("g")
    first = member("a", "x", "y")
    group.add(first, "consumer")
    group.add(member("b", "y", "x"), "consumer")
    group.add(member("c", "x", "y"), "consumer")
    group.remove(first)
    assert group.select_protocol() == "y"


def test_members_without_a_common_protocol_cannot_vote():
    group = ClassicGroup("g")
    group.add(member("a", "x"), "consumer")
    group.add(member("b", "y"), "consumer")
    with pytest.raises(BrokerBug, match="common protocol"):
        group.select_protocol()


def test_preferences_are_counted_until_their_last_member_goes():
    group = ClassicGroup("g")
    members = [member("a", "x", "y"), member("b", "x", "y"), member("c", "y")]
    for each in members:
        group.add(each, "consumer")
    assert group.preferences == {("x", "y"): 2, ("y",): 1}
    group.change_protocols(members[0], {"y": b"", "x": b""})
    group.remove(members[2])
    assert group.preferences == {("x", "y"): 1, ("y", "x"): 1}
    group.remove(members[0])
    group.remove(members[1])
    assert dict(group.preferences) == {}
