"""The index of aborted transactions, and the last stable offset."""

from pathlib import Path

import pytest

from broker.log.aborted_transactions import AbortedTransaction, AbortedTransactions
from broker.log.disk import OpenFiles
from broker.log.producer_state import BatchMetadata, ProducerStates, parse_snapshot, snapshot

FIRST = AbortedTransaction(1, 0, 9, 5)
SECOND = AbortedTransaction(2, 5, 14, 15)
THIRD = AbortedTransaction(1, 20, 29, 30)


def filled(path: Path) -> AbortedTransactions:
    index = AbortedTransactions(OpenFiles(10), str(path))
    for each in (FIRST, SECOND, THIRD):
        index.append(each)
    return index


@pytest.mark.parametrize(
    ("start", "end", "found", "is_complete"),
    [
        (0, 1, [FIRST], True),
        (0, 5, [FIRST], True),
        (0, 6, [FIRST, SECOND], True),
        (9, 15, [FIRST, SECOND], True),
        (10, 15, [SECOND], True),
        (14, 16, [SECOND], True),
        (15, 20, [], True),
        (15, 21, [THIRD], True),
        (29, 31, [THIRD], False),
        (30, 31, [], False),
    ],
)
def test_the_transactions_of_a_range(
    tmp_path: Path, start: int, end: int, found: list[AbortedTransaction], is_complete: bool
) -> None:
    assert filled(tmp_path / "i").overlapping(start, end) == (found, is_complete)


def test_the_file_has_kafka_s_layout_and_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.txnindex"
    index = filled(path)
    index.spill()
    index.append(AbortedTransaction(3, 31, 32, 33))
    index.spill()
    content = path.read_bytes()
    assert len(content) == 4 * 34
    assert content[:34] == bytes.fromhex(
        "0000 0000000000000001 0000000000000000 0000000000000009 0000000000000005"
    )
    again = AbortedTransactions(OpenFiles(10), str(path))
    assert again.read() and len(again) == 4
    again.clear()
    assert (len(again), path.read_bytes()) == (0, b"")


@pytest.mark.parametrize("damage", [b"\0", b"\0\1" + bytes(32), bytes(34) + bytes(34)])
def test_a_damaged_file_is_not_used(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "i"
    path.write_bytes(damage)
    index = AbortedTransactions(OpenFiles(10), str(path))
    assert not index.read() and len(index) == 0


def batch(offset: int) -> BatchMetadata:
    return BatchMetadata(offset, offset, offset, offset, 0)


def test_producers_keep_their_transactions_in_a_snapshot() -> None:
    producers = ProducerStates()
    producers.add(1, 0, batch(3), 0, transactional=True)
    producers.add(2, 0, batch(4), 0, transactional=True)
    producers.add(3, 0, batch(5), 0)
    producers.settle()
    assert producers.end(1, 1, 6, 0) == 3
    producers.settle()
    read = parse_snapshot(snapshot(producers))
    assert read is not None and read.first_ongoing == 4
    assert read.has_ongoing(2, 0) and not read.has_ongoing(2, 1) and not read.has_ongoing(3, 0)
    ended = read.get(1)
    assert ended is not None
    assert (ended.epoch, ended.coordinator_epoch, ended.first_offset, ended.batches) == (1, 6, -1, ())


def test_a_marker_that_is_undone_leaves_the_transaction_open() -> None:
    producers = ProducerStates()
    for producer_id, offset in ((1, 3), (2, 4)):
        producers.add(producer_id, 0, batch(offset), 0, transactional=True)
    producers.settle()
    assert (producers.end(1, 0, 0, 0), producers.first_ongoing) == (3, 4)
    producers.undo()
    assert producers.first_ongoing == 3
    producers.add(3, 0, batch(9), 0, transactional=True)
    producers.undo()
    assert not producers.has_ongoing(3, 0)


def test_an_open_transaction_does_not_expire() -> None:
    producers = ProducerStates()
    producers.add(1, 0, batch(3), 0, transactional=True)
    producers.add(2, 0, batch(4), 0)
    producers.settle()
    for _ in producers.expire(10):
        pass
    assert producers.ids() == [1]
