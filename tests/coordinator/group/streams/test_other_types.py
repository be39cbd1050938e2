"""Streams groups beside groups of other types: conversions of empty groups, the other APIs, offsets."""

import pytest
from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.coordinator.group.group import ClassicGroup
from broker.coordinator.group.messages import (
    CommitRequest,
    ConsumerHeartbeatRequest,
    OffsetToCommit,
    ShareHeartbeatRequest,
)
from broker.coordinator.group.streams.group import StreamsGroup
from tests.coordinator.group.conversation import Ask
from tests.coordinator.group.streams.streamers import SESSION_MS, Streamers, Thread, settle

DAY_MS = 86_400_000


def test_an_empty_classic_group_becomes_a_streams_group_with_its_offsets(talk):
    ids = talk.stable(1)
    talk.commit(ids[0], 1)
    reply = talk.enter("a")
    assert (reply.error, reply.message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a streams group.")
    talk.leave(ids[0])
    assert talk.enter("a").error is ErrorCode.NONE
    assert talk.committed() == 42
    again = talk.reborn()
    assert again.snapshot() == talk.snapshot()
    assert again.committed() == 42


def test_a_conversion_that_cannot_be_written_is_undone(talk):
    talk.commit()
    talk.enter("a")
    talk.fail(talk.last)
    assert isinstance(talk.coordinator.groups.by_id["g"], ClassicGroup)
    assert talk.committed() == 42


def test_an_empty_streams_group_becomes_a_classic_one_with_its_offsets(talk):
    talk.enter("a")
    talk.commit("a", 2)
    refused = talk.join("", old_client=True)
    assert (refused.reply.error, refused.reply.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    talk.beat("a", -1)
    assert talk.join("known").reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    talk.stable(1)
    assert talk.state() == "Stable"
    assert talk.committed() == 42
    again = talk.reborn()
    assert isinstance(again.coordinator.groups.by_id["g"], ClassicGroup)
    assert again.committed() == 42


def test_a_timer_of_the_streams_group_does_not_reach_the_classic_one():
    talk = Streamers(streams=Streamers().streams.__class__())
    talk.enter("a")
    talk.beat("a", -1)
    ids = talk.stable(1)
    assert set(talk.members()) == set(ids)


@pytest.mark.parametrize("is_empty", [False, True])
def test_members_of_other_types_cannot_join(talk, is_empty):
    talk.enter("a")
    if is_empty:
        talk.beat("a", -1)
    asks = Ask(), Ask()
    consumer = ConsumerHeartbeatRequest("g", "c", 0, rebalance_timeout_ms=1, topics=("t",), owned={})
    talk._take(run_through(talk.coordinator.consumer.heartbeat(consumer, asks[0], talk.now)))
    share = ShareHeartbeatRequest("g", "s", 0, topics=("t",))
    talk._take(run_through(talk.coordinator.share.heartbeat(share, asks[1], talk.now)))
    assert [(each.reply.error, each.reply.message) for each in asks] == [
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a consumer group."),
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a share group."),
    ]
    assert isinstance(talk.coordinator.groups.by_id["g"], StreamsGroup)


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_a_member_cannot_join_an_empty_group_of_another_type(talk, kind):
    ask = Ask()
    if kind == "consumer":
        request = ConsumerHeartbeatRequest("g", "c", 0, rebalance_timeout_ms=1, topics=("t",), owned={})
        talk._take(run_through(talk.coordinator.consumer.heartbeat(request, ask, talk.now)))
        talk._take(
            run_through(
                talk.coordinator.consumer.heartbeat(ConsumerHeartbeatRequest("g", "c", -1), Ask(), talk.now)
            )
        )
    else:
        join = ShareHeartbeatRequest("g", "c", 0, topics=("t",))
        talk._take(run_through(talk.coordinator.share.heartbeat(join, ask, talk.now)))
        leave = ShareHeartbeatRequest("g", "c", -1)
        talk._take(run_through(talk.coordinator.share.heartbeat(leave, Ask(), talk.now)))
    reply = talk.enter("a")
    assert (reply.error, reply.message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a streams group.")


def test_the_classic_apis_know_no_member_of_a_streams_group(talk):
    talk.enter("a")
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.heartbeat("a", 2) is unknown
    assert talk.sync("a", 2).reply.error is unknown
    assert talk.leave("a").errors == (unknown,)
    described = talk.coordinator.classic.described("g", missing_is_error=True)
    assert (described.error, described.message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a classic group.",
    )
    assert talk.coordinator.classic.described("g", missing_is_error=False).state == "Dead"


def test_a_streams_group_is_listed(talk):
    talk.enter("a")
    (listed,) = talk.listed()
    assert (listed.group_type, listed.protocol_type, listed.state, listed.members) == (
        "streams",
        "streams",
        "Stable",
        1,
    )
    assert [len(talk.listed(types=[each])) for each in ("Streams", "classic")] == [1, 0]
    talk.set_topics()
    talk.beat("a", 2)
    assert [len(talk.listed(states=[each])) for each in ("NotReady", "Stable")] == [1, 0]


def test_a_group_of_another_type_is_not_described(talk):
    talk.commit()
    described = talk.described()
    assert (described.error, described.message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a streams group.",
    )
    missing = talk.described("h")
    assert (missing.error, missing.message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group h not found.")


def test_only_an_empty_group_can_be_deleted(talk):
    talk.enter("a")
    talk.commit("a", 2)
    assert talk.delete("g") == [ErrorCode.NON_EMPTY_GROUP]
    talk.beat("a", -1)
    assert talk.delete("g") == [ErrorCode.NONE]
    assert not talk.reborn().coordinator.groups.by_id


# Offsets


def two(talk: Streamers) -> tuple[Thread, Thread]:
    """Threads at epoch 3, of which `a` has had its tasks, 0 and 1, since epoch 2, and `b` its own since 3."""
    a, b = Thread(talk, "a"), Thread(talk, "b")
    a.enter()
    a.act()
    b.enter()
    settle(a, b)
    return a, b


@pytest.mark.parametrize(
    ("member_id", "epoch", "offset", "error"),
    [
        ("a", 3, ("t", 0), ErrorCode.NONE),
        ("a", 3, ("other", 9), ErrorCode.NONE),
        ("a", 4, ("t", 0), ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 2, ("t", 0), ErrorCode.NONE),
        ("a", 1, ("t", 0), ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 2, ("t", 2), ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 2, ("other", 0), ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 3, ("t", 2), ErrorCode.NONE),
        ("b", 2, ("t", 2), ErrorCode.STALE_MEMBER_EPOCH),
        ("c", 3, ("t", 0), ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ("t", 0), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_member_commits_what_it_has_had_since_its_epoch(talk, member_id, epoch, offset, error):
    two(talk)
    assert talk.commit(member_id, epoch, OffsetToCommit(*offset, 5)) == [error]


def test_a_member_commits_what_it_still_has_to_give_up(talk):
    a, b = Thread(talk, "a"), Thread(talk, "b")
    a.enter()
    a.act()
    b.enter()
    a.beat()  # epoch 2, and 2 and 3 are revoked
    assert talk.commit("a", 2, OffsetToCommit("t", 3, 5)) == [ErrorCode.NONE]


def test_one_offset_of_another_member_refuses_all(talk):
    two(talk)
    offsets = OffsetToCommit("t", 0, 5), OffsetToCommit("t", 3, 5)
    assert talk.commit("a", 2, *offsets) == [ErrorCode.STALE_MEMBER_EPOCH] * 2


def test_an_empty_group_takes_offsets_of_anybody(talk):
    talk.enter("a")
    talk.beat("a", -1)
    assert talk.commit() == [ErrorCode.NONE]
    assert talk.commit("a", 3) == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        ("a", 3, ErrorCode.NONE),
        ("a", 2, ErrorCode.NONE),
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("c", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.NONE),
        ("a", -1, ErrorCode.STALE_MEMBER_EPOCH),
    ],
)
def test_a_transaction_commits_as_a_member_does(talk, member_id, epoch, error):
    two(talk)
    request = CommitRequest("g", epoch, member_id, None, (OffsetToCommit("t", 0, 5),))
    assert talk.group().check_transactional_commit(request, {}) is error
    before = replace(request, knows_member_epochs=False)
    told = ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error
    assert talk.group().check_transactional_commit(before, {}) is told


def test_a_client_that_knows_no_member_epochs_cannot_commit(talk):
    talk.enter("a")
    request = CommitRequest("g", 2, "a", None, (OffsetToCommit("t", 0, 5),), knows_member_epochs=False)
    assert talk.group().check_commit(request, {}) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("a", 2, ErrorCode.NONE),
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_member_fetches_offsets_with_its_epoch(talk, member_id, epoch, error):
    talk.enter("a")
    assert talk.coordinator.offsets.check_fetch("g", member_id, epoch) is error


def test_offsets_of_source_topics_cannot_be_deleted(talk):
    talk.enter("a")
    talk.commit("a", 2, OffsetToCommit("t", 0, 5), OffsetToCommit("other", 0, 5))
    reply = talk.delete_offsets(("t", 0), ("other", 0))
    assert reply.errors == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE)
    talk.beat("a", -1)
    assert talk.delete_offsets(("t", 0)).errors == (ErrorCode.NONE,)


def test_offsets_expire_and_the_empty_group_with_them():
    talk = Streamers(offsets_retention_minutes=60 * 24)
    talk.enter("a")
    talk.commit("a", 2, OffsetToCommit("t", 0, 5), OffsetToCommit("other", 0, 5))
    for _ in range(2 * DAY_MS // (SESSION_MS // 2)):
        talk.wait(SESSION_MS // 2)
        talk.beat("a", talk.group().members["a"].epoch)
    assert talk.committed("t") == 5
    assert talk.committed("other") is None
    talk.beat("a", -1)
    talk.wait(DAY_MS)
    assert not talk.coordinator.groups.by_id
    assert not talk.reborn().coordinator.groups.by_id
