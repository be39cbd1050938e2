"""ListGroups, DescribeGroups and DeleteGroups."""

import pytest

from broker.common.errors import ErrorCode
from broker.coordinator.group.groups import GROUPS_AT_ONCE
from broker.coordinator.group.messages import (
    CommittedOffset,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
    OffsetToCommit,
)
from broker.coordinator.group.offsets import OFFSETS_AT_ONCE
from broker.coordinator.group.records import OffsetKey
from tests.coordinator.group.conversation import Conversation, subscription


@pytest.fixture
def three(talk) -> Conversation:
    """Groups in three states: `g` stable, `h` preparing, `s` empty."""
    talk.stable(1)
    talk.join_twice(group="h")
    talk.commit(group="s")
    return talk


@pytest.mark.parametrize(
    ("states", "groups"),
    [
        ((), "ghs"),
        (("Stable",), "g"),
        (("stable", " EMPTY "), "gs"),
        (("PreparingRebalance",), "h"),
        (("Dead",), ""),
        (("Assigning",), ""),
    ],
)
def test_groups_are_listed_by_state_whatever_the_case(three, states, groups):
    assert "".join(group.group_id for group in three.listed(states)) == groups


@pytest.mark.parametrize(
    ("types", "count"), [((), 3), (("classic",), 3), (("Classic", "consumer"), 3), (("consumer",), 0)]
)
def test_groups_are_listed_by_type(three, types, count):
    assert len(three.listed((), types)) == count


def test_a_listed_group_says_what_it_is(three):
    assert three.listed(["stable"]) == [ListedGroup("g", "consumer", "Stable", "classic", 1)]


def test_a_stable_group_is_described_with_metadata_and_assignments(talk):
    first, second = talk.stable(2)
    described = talk.coordinator.classic.described("g", missing_is_error=True)
    assert described == DescribedGroup(
        ErrorCode.NONE,
        "g",
        "Stable",
        "consumer",
        "range",
        tuple(
            DescribedMember(each, None, "client", "/10.0.0.1", subscription("t"), f"for {each}".encode())
            for each in (first, second)
        ),
    )


def test_a_group_between_generations_is_described_without_metadata(talk):
    first, _ = talk.stable(2)
    talk.join(first)
    described = talk.coordinator.classic.described("g", missing_is_error=True)
    assert (described.state, described.protocol) == ("PreparingRebalance", "")
    assert {member.metadata for member in described.members} == {b""}


@pytest.mark.parametrize(
    ("is_error", "expected"),
    [
        (False, DescribedGroup(ErrorCode.NONE, "x", "Dead")),
        (True, DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, "x", "Dead", message="Group x not found.")),
    ],
)
def test_a_missing_group_is_described_as_dead(talk, is_error, expected):
    talk.stable(1)
    assert talk.coordinator.classic.described("x", missing_is_error=is_error) == expected


def test_only_empty_groups_are_deleted_and_their_offsets_with_them(three):
    assert three.delete("s", "g", "h", "none", "s") == [
        ErrorCode.NONE,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert three.state("s") == "Dead" and three.coordinator.offsets.committed("s") == {}
    assert [group.group_id for group in three.restarted().listed()] == ["g"]


def test_a_deleted_group_begins_anew(talk):
    (member_id,) = talk.stable(1)
    talk.commit(member_id, 1)
    talk.leave(member_id)
    pending = talk.join().reply.member_id
    assert talk.delete("g") == [ErrorCode.NONE]
    assert talk.join(pending).reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    _, ask = talk.join_twice()
    talk.wait(20_000)
    assert ask.reply.generation_id == 1


@pytest.mark.parametrize("count", [GROUPS_AT_ONCE - 1, GROUPS_AT_ONCE, GROUPS_AT_ONCE + 1])
@pytest.mark.parametrize("states", [(), ("Stable",)])
def test_so_many_groups_are_looked_at_in_one_piece(talk, count, states):
    for number in range(count):
        talk.commit(group=f"g{number}")
    sizes = [len(piece) for piece in talk.coordinator.listed_in_pieces(states)]
    assert len(sizes) == -(-count // GROUPS_AT_ONCE)
    assert sizes[0] == (0 if states else min(count, GROUPS_AT_ONCE)) and len(talk.coordinator) == count


def test_a_group_that_goes_between_two_pieces_is_not_listed(talk):
    for number in range(2 * GROUPS_AT_ONCE):
        talk.commit(group=f"g{number}")
    pieces = talk.coordinator.listed_in_pieces()
    next(pieces)
    talk.delete(f"g{GROUPS_AT_ONCE}")
    assert len(next(pieces)) == GROUPS_AT_ONCE - 1


def test_some_offsets_of_a_group_are_deleted_before_it(talk):
    offsets = [OffsetToCommit("t", partition, 1) for partition in range(OFFSETS_AT_ONCE + 1)]
    talk.commit("", -1, *offsets, OffsetToCommit("u", 0, 1))
    coordinator = talk.coordinator
    assert [coordinator.offsets.count("g", most) for most in (1, OFFSETS_AT_ONCE + 3)] == [
        1,
        OFFSETS_AT_ONCE + 2,
    ]
    effects = coordinator.delete_some_offsets("g", object(), talk.now)
    assert effects.replies[0][1].errors == (ErrorCode.NONE,)
    assert len(effects.records) == OFFSETS_AT_ONCE and coordinator.offsets.count("g", 9) == 2
    assert talk.delete("g") == [ErrorCode.NONE]


def test_no_offset_of_a_group_that_cannot_be_deleted_is(talk):
    (member_id,) = talk.stable(1)
    talk.commit(member_id, 1)
    for group, error in (("g", ErrorCode.NON_EMPTY_GROUP), ("none", ErrorCode.GROUP_ID_NOT_FOUND)):
        effects = talk.coordinator.delete_some_offsets(group, object(), talk.now)
        assert effects.replies[0][1].errors == (error,) and effects.records == []
    assert talk.committed() == 42


def test_offsets_that_are_pending_are_deleted_a_few_at_a_time_too(talk):
    """All of them were deleted in one step."""
    talk.commit("", -1, OffsetToCommit("t", 0, 1))
    coordinator, pending = talk.coordinator, talk.coordinator.groups.pending_offsets
    for number in range(2 * OFFSETS_AT_ONCE):
        pending.add(1, OffsetKey("g", "u", number), CommittedOffset(1, -1, "", 0))
    counts = []
    while (count := coordinator.offsets.count("g", 1_000)) > OFFSETS_AT_ONCE:
        counts.append(count)
        effects = coordinator.delete_some_offsets("g", object(), talk.now)
        assert len(effects.records) == OFFSETS_AT_ONCE
        coordinator.offsets.written(effects.records)
    assert counts == [2 * OFFSETS_AT_ONCE + 1, OFFSETS_AT_ONCE + 1] and count == 1
    assert talk.delete("g") == [ErrorCode.NONE]
