"""Expiry of committed offsets (KIP-211), checked every ten minutes."""

import pytest

from broker.coordinator.group.expiry import MEMBERS_AT_ONCE, TIMERS_AT_ONCE
from broker.coordinator.group.messages import OffsetToCommit
from broker.coordinator.group.offsets import OFFSETS_AT_ONCE
from tests.coordinator.group.conversation import Conversation

WEEK = 10_080 * 60_000
LOOK = 600_000


@pytest.fixture
def quick() -> Conversation:
    """Retention of a minute, checked every second."""
    return Conversation(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)


def kept_alive(talk, member_id, generation, ms, step=5_000):
    for _ in range(ms // step):
        talk.wait(step)
        talk.heartbeat(member_id, generation)


@pytest.mark.parametrize(("later", "kept"), [(WEEK - 1, True), (WEEK, False)])
def test_by_default_the_offsets_of_a_simple_consumer_are_kept_a_week(talk, later, kept):
    assert WEEK % LOOK == 0
    talk.commit()
    talk.wait(later)
    assert (talk.committed() == 42) is kept
    assert (talk.state() == "Empty") is kept


@pytest.mark.parametrize(("later", "kept"), [(59_999, True), (60_000, False), (60_001, False)])
def test_a_group_keeps_its_offsets_for_the_retention_after_it_became_empty(quick, later, kept):
    (member_id,) = quick.stable(1)
    quick.commit(member_id, 1)
    kept_alive(quick, member_id, 1, 120_000)
    quick.leave(member_id)
    assert quick.committed() == 42
    quick.wait(later)
    assert (quick.committed() == 42) is kept


def test_with_the_last_offset_an_empty_group_goes(quick):
    quick.leave(*quick.stable(1))
    assert quick.state() == "Empty"
    quick.wait(1_000)
    assert quick.state() == "Dead"
    assert quick.restarted().listed() == []


def test_an_empty_group_with_an_id_given_out_stays(quick):
    member_id = quick.join(session=10_000).reply.member_id
    quick.wait(5_000)
    assert quick.state() == "Empty"
    assert quick.join(member_id).parked


def test_a_stable_group_loses_the_offsets_of_topics_that_it_no_longer_consumes(quick):
    (member_id,) = quick.stable(1)
    quick.commit(member_id, 1, OffsetToCommit("t", 0, 1), OffsetToCommit("old", 0, 2))
    kept_alive(quick, member_id, 1, 55_000)
    assert quick.committed("old") == 2
    kept_alive(quick, member_id, 1, 10_000)
    assert (quick.committed("t"), quick.committed("old")) == (1, None)


def test_during_a_rebalance_nothing_expires(quick):
    first, second = quick.stable(2, rebalance=600_000)
    quick.commit(first, 1, OffsetToCommit("old", 0, 2))
    quick.join(first, rebalance=600_000)
    kept_alive(quick, second, 1, 120_000)
    assert quick.state() == "PreparingRebalance" and quick.committed("old") == 2


@pytest.mark.parametrize(
    "options", [{"protocol_type": "connect"}, {"protocols": (("range", b"not a subscription"),)}]
)
def test_where_subscriptions_are_not_known_nothing_of_a_stable_group_expires(quick, options):
    first, ask = quick.join_twice(**options)
    quick.wait(3_000)
    quick.sync(first, 1, {}, protocol_type=None)
    quick.commit(first, 1, OffsetToCommit("old", 0, 2))
    kept_alive(quick, first, 1, 120_000)
    assert quick.committed("old") == 2 and ask.reply.generation_id == 1


@pytest.mark.parametrize(("retention", "lasts"), [(10_000, 10_000), (200_000, 200_000)])
def test_a_retention_of_the_clients_own_goes_before_the_brokers(quick, retention, lasts):
    quick.commit("", -1, retention=retention)
    quick.wait(lasts - 1)
    assert quick.committed() == 42
    quick.wait(1)
    assert quick.committed() is None


def test_each_offset_of_a_simple_consumer_ages_by_itself(quick):
    quick.commit("", -1, OffsetToCommit("t", 0, 1))
    quick.wait(30_000)
    quick.commit("", -1, OffsetToCommit("t", 1, 2))
    quick.wait(30_000)
    assert (quick.committed("t", 0), quick.committed("t", 1)) == (None, 2)


def test_the_time_since_a_group_is_empty_goes_on_over_a_restart(quick):
    (member_id,) = quick.stable(1)
    quick.commit(member_id, 1)
    quick.leave(member_id)
    quick.wait(30_000)
    talk = quick.restarted(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    talk.wait(29_999)
    assert talk.committed() == 42
    talk.wait(1_000)
    assert talk.committed() is None


def pieces(talk, ms):
    """Advance the clock and return the number of records of each call that follows."""
    talk.elapsed += ms
    written = []
    while (deadline := talk.coordinator.next_deadline()) is not None and deadline <= talk.now.ms:
        talk.wait_in_one_go(0)
        written.append(len(talk.last.records))
    return written


def offsets(count, topic="t"):
    return [OffsetToCommit(topic, partition, 1) for partition in range(count)]


@pytest.mark.parametrize(
    ("count", "written"),
    [
        (OFFSETS_AT_ONCE - 1, [OFFSETS_AT_ONCE, 0]),
        (OFFSETS_AT_ONCE, [OFFSETS_AT_ONCE, 1]),
        (OFFSETS_AT_ONCE + 1, [OFFSETS_AT_ONCE, 2]),
        (3 * OFFSETS_AT_ONCE + 1, [OFFSETS_AT_ONCE] * 3 + [2]),
    ],
)
def test_the_offsets_of_a_group_expire_a_few_in_each_call(quick, count, written):
    """The last record is the group's own."""
    quick.commit("", -1, *offsets(count))
    quick.wait(59_999)
    found = pieces(quick, 1)
    assert [each for each in found if each] == [each for each in written if each]
    assert quick.state() == "Dead" and quick.coordinator.next_deadline() == quick.now.ms + 1_000


def test_many_groups_are_checked_a_few_in_each_call(quick):
    for number in range(2 * OFFSETS_AT_ONCE):
        quick.commit(group=f"g{number}")
    quick.wait(59_999)
    found = pieces(quick, 1)
    assert sum(found) == 4 * OFFSETS_AT_ONCE and max(found) <= OFFSETS_AT_ONCE + 2
    assert quick.listed() == []


def test_offsets_committed_or_used_between_two_pieces_do_not_expire(quick):
    quick.commit("", -1, *offsets(2 * OFFSETS_AT_ONCE))
    quick.commit(group="other")
    quick.elapsed += 60_000
    quick.wait_in_one_go(0)
    assert quick.committed(partition=0) is None
    last = 2 * OFFSETS_AT_ONCE - 1
    quick.commit("", -1, OffsetToCommit("t", last, 2))
    quick.join(group="other", old_client=True)
    pieces(quick, 0)
    assert quick.committed(partition=last) == 2 and quick.committed(partition=last - 1) is None
    assert quick.committed(group="other") == 42


@pytest.mark.parametrize("count", [TIMERS_AT_ONCE - 1, TIMERS_AT_ONCE, TIMERS_AT_ONCE + 1])
def test_so_many_sessions_expire_in_one_call(talk, count):
    for number in range(count):
        talk.join(group=f"g{number}")
    talk.elapsed += 10_000
    talk.wait_in_one_go(0)
    left = sum(talk.state(f"g{number}") != "Dead" for number in range(count))
    assert left == max(count - TIMERS_AT_ONCE, 0)
    talk.wait_in_one_go(0)
    assert talk.listed() == []


@pytest.mark.parametrize(("members", "groups"), [(MEMBERS_AT_ONCE - 1, 16), (MEMBERS_AT_ONCE, 8)])
def test_fewer_timers_of_large_groups_expire_in_one_call(members, groups):
    """Their join phases end at the same moment, and each generation includes all members."""
    talk = Conversation()
    for group in range(TIMERS_AT_ONCE):
        for number in range(members):
            talk.join(group=f"g{group}", instance=f"i{number}")
    talk.wait(3_000)
    talk.elapsed += 3_000
    talk.wait_in_one_go(0)
    begun = [talk.state(f"g{group}") for group in range(TIMERS_AT_ONCE)]
    assert begun.count("CompletingRebalance") == groups
