"""Incremental fetch sessions: epochs, changed partitions, and eviction (KIP-227)."""

import pytest

from broker.errors import ApiError, ErrorCode
from broker.services.fetch_sessions import EVICTION_MS, MAX_PARTITIONS, FetchSession, FetchSessions
from broker.services.fetching import Found, Wanted

ID = bytes(16)


def wanted(partition: int, offset: int = 0) -> Wanted:
    return Wanted("events", ID, partition, offset, 1_000, None, ErrorCode.NONE)


def found(
    partition: int, end: int = 5, start: int = 0, records: bytes = b"", error: ErrorCode = ErrorCode.NONE
) -> Found:
    return Found(wanted(partition), error, end, start, records)


def session_of(*partitions: int) -> FetchSession:
    session = FetchSession(1, False, 0)
    for partition in partitions:
        session.want(("events", ID, partition), wanted(partition))
    return session


def told(session: FetchSession, *results: Found) -> list[int]:
    return [each.wanted.partition for each in session.news(list(results))]


def test_everything_is_news_once() -> None:
    session = session_of(0, 1)
    assert told(session, found(0), found(1)) == [0, 1]
    assert told(session, found(0), found(1)) == []


def test_records_a_moved_end_a_moved_start_and_errors_are_news() -> None:
    session = session_of(0)
    told(session, found(0))
    assert told(session, found(0, records=b"x")) == [0]
    assert told(session, found(0, end=6)) == [0]
    assert told(session, found(0, end=6, start=1)) == [0]
    assert told(session, found(0, error=ErrorCode.OFFSET_OUT_OF_RANGE)) == [0]
    assert told(session, found(0, error=ErrorCode.OFFSET_OUT_OF_RANGE)) == [0]
    assert told(session, found(0, end=6, start=1)) == [0]
    assert told(session, found(0, end=6, start=1)) == []


def test_a_partition_that_gave_records_goes_behind_the_others() -> None:
    session = session_of(0, 1, 2)
    told(session, found(0, records=b"x"), found(1), found(2))
    assert [each.partition for each in session.wanted()] == [1, 2, 0]


def test_what_a_throttle_kept_back_is_news_again() -> None:
    session = session_of(0)
    result = found(0)
    told(session, result)
    session.untold([result])
    assert told(session, found(0)) == [0]


def test_a_partition_whose_records_a_throttle_kept_back_keeps_its_turn() -> None:
    session = session_of(0, 1, 2, 3)
    results = [found(0), found(1, records=b"x"), found(2, records=b"x"), found(3)]
    told(session, *results)
    assert [each.partition for each in session.wanted()] == [0, 3, 1, 2]
    session.untold(results)
    assert [each.partition for each in session.wanted()] == [1, 2, 0, 3]


def test_a_forgotten_partition_is_neither_wanted_nor_told() -> None:
    session = session_of(0, 1)
    session.forget(("events", ID, 0))
    assert [each.partition for each in session.wanted()] == [1]
    assert told(session, found(0), found(1)) == [1]


def test_a_session_goes_on_at_its_next_epoch_only() -> None:
    sessions = FetchSessions(10)
    session = sessions.create(uses_topic_ids=False, now_ms=0)
    assert session is not None
    assert sessions.resume(session.id, 1, uses_topic_ids=False, now_ms=1).epoch == 2
    for epoch in (1, 3):
        with pytest.raises(ApiError) as refused:
            sessions.resume(session.id, epoch, uses_topic_ids=False, now_ms=1)
        assert refused.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


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
            session.want(("events", ID, partition), wanted(partition))
        sessions.recount(session)
    return session


def test_sessions_remember_so_many_partitions_together() -> None:
    sessions = FetchSessions(10)
    assert filled(sessions, MAX_PARTITIONS - 1) is not None
    assert filled(sessions, 2) is None
    assert filled(sessions, 1) is not None
    assert filled(sessions, 1) is None


def test_what_is_forgotten_or_closed_makes_room() -> None:
    sessions = FetchSessions(10)
    large, small = filled(sessions, MAX_PARTITIONS - 1), filled(sessions, 1)
    assert large is not None and small is not None
    small.forget(("events", ID, 0))
    sessions.recount(small)
    assert filled(sessions, 1) is not None
    sessions.close(large.id)
    assert filled(sessions, MAX_PARTITIONS - 1) is not None


def test_a_session_that_grows_beyond_the_room_is_gone() -> None:
    sessions = FetchSessions(10)
    large, small = filled(sessions, MAX_PARTITIONS - 1), filled(sessions, 1)
    assert large is not None and small is not None
    small.want(("events", ID, 0), wanted(0, offset=7))
    sessions.recount(small)
    small.want(("events", ID, 1), wanted(1))
    with pytest.raises(ApiError) as refused:
        sessions.recount(small)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 1
    assert filled(sessions, 1) is not None


def test_old_sessions_give_way_to_one_that_needs_room() -> None:
    sessions = FetchSessions(10)
    assert filled(sessions, MAX_PARTITIONS) is not None
    assert filled(sessions, 1, now_ms=EVICTION_MS - 1) is None
    assert filled(sessions, 1, now_ms=EVICTION_MS) is not None
    assert len(sessions) == 1
