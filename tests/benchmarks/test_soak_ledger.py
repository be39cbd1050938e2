"""The soak finds each way in which a broker can break a promise, and nothing where it kept them."""

from typing import Final

import pytest

from benchmarks.soak.ledger import Ledger, Stored, make_value, number_of

TOPIC: Final = "t"
COUNT: Final = 30


def produced(kept_bytes: int = 0) -> tuple[Ledger, dict[int, Stored]]:
    """Thirty records in two partitions, acknowledged and stored."""
    ledger, stored = Ledger(TOPIC, kept_bytes), {0: Stored(0), 1: Stored(0)}
    for _ in range(COUNT):
        number = ledger.next_number()
        offset = len(stored[number % 2].numbers)
        stored[number % 2].numbers[offset] = number
        stored[number % 2].size += 100
        ledger.acknowledge(number % 2, offset, number)
    return ledger, stored


def check(ledger: Ledger, stored: dict[int, Stored], *, settled: bool = True) -> list[str]:
    return ledger.check(ledger.promised(), stored, settled=settled)


def test_a_topic_with_all_acknowledged_records_is_right() -> None:
    assert check(*produced()) == []


def test_a_lost_record_is_found() -> None:
    ledger, stored = produced()
    del stored[1].numbers[7]
    assert check(ledger, stored) == ["t-1: 1 (7) were acknowledged and are lost"]


def test_a_lost_end_of_a_partition_is_found() -> None:
    ledger, stored = produced()
    for offset in range(10, 15):
        del stored[0].numbers[offset]
    assert check(ledger, stored)[0] == "t-0: 5 (10, 11, 12, ...) were acknowledged and are lost"


def test_a_lost_partition_is_found() -> None:
    ledger, stored = produced()
    del stored[1]
    assert check(ledger, stored)[0].startswith("t-1: 15 (0, 1, 2, ...) were acknowledged and are lost")


def test_a_lost_record_without_an_acknowledged_offset_is_found() -> None:
    ledger, stored = produced()
    ledger.acknowledge(0, -1001, ledger.next_number())
    assert check(ledger, stored) == ["t: the records 1 (30) were acknowledged and are lost"]
    stored[0].numbers[15] = COUNT
    assert check(ledger, stored) == []


def test_another_record_at_an_acknowledged_offset_is_found() -> None:
    ledger, stored = produced()
    numbers = stored[0].numbers
    numbers[3], numbers[4] = numbers[4], numbers[3]
    assert check(ledger, stored) == ["t-0: 2 (3, 4) have another record than the acknowledged one"]


def test_a_lost_record_is_found_after_another_has_taken_its_place() -> None:
    """As when a log that lost its end goes on before the check reads it."""
    ledger, stored = produced()
    number = ledger.next_number()
    ledger.acknowledge(0, 14, number)
    ledger.acknowledge(0, 3, 6)  # told once more
    stored[0].numbers[14] = number
    assert check(ledger, stored) == [
        "t-0: 1 (14) have another record than the acknowledged one",
        "t-0: 1 (14) were acknowledged for two records: one is lost",
    ]


def test_a_record_that_is_there_twice_is_found() -> None:
    ledger, stored = produced()
    stored[0].numbers[15] = stored[0].numbers[3]
    assert check(ledger, stored) == ["t: the records 1 (6) are there more than once"]


def test_an_altered_value_and_one_that_nobody_sent_are_found() -> None:
    ledger, stored = produced()
    stored[0].foreign.append(15)
    stored[0].numbers[16] = COUNT
    assert check(ledger, stored) == [
        "t-0: 1 (15) have a value that was never sent",
        "t: the records 1 (30) were never sent",
    ]


def test_a_record_without_an_answer_may_be_there_or_not() -> None:
    ledger, stored = produced()
    number = ledger.next_number()
    assert check(ledger, stored) == []
    stored[0].numbers[15] = number
    assert check(ledger, stored) == []


def test_an_aborted_record_must_not_be_visible() -> None:
    ledger, stored = produced()
    number = ledger.next_number()
    ledger.abort([number])
    assert check(ledger, stored) == []
    stored[0].numbers[15] = number
    assert check(ledger, stored) == ["t: the records 1 (30) of aborted transactions are visible"]


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("visible", [0, 1, 2])
def test_an_undecided_transaction_is_visible_whole_or_not_at_all(visible: int, settled: bool) -> None:
    """While producers are at work, its markers may be written in one partition and not yet in the other."""
    ledger, stored = produced()
    numbers = [ledger.next_number(), ledger.next_number()]
    ledger.leave_undecided(numbers)
    for number in numbers[:visible]:
        stored[number % 2].numbers[15] = number
    found = ["t: 1 transactions are visible in part"] if visible == 1 and settled else []
    assert check(ledger, stored, settled=settled) == found


@pytest.mark.parametrize(("kept", "lost"), [(899, False), (900, False), (901, True)])
def test_retention_may_remove_only_what_is_above_its_limit(kept: int, lost: bool) -> None:
    ledger, stored = produced(kept_bytes=kept)
    for offset in range(6):
        del stored[0].numbers[offset]
    stored[0].start, stored[0].size = 6, 900
    found = ["t-0: begins at 6 with only 900 bytes of values"] if lost else []
    assert check(ledger, stored) == found
    ledger.forget_removed(stored)
    assert min(ledger.promised().by_partition[0]) == 6


def test_what_retention_may_have_removed_is_neither_missed_nor_kept() -> None:
    ledger, stored = produced()
    for offset in range(6):
        del stored[0].numbers[offset]
    stored[0].start = 6  # of number 12
    ledger.acknowledge(0, None, 11)
    del stored[1].numbers[5]
    ledger.acknowledge(0, None, 30)
    ledger.leave_undecided([10, 12])
    ledger.leave_undecided([12, 31])
    ledger.abort([4])
    told = check(ledger, stored)
    assert told[-2:] == [
        "t: the records 1 (30) were acknowledged and are lost",
        "t: 1 transactions are visible in part",
    ]
    ledger.forget_removed(stored)
    left = ledger.promised()
    assert (left.anywhere, left.aborted, left.undecided) == ({30}, set(), (frozenset([12, 31]),))


@pytest.mark.parametrize("number", [0, 1, 399, 12_345_678])
def test_a_value_proves_its_number_and_its_topic(number: int) -> None:
    value = make_value(TOPIC, number)
    assert number_of(TOPIC, value) == number
    assert number_of("other", value) is None
    assert number_of(TOPIC, value + b"x") is None
    assert number_of(TOPIC, value[:-1]) is None
    assert number_of(TOPIC, b"") is None
