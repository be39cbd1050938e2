"""Expiry of committed offsets (KIP-211), checked every ten minutes."""

import pytest

from broker.groups.messages import OffsetToCommit
from tests.groups.conversation import Conversation

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
    assert quick.restarted().coordinator.listed() == []


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
