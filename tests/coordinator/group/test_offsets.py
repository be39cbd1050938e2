"""Offsets that are committed, pending in transactions, deleted: permissions, refusals, and kept offsets."""

import pytest

from broker.common.errors import ErrorCode
from broker.coordinator.group.messages import CommittedOffset, OffsetDeleteReply, OffsetToCommit
from broker.coordinator.group.offsets import OFFSETS_AT_ONCE
from broker.coordinator.group.pending_offsets import PendingOffsets
from broker.coordinator.group.records import OffsetKey
from broker.metadata.image import Topic
from tests.coordinator.group.conversation import WALL_MS, Conversation

OLD, NEW, UNKNOWN = b"o" * 16, b"n" * 16, bytes(16)


def topic(name: str, partitions: int, topic_id: bytes = OLD) -> Topic:
    return Topic(name, topic_id, partitions, {})


NONE = ErrorCode.NONE


def test_a_member_of_the_generation_commits(talk):
    (member_id,) = talk.stable(1)
    offset = OffsetToCommit("t", 3, 42, 7, "note")
    assert talk.commit(member_id, 1, offset) == [NONE]
    assert talk.coordinator.offsets.committed("g") == {
        "t": {3: CommittedOffset(42, 7, "note", WALL_MS + talk.elapsed, None)}
    }


def test_the_last_commit_counts(talk):
    talk.commit("", -1, OffsetToCommit("t", 0, 5))
    talk.commit("", -1, OffsetToCommit("t", 0, 3))
    assert talk.committed() == 3


def test_a_consumer_without_a_group_makes_one_by_committing(talk):
    assert talk.commit() == [NONE]
    assert talk.state() == "Empty"
    assert [group.protocol_type for group in talk.listed()] == [""]


def test_a_commit_that_is_refused_leaves_no_group_behind(talk):
    assert talk.commit("", -1, OffsetToCommit("t", 0, 1, metadata="x" * 5_000)) == [
        ErrorCode.OFFSET_METADATA_TOO_LARGE
    ]
    assert talk.listed() == []


@pytest.mark.parametrize(
    ("old_client", "error"), [(False, ErrorCode.GROUP_ID_NOT_FOUND), (True, ErrorCode.ILLEGAL_GENERATION)]
)
def test_a_generation_of_a_group_that_does_not_exist(talk, old_client, error):
    assert talk.commit("m", 0, old_client=old_client) == [error]
    assert talk.listed() == []


@pytest.mark.parametrize(
    ("member_id", "generation", "instance", "error"),
    [
        ("", -1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("stranger", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("stranger", -1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("client-1", -1, None, ErrorCode.ILLEGAL_GENERATION),
        ("client-1", 0, None, ErrorCode.ILLEGAL_GENERATION),
        ("client-1", 1, None, NONE),
        ("client-1", 2, None, ErrorCode.ILLEGAL_GENERATION),
        ("client-1", 1, "a", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_group_with_members_takes_offsets_from_them_alone(talk, member_id, generation, instance, error):
    talk.stable(1)
    assert talk.commit(member_id, generation, instance=instance) == [error]
    assert (talk.committed() == 42) is (error is NONE)


@pytest.mark.parametrize(("generation", "error"), [(-1, NONE), (2, ErrorCode.UNKNOWN_MEMBER_ID)])
def test_an_operator_resets_the_offsets_of_an_empty_group(talk, generation, error):
    talk.leave(*talk.stable(1))
    assert talk.commit("", generation) == [error]


def test_during_a_rebalance_the_last_generation_may_still_commit(talk):
    first, second = talk.stable(2)
    talk.join(first)
    assert talk.commit(second, 1) == [NONE]


def test_while_the_assignment_is_awaited_no_member_may_commit(talk):
    (first, _), _ = talk.join_twice(), talk.join_twice()
    talk.wait(6_000)
    assert talk.commit(first, 1) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert talk.commit("stranger", 1) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_commit_is_a_sign_of_life(talk):
    (member_id,) = talk.stable(1)
    talk.wait(9_000)
    talk.commit(member_id, 1)
    talk.wait(9_000)
    assert talk.members()


@pytest.mark.parametrize(
    ("size", "error"), [(4_095, NONE), (4_096, NONE), (4_097, ErrorCode.OFFSET_METADATA_TOO_LARGE)]
)
def test_metadata_has_a_limit_that_refuses_one_offset_and_not_the_others(talk, size, error):
    offsets = (OffsetToCommit("t", 0, 1, metadata="x" * size), OffsetToCommit("t", 1, 2))
    assert talk.commit("", -1, *offsets) == [error, NONE]
    assert talk.committed("t", 1) == 2
    assert (talk.committed("t", 0) == 1) is (error is NONE)


def test_a_missing_group_has_no_offsets(talk):
    assert talk.coordinator.offsets.committed("none") == {}


def test_offsets_outlive_the_members_and_a_restart(talk):
    (member_id,) = talk.stable(1)
    talk.commit(member_id, 1)
    talk.leave(member_id)
    assert talk.committed() == 42
    assert talk.restarted().committed() == 42


def test_offsets_of_unsubscribed_topics_can_be_deleted(talk):
    (member_id,) = talk.stable(1)
    talk.commit(
        member_id, 1, OffsetToCommit("t", 0, 1), OffsetToCommit("old", 0, 2), OffsetToCommit("old", 1, 3)
    )
    reply = talk.delete_offsets(("t", 0), ("old", 0), ("old", 9))
    assert reply == OffsetDeleteReply(NONE, (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE, NONE))
    assert (talk.committed("t"), talk.committed("old", 0), talk.committed("old", 1)) == (1, None, 3)
    assert talk.restarted().coordinator.offsets.committed("g").keys() == {"t", "old"}


def test_all_offsets_of_an_empty_group_can_be_deleted(talk):
    (member_id,) = talk.stable(1)
    talk.commit(member_id, 1)
    talk.leave(member_id)
    assert talk.delete_offsets(("t", 0)) == OffsetDeleteReply(NONE, (NONE,))
    assert talk.coordinator.offsets.committed("g") == {}
    assert talk.restarted().coordinator.offsets.committed("g") == {}


def test_a_consumer_whose_subscription_cannot_be_read_is_taken_to_use_everything(talk):
    talk.stable(1, protocols=(("range", b"?"),))
    assert talk.delete_offsets(("x", 0)).errors == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,)


def test_offsets_of_a_group_that_is_not_of_consumers_are_deleted_only_when_it_is_empty(talk):
    (member_id, _) = talk.join_twice(protocol_type="connect")
    assert talk.delete_offsets(("t", 0)) == OffsetDeleteReply(ErrorCode.NON_EMPTY_GROUP)
    talk.leave(member_id)
    talk.wait(3_000)
    assert talk.delete_offsets(("t", 0)).error is NONE


def test_offsets_of_a_group_that_does_not_exist_cannot_be_deleted(talk):
    assert talk.delete_offsets(("t", 0)) == OffsetDeleteReply(ErrorCode.GROUP_ID_NOT_FOUND)


def test_the_offsets_of_a_deleted_topic_go_in_every_group(talk):
    (member_id,) = talk.stable(1)
    talk.commit(member_id, 1, OffsetToCommit("t", 0, 1), OffsetToCommit("u", 0, 2))
    talk.commit("", -1, OffsetToCommit("t", 0, 1), OffsetToCommit("t", 1, 1), group="h")
    coordinator = talk.coordinator
    found = [
        (group, partitions)
        for group, partitions in coordinator.offsets.committed_in({"t": topic("t", 3)})
        if partitions
    ]
    assert found == [("g", [("t", 0)]), ("h", [("t", 0), ("t", 1)])]
    topics = {"t": topic("t", 3)}
    effects = [coordinator.offsets.partitions_deleted(*each, topics, talk.now) for each in found]
    assert [len(each.records) for each in effects] == [1, 2] and not any(each.replies for each in effects)
    assert talk.coordinator.offsets.committed("g").keys() == {"u"}
    assert talk.coordinator.offsets.committed("h") == {}


@pytest.mark.parametrize(("topic_id", "is_gone"), [(OLD, True), (NEW, False), (UNKNOWN, True)])
def test_a_deleted_topic_leaves_the_offsets_of_another_with_its_name(talk, topic_id, is_gone):
    talk.commit("", -1, OffsetToCommit("t", 0, 1, topic_id=topic_id))
    found = [
        each
        for _, partitions in talk.coordinator.offsets.committed_in({"t": topic("t", 1)})
        for each in partitions
    ]
    assert found == ([("t", 0)] if is_gone else [])


@pytest.mark.parametrize("place", ["committed", "pending"])
def test_what_is_committed_for_a_topic_that_was_created_again_meanwhile_stays(talk, place):
    """Between the look at the offsets of a group and their removal, other requests have their turns."""
    talk.commit("", -1, OffsetToCommit("t", 0, 1, topic_id=OLD), OffsetToCommit("u", 0, 1, topic_id=OLD))
    offsets, pending = talk.coordinator.offsets, talk.coordinator.groups.pending_offsets
    deleted = {name: topic(name, 1) for name in ("t", "u")}
    for group_id, partitions in offsets.committed_in(deleted):
        if not partitions and place == "committed":
            talk.commit("", -1, OffsetToCommit("t", 0, 7, topic_id=NEW))
        elif not partitions:
            pending.add(1, OffsetKey("g", "t", 0), CommittedOffset(7, -1, "", 0, topic_id=NEW))
        effects = offsets.partitions_deleted(group_id, partitions, deleted, talk.now)
        offsets.written(effects.records)
    if place == "pending":
        offsets.end_transaction(1, lambda _group_id: True, is_commit=True)
    assert talk.committed("t") == 7 and talk.committed("u") is None


@pytest.mark.parametrize("count", [OFFSETS_AT_ONCE - 1, OFFSETS_AT_ONCE, OFFSETS_AT_ONCE + 1])
def test_the_offsets_of_deleted_topics_are_found_a_few_at_a_time(talk, count):
    talk.commit("", -1, *[OffsetToCommit(f"t{number}", 0, 1) for number in range(count)])
    topics = {name: topic(name, 1) for name in (f"t{number}" for number in range(2 * count))}
    found = [len(partitions) for _, partitions in talk.coordinator.offsets.committed_in(topics) if partitions]
    assert found == [min(count, OFFSETS_AT_ONCE)] + [1] * (count > OFFSETS_AT_ONCE)


@pytest.mark.parametrize("count", [OFFSETS_AT_ONCE - 1, OFFSETS_AT_ONCE, OFFSETS_AT_ONCE + 1])
def test_so_are_those_that_are_pending(talk, count):
    pending = talk.coordinator.groups.pending_offsets
    for number in range(count):
        pending.add(number, OffsetKey("g", "t", number), CommittedOffset(1, -1, "", 0))
    topics = {"t": topic("t", count)}
    found = [len(partitions) for _, partitions in talk.coordinator.offsets.committed_in(topics) if partitions]
    assert found == [min(count, OFFSETS_AT_ONCE)] + [1] * (count > OFFSETS_AT_ONCE)


@pytest.mark.parametrize("count", [1, 2, 769])
def test_topics_that_a_group_does_not_consume_are_looked_up_one_at_a_time(talk, count):
    talk.commit("", -1, *[OffsetToCommit(f"t{number}", 0, 1) for number in range(count)])
    topics = {name: topic(name, 1) for name in (f"deleted{number}" for number in range(count))}
    found = list(talk.coordinator.offsets.committed_in(topics))
    assert len(found) == count + 1, "one for each, and the group"
    assert not any(partitions for _, partitions in found)


def test_a_retention_of_the_clients_own_is_recorded():
    talk = Conversation()
    talk.commit("", -1, retention=1_000)
    assert talk.coordinator.offsets.committed("g")["t"][0].expire_ms == WALL_MS + 1_000
    assert talk.restarted().coordinator.offsets.committed("g")["t"][0].expire_ms == WALL_MS + 1_000


def place(group_id: str) -> OffsetKey:
    return OffsetKey(group_id, "t", 0)


def offset(number: int) -> CommittedOffset:
    return CommittedOffset(number, -1, "", 0)


def end(
    pending: PendingOffsets, producer_id: int, *group_ids: str, is_commit: bool = True
) -> list[tuple[OffsetKey, CommittedOffset]]:
    return pending.end(producer_id, lambda group: not group_ids or group in group_ids, is_commit=is_commit)


def test_offsets_are_pending_until_every_producer_has_ended() -> None:
    pending = PendingOffsets()
    assert not pending.has("g", "t", 0)
    pending.add(1, place("g"), offset(5))
    pending.add(1, place("g"), offset(6))
    pending.add(2, place("g"), offset(7))
    assert pending.has("g", "t", 0) and not pending.has("g", "t", 1) and not pending.has("h", "t", 0)
    assert end(pending, 1) == [(place("g"), offset(6))]
    assert pending.has("g", "t", 0)
    assert end(pending, 2) == [(place("g"), offset(7))]
    assert not pending.has("g", "t", 0)
    assert end(pending, 2) == []


def test_a_marker_ends_the_groups_of_its_partition_only() -> None:
    pending = PendingOffsets()
    pending.add(1, place("g"), offset(5))
    pending.add(1, place("h"), offset(6))
    assert end(pending, 1, "g") == [(place("g"), offset(5))]
    assert pending.has("h", "t", 0)
    assert end(pending, 1, "h") == [(place("h"), offset(6))]


def test_a_tombstone_ends_the_offsets_of_every_producer() -> None:
    pending = PendingOffsets()
    for producer in (1, 2):
        pending.add(producer, place("g"), offset(producer))
        pending.add(producer, OffsetKey("g", "u", 3), offset(9))
    pending.drop(place("h"))
    assert list(pending.partitions_of("g")) == [("t", 0), ("u", 3)]
    pending.drop(place("g"))
    assert list(pending.partitions_of("g")) == [("u", 3)] and pending.group_ids() == ["g"]
    for producer in (1, 2):
        assert end(pending, producer) == [(OffsetKey("g", "u", 3), offset(9))]
    assert pending.is_empty


def test_pending_offsets_are_of_a_topic_that_one_of_them_is_of() -> None:
    pending = PendingOffsets()
    pending.add(1, place("g"), offset(1)._replace(topic_id=OLD))
    assert [pending.may_be_of(place("g"), each) for each in (OLD, NEW, UNKNOWN)] == [True, False, True]
    pending.add(2, place("g"), offset(2)._replace(topic_id=NEW))
    assert pending.may_be_of(place("g"), NEW) and not pending.may_be_of(place("h"), NEW)


@pytest.mark.parametrize("ends", [(1, 2), (2, 1)])
def test_of_two_transactions_the_later_offset_counts_whichever_ends_last(ends: tuple[int, int]) -> None:
    pending = PendingOffsets()
    pending.add(1, place("g"), offset(5))
    pending.add(2, place("g"), offset(7))
    counted = [each for producer in ends for each in end(pending, producer)]
    assert counted[-1] == (place("g"), offset(7)) and len(counted) == (2 if ends == (1, 2) else 1)
    assert pending.is_empty


def test_an_offset_that_is_committed_again_is_later() -> None:
    pending = PendingOffsets()
    pending.add(1, place("g"), offset(5))
    pending.add(2, place("g"), offset(7))
    pending.add(1, place("g"), offset(6))
    assert end(pending, 1) == [(place("g"), offset(6))]
    assert end(pending, 2) == []


def test_an_aborted_transaction_supersedes_nothing() -> None:
    pending = PendingOffsets()
    pending.add(1, place("g"), offset(5))
    pending.add(2, place("g"), offset(7))
    assert end(pending, 2, is_commit=False) == []
    assert end(pending, 1) == [(place("g"), offset(5))]


def test_a_superseded_offset_stays_pending_until_the_marker() -> None:
    """An OffsetFetch with require_stable waits for it, as at Kafka."""
    pending = PendingOffsets()
    pending.add(1, place("g"), offset(5))
    pending.add(1, place("h"), offset(6))
    pending.supersede(place("g"))
    assert pending.has("g", "t", 0) and list(pending.of(place("g"))) == []
    assert end(pending, 1) == [(place("h"), offset(6))]
    assert pending.is_empty
