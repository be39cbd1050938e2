"""Which records a member acquires, and what acknowledgements, releases and locks do to them."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.share.share_partition import Acknowledgement, AcquiredRange, ShareLimits, Span
from broker.coordinator.share.states import StateBatch, combined
from tests.coordinator.share.members import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Group,
    tens,
)


def refused(group: Group, member: str, first: int, last: int, *types: int) -> ErrorCode:
    before = group.states
    with pytest.raises(ApiError) as caught:
        group.begin(member, first, last, *types)
    assert group.states == before
    return caught.value.code


# Acquisition


def test_the_first_fetch_acquires_whole_batches() -> None:
    group = Group(tens(30))
    assert group.fetch() == [AcquiredRange(0, 29, 1)]
    assert group.span == (0, 30)
    assert group.fetch("b") == []


@pytest.mark.parametrize(("records", "last"), [(9, 9), (10, 9), (11, 19)])
def test_a_batch_is_not_divided_for_the_limit_of_records(records: int, last: int) -> None:
    assert Group(tens(50)).fetch(records=records) == [AcquiredRange(0, last, 1)]


@pytest.mark.parametrize("records", [9, 10, 11, 29, 30, 31])
def test_an_exact_limit_divides_a_batch(records: int) -> None:
    group = Group(tens(30))
    most = min(records, 30)
    assert group.fetch(records=records, is_exact=True) == [AcquiredRange(0, most - 1, 1)]
    rest = [AcquiredRange(most, 29, 1)] if most < 30 else []
    assert group.fetch("b", is_exact=True) == rest


@pytest.mark.parametrize("records", [1, 4, 5])
def test_an_exact_limit_divides_what_is_available_again(records: int) -> None:
    group = Group(tens(10))
    group.fetch()
    group.acknowledge("a", 2, 6, RELEASE)
    assert group.fetch("b", records=records, is_exact=True) == [AcquiredRange(2, 1 + records, 2)]
    assert group.fetch("c", records=9, is_exact=True) == (
        [AcquiredRange(2 + records, 6, 2)] if records < 5 else []
    )


@pytest.mark.parametrize(
    ("batch_size", "ranges"),
    [(9, [(0, 9), (10, 19), (20, 29)]), (10, [(0, 9), (10, 19), (20, 29)]), (11, [(0, 19), (20, 29)])],
)
def test_ranges_end_with_a_batch_and_have_at_least_the_batch_size(
    batch_size: int, ranges: list[tuple[int, int]]
) -> None:
    acquired = Group(tens(30)).fetch(batch_size=batch_size)
    assert acquired == [AcquiredRange(first, last, 1) for first, last in ranges]


def test_nothing_is_acquired_without_batches_or_records() -> None:
    assert Group([]).fetch() == []
    assert Group(tens(10)).fetch(records=0) == []


@pytest.mark.parametrize(("held", "more"), [(99, 10), (100, 0), (101, 0)])
def test_the_limit_of_records_in_flight(held: int, more: int) -> None:
    group = Group([Span(0, held - 1), Span(held, held + 9)], limits=ShareLimits(locks=100))
    assert group.fetch(records=held) == [AcquiredRange(0, held - 1, 1)]
    assert group.partition.can_acquire() is (more > 0)
    assert group.fetch("b") == ([AcquiredRange(held, held + 9, 1)] if more else [])


def test_records_that_are_available_again_are_acquired_at_the_limit() -> None:
    group = Group(tens(200), limits=ShareLimits(locks=100))
    group.fetch(records=100)
    group.acknowledge("a", 50, 59, RELEASE)
    assert group.partition.can_acquire()
    assert group.fetch("b") == [AcquiredRange(50, 59, 2)]
    assert group.span == (0, 100)


def test_a_fetch_from_within_a_batch_skips_what_is_before_the_start() -> None:
    group = Group(tens(20), start=5)
    assert group.fetch() == [AcquiredRange(5, 19, 1)]


def test_offsets_that_the_log_does_not_have_are_not_acquired() -> None:
    group = Group([Span(5, 9), Span(20, 24)])
    assert group.fetch() == [AcquiredRange(5, 9, 1), AcquiredRange(20, 24, 1)]
    assert group.states == (
        StateBatch(5, 9, ACQUIRED, 1),
        StateBatch(10, 19, ARCHIVED, 0),
        StateBatch(20, 24, ACQUIRED, 1),
    )
    group.acknowledge("a", 5, 9, ACCEPT)
    assert group.span == (20, 25)


def test_released_records_that_were_compacted_away_are_archived() -> None:
    group = Group(tens(30))
    group.fetch()
    group.acknowledge("a", 0, 19, RELEASE)
    group.batches = [Span(13, 29)]
    assert group.fetch("b") == [AcquiredRange(13, 19, 2)]
    assert group.span == (13, 30)


def test_batches_of_aborted_transactions_are_archived() -> None:
    group = Group(tens(30))
    assert group.fetch(aborted=[Span(10, 19)]) == [AcquiredRange(0, 9, 1), AcquiredRange(20, 29, 1)]
    group.acknowledge("a", 0, 9, ACCEPT)
    assert group.span == (20, 30)


# Acknowledgements


def test_the_start_moves_past_everything_that_is_done() -> None:
    group = Group(tens(30))
    group.fetch()
    assert group.acknowledge("a", 10, 19, ACCEPT) == (StateBatch(10, 19, ACKNOWLEDGED, 1),)
    assert group.span == (0, 30)
    change = group.begin("a", 0, 9, REJECT)
    assert (change.start_offset, change.batches) == (20, (StateBatch(0, 9, ARCHIVED, 1),))
    group.partition.complete(change, is_stored=True)
    assert group.span == (20, 30)
    group.acknowledge("a", 20, 29, ACCEPT)
    assert group.span == (30, 30) and group.states == ()


def test_each_record_can_have_a_type_of_its_own() -> None:
    group = Group(tens(10))
    group.fetch()
    stored = group.acknowledge("a", 0, 9, *[ACCEPT] * 3, *[RELEASE] * 2, REJECT, GAP, *[ACCEPT] * 3)
    assert stored == (
        StateBatch(0, 2, ACKNOWLEDGED, 1),
        StateBatch(3, 4, AVAILABLE, 1),
        StateBatch(5, 6, ARCHIVED, 1),
        StateBatch(7, 9, ACKNOWLEDGED, 1),
    )
    assert group.span == (3, 10)
    assert group.fetch("b") == [AcquiredRange(3, 4, 2)]


def test_a_released_record_is_delivered_until_the_limit() -> None:
    group = Group(tens(10), limits=ShareLimits(deliveries=3))
    for count in (1, 2, 3):
        assert group.fetch() == [AcquiredRange(0, 9, count)]
        group.acknowledge("a", 0, 9, RELEASE)
    assert group.fetch() == []
    assert group.span == (10, 10)


def test_an_acknowledgement_is_pending_until_it_is_stored() -> None:
    group = Group(tens(10))
    group.fetch()
    change = group.begin("a", 0, 9, RELEASE)
    assert group.fetch("b") == []
    assert refused(group, "a", 0, 9, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
    group.partition.complete(change, is_stored=False)
    assert group.states == (StateBatch(0, 9, ACQUIRED, 1),)
    group.acknowledge("a", 0, 9, ACCEPT)
    assert group.span == (10, 10)


def test_a_failed_acknowledgement_leaves_nothing_behind() -> None:
    group = Group(tens(30))
    group.fetch(records=10)
    group.fetch("b", records=10)
    with pytest.raises(ApiError) as caught:
        group.partition.acknowledge("a", [Acknowledgement(0, 4, [ACCEPT]), Acknowledgement(5, 14, [ACCEPT])])
    assert caught.value.code == ErrorCode.INVALID_RECORD_STATE
    group.acknowledge("a", 0, 9, ACCEPT)
    group.acknowledge("b", 10, 19, ACCEPT)
    assert group.span == (20, 20)


@pytest.mark.parametrize(
    ("first", "last", "types", "error"),
    [
        (0, 9, (ACCEPT, ACCEPT), ErrorCode.INVALID_REQUEST),
        (0, 9, (), ErrorCode.INVALID_REQUEST),
        (0, 9, (4,), ErrorCode.INVALID_REQUEST),
        (0, 9, (-1,), ErrorCode.INVALID_REQUEST),
        (9, 0, (ACCEPT,), ErrorCode.INVALID_REQUEST),
        (0, 10, (ACCEPT,), ErrorCode.INVALID_REQUEST),
        (10, 19, (ACCEPT,), ErrorCode.INVALID_REQUEST),
        (0, 2**63 - 1, (ACCEPT,), ErrorCode.INVALID_REQUEST),
    ],
)
def test_impossible_acknowledgements(first: int, last: int, types: tuple[int, ...], error: ErrorCode) -> None:
    group = Group(tens(30))
    group.fetch(records=10)
    assert refused(group, "a", first, last, *types) == error


def test_a_member_acknowledges_only_what_it_holds() -> None:
    group = Group(tens(20))
    assert refused(group, "a", 0, 9, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
    group.fetch(records=10)
    group.fetch("b", records=10)
    assert refused(group, "b", 0, 9, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
    assert refused(group, "a", 5, 14, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
    group.acknowledge("b", 10, 19, ACCEPT)
    assert refused(group, "b", 10, 19, ACCEPT) == ErrorCode.INVALID_RECORD_STATE


def test_an_acknowledgement_before_the_start_is_ignored() -> None:
    group = Group(tens(20))
    group.fetch()
    group.acknowledge("a", 0, 9, ACCEPT)
    assert group.acknowledge("a", 0, 9, ACCEPT) == ()
    assert group.acknowledge("a", 5, 14, *[ACCEPT] * 10) == (StateBatch(10, 14, ACKNOWLEDGED, 1),)
    assert group.span == (15, 20)


# Locks and releases


def test_the_end_of_a_lock_makes_records_available_with_their_delivery_count() -> None:
    group = Group(tens(20), limits=ShareLimits(deliveries=2))
    group.fetch()
    group.acknowledge("a", 0, 9, ACCEPT)
    assert group.expire() == (StateBatch(10, 19, AVAILABLE, 1),)
    assert group.fetch("b") == [AcquiredRange(10, 19, 2)]
    assert group.expire() == (StateBatch(10, 19, ARCHIVED, 2),)
    assert group.span == (20, 20)


def test_a_lock_is_cancelled_with_its_last_record() -> None:
    group = Group(tens(20))
    group.fetch()
    group.acknowledge("a", 0, 4, ACCEPT)
    assert group.locks[0].runs == 1
    group.acknowledge("a", 5, 19, RELEASE)
    assert group.locks[0].cancelled and group.locks[0].runs == 0


def test_a_renewed_record_is_held_for_the_time_of_another_lock() -> None:
    group = Group(tens(10))
    group.fetch()
    lock = group.renew("a", 0, 4, RENEW, RENEW, ACCEPT, RENEW, RELEASE)
    assert (lock.runs, group.locks[0].runs) == (2, 1)
    assert group.expire() == (StateBatch(5, 9, AVAILABLE, 1),)
    assert group.states == (
        StateBatch(0, 1, ACQUIRED, 1),
        StateBatch(2, 2, ACKNOWLEDGED, 1),
        StateBatch(3, 3, ACQUIRED, 1),
        StateBatch(4, 9, AVAILABLE, 1),
    )
    group.partition.complete(group.partition.expired(lock), is_stored=True)
    assert group.states[0] == StateBatch(0, 1, AVAILABLE, 1)


def test_a_lock_whose_records_are_all_renewed_is_cancelled() -> None:
    group = Group(tens(10))
    group.fetch()
    lock = group.renew("a", 0, 9, RENEW)
    assert (lock.runs, group.locks[0].runs) == (1, 0)
    assert group.expire() == ()
    assert group.states == (StateBatch(0, 9, ACQUIRED, 1),)
    assert group.acknowledge("a", 0, 9, ACCEPT) == (StateBatch(0, 9, ACKNOWLEDGED, 1),)
    assert lock.runs == 0


def test_only_what_a_member_holds_is_renewed() -> None:
    group = Group(tens(20))
    group.fetch(records=10)
    group.fetch("b", records=10)
    with pytest.raises(ApiError) as caught:
        group.renew("a", 0, 19, RENEW)
    assert caught.value.code == ErrorCode.INVALID_RECORD_STATE
    assert [lock.runs for lock in group.locks] == [1, 1]
    assert refused(group, "a", 0, 9, RENEW) == ErrorCode.INVALID_REQUEST


def test_a_lock_that_ends_during_a_write_releases_if_the_write_fails() -> None:
    group = Group(tens(10))
    group.fetch()
    change = group.begin("a", 0, 9, ACCEPT)
    assert group.expire() == ()
    group.partition.complete(change, is_stored=False)
    assert group.states == (StateBatch(0, 9, AVAILABLE, 1),)


def test_what_a_member_that_leaves_gives_back_counts_as_delivered() -> None:
    group = Group(tens(20))
    group.fetch(records=10)
    group.fetch("b", records=10)
    change = group.partition.release("a")
    assert change.batches == (StateBatch(0, 9, AVAILABLE, 1),)
    group.partition.complete(change, is_stored=True)
    assert group.states == (StateBatch(0, 9, AVAILABLE, 1), StateBatch(10, 19, ACQUIRED, 1))
    assert group.fetch("b") == [AcquiredRange(0, 9, 2)]


def test_the_limit_of_deliveries_holds_for_members_that_leave() -> None:
    group = Group(tens(10))
    for deliveries in range(1, 6):
        assert group.fetch() == [AcquiredRange(0, 9, deliveries)]
        change = group.partition.release("a")
        state = ARCHIVED if deliveries == 5 else AVAILABLE
        assert change.batches == (StateBatch(0, 9, state, deliveries),)
        group.partition.complete(change, is_stored=True)
    assert group.fetch() == []


def test_records_that_were_not_sent_are_given_back() -> None:
    group = Group(tens(20))
    group.fetch()
    group.partition.withdraw(group.locks[-1])
    assert group.states == (StateBatch(0, 19, AVAILABLE, 0),)
    assert group.fetch("b") == [AcquiredRange(0, 19, 1)]


# The log's start, and stored states


def test_deleted_records_are_done() -> None:
    group = Group(tens(30))
    group.fetch()
    group.acknowledge("a", 0, 9, RELEASE)
    group.partition.forget_before(15)
    assert group.span == (15, 30)
    assert group.acknowledge("a", 10, 19, ACCEPT) == (StateBatch(15, 19, ACKNOWLEDGED, 1),)
    group.partition.forget_before(100)
    assert group.span == (100, 100) and group.locks[0].cancelled


def test_records_between_stored_states_are_available_again() -> None:
    states = [StateBatch(10, 19, ACKNOWLEDGED, 1), StateBatch(25, 29, AVAILABLE, 2)]
    group = Group(tens(40), states=states)
    assert group.span == (0, 30)
    assert group.fetch() == [
        AcquiredRange(0, 9, 1),
        AcquiredRange(20, 24, 1),
        AcquiredRange(25, 29, 3),
        AcquiredRange(30, 39, 1),
    ]


def test_stored_states_that_are_done_move_the_start() -> None:
    states = [
        StateBatch(0, 4, ACKNOWLEDGED, 1),
        StateBatch(5, 9, ARCHIVED, 5),
        StateBatch(10, 10, AVAILABLE, 1),
    ]
    group = Group(tens(20), states=states)
    assert group.span == (10, 11)


@pytest.mark.parametrize(
    ("old", "new", "start", "expected"),
    [
        ([(0, 9, 0, 1)], [(3, 5, 2, 1)], 0, [(0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1)]),
        ([(0, 9, 0, 1)], [(0, 9, 4, 5)], 0, [(0, 9, 4, 5)]),
        ([(0, 4, 2, 1)], [(5, 9, 2, 1)], 0, [(0, 9, 2, 1)]),
        ([(0, 4, 2, 1)], [(5, 9, 2, 2)], 0, [(0, 4, 2, 1), (5, 9, 2, 2)]),
        ([(0, 9, 0, 1), (20, 29, 0, 1)], [(5, 24, 2, 1)], 0, [(0, 4, 0, 1), (5, 24, 2, 1), (25, 29, 0, 1)]),
        ([(0, 9, 0, 1)], [(10, 19, 2, 1)], 5, [(5, 9, 0, 1), (10, 19, 2, 1)]),
        ([(0, 9, 0, 1)], [(10, 19, 2, 1)], 20, []),
        ([], [(0, 9, 0, 1), (5, 14, 2, 1)], 0, [(0, 4, 0, 1), (5, 14, 2, 1)]),
    ],
)
def test_a_write_replaces_the_states_that_it_covers(
    old: list[tuple[int, int, int, int]],
    new: list[tuple[int, int, int, int]],
    start: int,
    expected: list[tuple[int, int, int, int]],
) -> None:
    def batches(rows: list[tuple[int, int, int, int]]) -> list[StateBatch]:
        return [StateBatch(*row) for row in rows]  # type: ignore[arg-type]

    assert combined(batches(old), batches(new), start) == tuple(batches(expected))
