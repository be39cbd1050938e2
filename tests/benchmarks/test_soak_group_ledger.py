"""The soak finds records that a group skipped, and committed offsets that went back."""

from typing import Final

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
        group.delivered(PLACE, offset)
    return group


def test_a_skipped_record_is_found_once() -> None:
    group, promised = delivered(0, 1, 4), acknowledged(0, 1, 2, 3, 4)
    assert group.check_deliveries("t", promised, {0: 0}) == ["g: 2 records of t-0 were skipped, first 2"]
    assert group.check_deliveries("t", promised, {0: 0}) == []


def test_offsets_of_markers_and_of_removed_records_are_no_gap() -> None:
    promised = acknowledged(0, 1, 3, 4)
    assert delivered(0, 1, 3, 4).check_deliveries("t", promised, {0: 0}) == []
    assert delivered(3, 4).check_deliveries("t", promised, {0: 3}) == []


def test_a_skipped_record_whose_acknowledgement_comes_late_is_found_later() -> None:
    group = delivered(0, 2)
    assert group.check_deliveries("t", acknowledged(0), {0: 0}) == []
    assert group.check_deliveries("t", acknowledged(0, 1, 2), {0: 0}) == [
        "g: 1 records of t-0 were skipped, first 1"
    ]


def test_a_record_may_be_delivered_again() -> None:
    group = delivered(0, 1, 2, 1, 2, 3)
    assert group.check_deliveries("t", acknowledged(0, 1, 2, 3), {0: 0}) == []
    assert group.behind("t", acknowledged(0, 1, 2, 3)) == 0
    assert group.behind("t", acknowledged(0, 1, 2, 3, 4, 5)) == 2


def test_a_committed_offset_must_not_go_back() -> None:
    group = GroupLedger("g")
    group.committed({PLACE: 10})
    group.committed({PLACE: 7})
    promised = group.promised_commits()
    assert group.check_commits(promised, {PLACE: 10}) == group.check_commits(promised, {PLACE: 11}) == []
    assert group.check_commits(promised, {PLACE: 9}) == ["g: t-0 is committed at 9, but 10 was acknowledged"]
    assert group.check_commits(promised, {}) == ["g: t-0 is committed at -1, but 10 was acknowledged"]
