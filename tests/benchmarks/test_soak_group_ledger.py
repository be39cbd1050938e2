"""The soak finds records that a group skipped, and committed offsets that went back."""

from typing import Final

import pytest

from benchmarks.soak.group_ledger import GroupLedger, Place
from benchmarks.soak.ledger import Ledger, Promised

PLACE: Final = Place("t", 0)


def acknowledged(*offsets: int) -> Promised:
    ledger = Ledger("t")
    for offset in offsets:
        ledger.acknowledge(0, offset, ledger.next_number())
    return ledger.promised()


def delivered(*offsets: int) -> GroupLedger:
    group = GroupLedger("g")
    for offset in offsets:
        group.delivered(PLACE, offset, offset + 1)
    return group


def skipped(group: GroupLedger, promised: Promised, start: int = 0) -> list[str]:
    return group.check_deliveries("t", promised, {0: start}, group.skipped())


def test_a_skipped_record_is_found_once() -> None:
    group, promised = delivered(0, 1, 4), acknowledged(0, 1, 2, 3, 4)
    assert skipped(group, promised) == ["g: 2 records of t-0 were skipped, first 2"]
    assert skipped(group, promised) == []


def test_offsets_of_markers_and_of_removed_records_are_no_gap() -> None:
    promised = acknowledged(0, 1, 3, 4)
    assert skipped(delivered(0, 1, 3, 4), promised) == []
    assert skipped(delivered(3, 4), promised, start=3) == []


def test_a_skipped_record_whose_acknowledgement_comes_late_is_found_later() -> None:
    group = delivered(0, 2)
    assert skipped(group, acknowledged(0)) == []
    assert skipped(group, acknowledged(0, 1, 2)) == ["g: 1 records of t-0 were skipped, first 1"]


def test_a_record_may_be_delivered_again() -> None:
    group = delivered(0, 1, 2, 1, 2, 3)
    assert skipped(group, acknowledged(0, 1, 2, 3)) == []
    assert group.behind("t", acknowledged(0, 1, 2, 3)) == 0
    assert group.behind("t", acknowledged(0, 1, 2, 3, 4, 5)) == 2


@pytest.mark.parametrize(
    ("first", "after", "left"), [(1, 4, []), (2, 4, [1]), (1, 3, [3]), (4, 6, [1, 2, 3]), (0, 1, [1, 2, 3])]
)
def test_what_another_member_reports_late_is_not_skipped(first: int, after: int, left: list[int]) -> None:
    group = GroupLedger("g")
    group.delivered(PLACE, 0, 1)
    group.delivered(PLACE, 4, 6)
    group.delivered(PLACE, first, after)
    assert sorted(group.skipped()[PLACE]) == left
    assert group.behind("t", acknowledged(0, 1, 2, 3, 4, 5)) == 0
    assert group.delivered_count == 3 + after - first


def test_what_is_skipped_only_since_the_check_began_is_looked_at_again() -> None:
    group, promised = delivered(0), acknowledged(0, 1, 2)
    before = group.skipped()
    group.delivered(PLACE, 2, 3)
    assert group.check_deliveries("t", promised, {0: 0}, before) == []
    assert skipped(group, promised) == ["g: 1 records of t-0 were skipped, first 1"]


def test_a_committed_offset_must_not_go_back() -> None:
    group = GroupLedger("g")
    group.committed({PLACE: 10})
    group.committed({PLACE: 7})
    promised = group.promised_commits()
    assert group.check_commits(promised, {PLACE: 10}) == group.check_commits(promised, {PLACE: 11}) == []
    assert group.check_commits(promised, {PLACE: 9}) == ["g: t-0 is committed at 9, but 10 was acknowledged"]
    assert group.check_commits(promised, {}) == ["g: t-0 is committed at -1, but 10 was acknowledged"]
