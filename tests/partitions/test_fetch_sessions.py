"""Incremental fetch sessions: epochs, changed partitions, and eviction (KIP-227)."""

from itertools import pairwise

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.partitions.fetch_sessions import (
    EVICTION_MS,
    FREED_WITH_A_SESSION,
    MAX_PARTITIONS,
    FetchSession,
    FetchSessions,
)
from broker.partitions.fetching import FetchedPartition, RequestedPartition
from broker.protocol.dismantle import AT_ONCE

ID = bytes(16)


def requested(partition: int, offset: int = 0) -> RequestedPartition:
    return RequestedPartition("events", ID, partition, offset, 1_000, None, ErrorCode.NONE)


def found(
    partition: int, end: int = 5, start: int = 0, records: bytes = b"", error: ErrorCode = ErrorCode.NONE
) -> FetchedPartition:
    return FetchedPartition(requested(partition), error, end, start, records)


def session_of(*partitions: int) -> FetchSession:
    session = FetchSession(1, False, 0)
    for partition in partitions:
        session.add(("events", ID, partition), requested(partition))
    return session


def returned(session: FetchSession, *results: FetchedPartition) -> list[int]:
    return [each.requested.partition for each in session.update_response_data(list(results))]


def test_everything_is_included_once() -> None:
    session = session_of(0, 1)
    assert returned(session, found(0), found(1)) == [0, 1]
    assert returned(session, found(0), found(1)) == []


def test_records_a_moved_end_a_moved_start_and_errors_are_included() -> None:
    session = session_of(0)
    returned(session, found(0))
    assert returned(session, found(0, records=b"x")) == [0]
    assert returned(session, found(0, end=6)) == [0]
    assert returned(session, found(0, end=6, start=1)) == [0]
    assert returned(session, found(0, error=ErrorCode.OFFSET_OUT_OF_RANGE)) == [0]
    assert returned(session, found(0, error=ErrorCode.OFFSET_OUT_OF_RANGE)) == [0]
    assert returned(session, found(0, end=6, start=1)) == [0]
    assert returned(session, found(0, end=6, start=1)) == []


def test_a_partition_that_gave_records_goes_behind_the_others() -> None:
    session = session_of(0, 1, 2)
    returned(session, found(0, records=b"x"), found(1), found(2))
    assert [each.partition for each in session.requested()] == [1, 2, 0]


def test_partitions_that_a_throttle_withheld_are_included_again() -> None:
    session = session_of(0)
    result = found(0)
    returned(session, result)
    session.undo_response_data([result])
    assert returned(session, found(0)) == [0]


def test_a_partition_whose_records_a_throttle_kept_back_keeps_its_turn() -> None:
    session = session_of(0, 1, 2, 3)
    results = [found(0), found(1, records=b"x"), found(2, records=b"x"), found(3)]
    returned(session, *results)
    assert [each.partition for each in session.requested()] == [0, 3, 1, 2]
    session.undo_response_data(results)
    assert [each.partition for each in session.requested()] == [1, 2, 0, 3]


def test_a_forgotten_partition_is_neither_requested_nor_included() -> None:
    session = session_of(0, 1)
    session.forget(("events", ID, 0))
    assert [each.partition for each in session.requested()] == [1]
    assert returned(session, found(0), found(1)) == [1]


def test_a_session_goes_on_at_its_next_epoch_only() -> None:
    sessions = FetchSessions(10)
    session = sessions.create(uses_topic_ids=False, now_ms=0)
    assert session is not None
    assert sessions.resume(session.id, 1, uses_topic_ids=False, now_ms=1).epoch == 2
    for epoch in (1, 3):
        with pytest.raises(ApiError) as refused:
            sessions.resume(session.id, epoch, uses_topic_ids=False, now_ms=1)
        assert refused.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_ids_are_random_and_not_of_another_session(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([7, 7, 7, 0, 2**31 - 2])
    asked = []

    def draw(below: int) -> int:
        asked.append(below)
        return next(drawn)

    monkeypatch.setattr("secrets.randbelow", draw)
    sessions = FetchSessions(10)
    made = [sessions.create(uses_topic_ids=False, now_ms=0) for _ in range(3)]
    assert [each and each.id for each in made] == [8, 1, 2**31 - 1]
    assert set(asked) == {2**31 - 1}


def test_the_epoch_after_the_largest_is_one() -> None:
    sessions = FetchSessions(10)
    session = sessions.create(uses_topic_ids=False, now_ms=0)
    assert session is not None
    session.epoch = 2**31 - 1
    assert sessions.resume(session.id, 2**31 - 1, uses_topic_ids=False, now_ms=0).epoch == 1


def test_an_unknown_session_and_one_that_changes_its_naming_are_refused() -> None:
    sessions = FetchSessions(10)
    session = sessions.create(uses_topic_ids=False, now_ms=0)
    assert session is not None
    with pytest.raises(ApiError) as unknown:
        sessions.resume(99, 1, uses_topic_ids=False, now_ms=0)
    assert unknown.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    with pytest.raises(ApiError) as changed:
        sessions.resume(session.id, 1, uses_topic_ids=True, now_ms=0)
    assert changed.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize(("idle_ms", "is_replaced"), [(EVICTION_MS - 1, False), (EVICTION_MS, True)])
def test_a_full_cache_gives_up_its_oldest_session_after_two_minutes(idle_ms: int, is_replaced: bool) -> None:
    sessions = FetchSessions(2)
    oldest = sessions.create(uses_topic_ids=False, now_ms=0)
    sessions.create(uses_topic_ids=False, now_ms=idle_ms)
    assert oldest is not None
    fresh = sessions.create(uses_topic_ids=False, now_ms=idle_ms)
    assert (fresh is not None) is is_replaced
    assert len(sessions) == 2


def test_no_slots_mean_no_sessions() -> None:
    assert FetchSessions(0).create(uses_topic_ids=False, now_ms=0) is None


def filled(sessions: FetchSessions, partitions: int, now_ms: int = 0) -> FetchSession | None:
    session = sessions.create(partitions=partitions, uses_topic_ids=False, now_ms=now_ms)
    if session is not None:
        for partition in range(partitions):
            session.add(("events", ID, partition), requested(partition))
        sessions.recount(session)
    return session


def test_sessions_remember_so_many_partitions_together() -> None:
    sessions = FetchSessions(10)
    assert filled(sessions, MAX_PARTITIONS - 1) is not None
    assert filled(sessions, 2) is None
    assert filled(sessions, 1) is not None
    assert filled(sessions, 1) is None


def test_forgotten_and_closed_sessions_free_space() -> None:
    sessions = FetchSessions(10)
    large, small = filled(sessions, MAX_PARTITIONS - 1), filled(sessions, 1)
    assert large is not None and small is not None
    small.forget(("events", ID, 0))
    sessions.recount(small)
    assert filled(sessions, 1) is not None
    sessions.close(large.id)
    assert filled(sessions, MAX_PARTITIONS - 1) is not None


def test_a_session_that_grows_beyond_the_space_is_gone() -> None:
    sessions = FetchSessions(10)
    large, small = filled(sessions, MAX_PARTITIONS - 1), filled(sessions, 1)
    assert large is not None and small is not None
    small.add(("events", ID, 0), requested(0, offset=7))
    sessions.recount(small)
    small.add(("events", ID, 1), requested(1))
    with pytest.raises(ApiError) as refused:
        sessions.recount(small)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 1
    assert filled(sessions, 1) is not None


def test_old_sessions_give_way_to_one_that_needs_space() -> None:
    sessions = FetchSessions(10)
    assert filled(sessions, MAX_PARTITIONS) is not None
    assert filled(sessions, 1, now_ms=EVICTION_MS - 1) is None
    assert filled(sessions, 1, now_ms=EVICTION_MS) is not None
    assert len(sessions) == 1


@pytest.mark.parametrize("count", [AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 20 * AT_ONCE])
def test_the_partitions_of_a_closed_session_are_freed_a_few_at_once(count: int) -> None:
    sessions = FetchSessions(10)
    session = filled(sessions, count)
    assert session is not None
    partitions = session.partitions
    sessions.close(session.id)
    freed = FREED_WITH_A_SESSION * AT_ONCE
    left = [count, max(count - freed, 0)]
    assert len(partitions) == left[-1] and not session.partitions
    for _ in sessions.freed():
        left.append(len(partitions))
    assert left[-1] == 0
    assert all(one - two <= AT_ONCE for one, two in pairwise(left[1:]))


def test_small_sessions_that_are_closed_leave_nothing_behind() -> None:
    sessions = FetchSessions(10)
    for _ in range(100):
        session = filled(sessions, 3)
        assert session is not None
        sessions.close(session.id)
    assert len(list(sessions.freed())) <= 1


def test_sessions_that_give_way_are_not_freed_all_at_once() -> None:
    sessions = FetchSessions(100)
    filled_sessions = [filled(sessions, MAX_PARTITIONS // 100) for _ in range(100)]
    partitions = [each.partitions for each in filled_sessions if each is not None]
    assert filled(sessions, MAX_PARTITIONS - 1, EVICTION_MS) is not None
    assert sum(map(len, partitions)) >= MAX_PARTITIONS - FREED_WITH_A_SESSION * AT_ONCE
    assert list(sessions.freed()) and not any(partitions)


def test_a_discarded_list_is_freed_a_few_at_once() -> None:
    sessions = FetchSessions(10)
    sessions.discard([requested(at) for at in range(3 * AT_ONCE)])
    assert len(list(sessions.freed())) == 3
