"""The record of what a segment's indexes contained, and indexes that are rebuilt because they differ."""

import os

import pytest

from broker.common.slices import SLICE, run_through
from broker.log.disk import OpenFiles
from broker.log.index import IndexRecord, parse_record, record_of, record_text
from broker.records.build import NewRecord, build_batch
from broker.records.control import Marker
from broker.records.header import TRANSACTIONAL_FLAG
from tests.log.harness import (
    NOW,
    append,
    batch,
    fill,
    log_files,
    make,
    offset_for_timestamp,
    open_store,
    sized,
)

REBUILT = "an index did not agree with its log and was rebuilt"


def test_a_record_is_read_back():
    record = record_of(36, 2, b"\1" * 68)
    assert parse_record(record_text(record)) == record == IndexRecord(36, 2, record.aborted_crc)
    assert record_text(record).startswith(b"0\ntimeindex 36\ntxnindex 2 ")
    assert parse_record(None) is None


@pytest.mark.parametrize("content", [b"", b"\xff", b"1\ntimeindex 36\ntxnindex 0 0\n", b"0\ntimeindex 36\n"])
def test_a_damaged_record_agrees_with_no_index(content):
    assert parse_record(content) == IndexRecord(-1, -1, -1)


@pytest.fixture
def reopened(store, where):
    """Close the store and open the log again."""

    def reopen(log):
        store.close()
        again, recovery = open_store(where)
        return again, recovery, again.create_partition(log.topic, log.topic_id, 0, log.settings)

    return reopen


def test_segments_in_order_without_aborted_transactions_have_no_record(store, where, log):
    fill(make(store, segment_bytes=1_000, index_interval_bytes=0), 35)
    store.close()
    assert len(log_files(where, suffix=".log")) == 4 and not log_files(where, suffix=".indexrecord")


def test_a_record_is_written_where_the_greatest_timestamp_is_not_among_the_last(store, where, log, reopened):
    log = make(store, index_interval_bytes=0)
    append(log, sized(100, timestamp=NOW + 1_000))
    fill(log, 5)
    again, _, log = reopened(log)
    (record,) = log_files(where, suffix=".indexrecord")
    assert record.read_bytes() == b"0\ntimeindex 12\ntxnindex 0 0\n"
    assert log.segments[0].newest() == (NOW + 1_000, 0)
    again.close()


@pytest.mark.parametrize("entries", [0, 1, 5])
def test_a_time_index_that_lost_entries_is_rebuilt_before_retention_believes_it(
    store, where, log, reopened, caplog, entries
):
    log = make(store, segment_bytes=1_000, index_interval_bytes=0)
    fill(log, 15)
    store.close()
    path = log_files(where, suffix=".timeindex")[0]
    os.truncate(path, 12 * entries)
    again, _ = open_store(where)
    log = make(again, segment_bytes=1_000, retention_ms=60_000)
    run_through(again.retention(NOW + 60_000 + 90))
    assert log.log_start_offset == 0
    assert [each.message for each in caplog.records] == [REBUILT]
    assert path.stat().st_size == 12  # 1,000 bytes are less than an index interval of 4,096
    run_through(again.retention(NOW + 60_000 + 91))
    assert log.log_start_offset == 10
    again.close()


def run(steps):
    """Return the result and the number of pauses."""
    pauses = 0
    while True:
        try:
            assert next(steps) is None
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


def test_a_wrong_entry_is_found_by_a_lookup_which_rebuilds_the_index_in_slices(store, where, log, caplog):
    for at in range(2 * SLICE + 100):
        append(log, batch(b"x", timestamp=NOW + 10 * at))
    store.close()
    (path,) = log_files(where, suffix=".timeindex")
    content = bytearray(path.read_bytes())
    middle = len(content) // 24 * 12
    content[middle + 11] ^= 0x20
    path.write_bytes(content)
    again, _ = open_store(where)
    log = again.partition("events", 0)
    timestamp = int.from_bytes(content[middle : middle + 8], "big")
    expected = (timestamp - NOW) // 10, timestamp
    found, pauses = run(log.offset_for_timestamp(timestamp))
    assert found == expected and pauses >= 2
    assert [(each.message, each.file) for each in caplog.records] == [
        (REBUILT, str(path.with_suffix(".index")))
    ]
    assert offset_for_timestamp(log, timestamp) == expected and len(caplog.records) == 1
    again.close()


def test_an_index_is_rebuilt_with_the_batches_that_arrive_meanwhile(store, log):
    for at in range(2 * SLICE + 100):
        append(log, batch(b"x", timestamp=NOW + 10 * at))
    segment = log.segments[-1]
    steps = segment.rebuild_indexes()
    next(steps)
    for at in range(2 * SLICE + 100, 2 * SLICE + 200):
        append(log, batch(b"x", timestamp=NOW + 10 * at))
    for _ in steps:
        pass
    last = 2 * SLICE + 199
    assert segment.times[len(segment.times) - 1] == (NOW + 10 * last, last)
    assert offset_for_timestamp(log, NOW + 10 * last) == (last, NOW + 10 * last)
    append(log, batch(b"x", timestamp=NOW + 10 * last + 10))
    assert offset_for_timestamp(log, NOW + 10 * last + 1) == (last + 1, NOW + 10 * last + 10)


def abort(log, sequence):
    made = build_batch(
        [NewRecord(None, b"x", NOW)],
        producer_id=1,
        producer_epoch=0,
        base_sequence=sequence,
        attributes=TRANSACTIONAL_FLAG,
    )
    log.stage(made, now_wall_ms=NOW, transactional=True)
    log.stage_marker(Marker(is_commit=False, coordinator_epoch=0), 1, 0, NOW)
    assert log.commit()


def test_an_index_of_aborted_transactions_without_a_record_is_accepted_and_gets_one(
    store, where, log, reopened
):
    """As earlier versions write it."""
    abort(log, 0)
    again, _, log = reopened(log)
    again.close()
    (record,) = log_files(where, suffix=".indexrecord")
    content = record.read_bytes()
    record.unlink()
    again, recovery = open_store(where)
    assert not recovery.rebuilt and len(again.partition("events", 0).segments[0].aborted) == 1
    again.close()
    assert record.read_bytes() == content


def test_only_the_segments_from_a_wrong_one_on_are_scanned(store, where, log):
    log = make(store, segment_bytes=1_000)
    for sequence in range(20):
        abort(log, sequence)
    store.close()
    paths = log_files(where, suffix=".txnindex")
    assert len(paths) > 3
    paths[2].write_bytes(b"")
    sizes = [path.stat().st_size for path in log_files(where)]
    again, recovery = open_store(where)
    assert recovery.rebuilt == [str(paths[2])] and recovery.scanned_bytes == sum(sizes[2:])
    again.close()


def test_entries_of_an_index_are_replaced(tmp_path):
    from broker.log.index import OFFSET_ENTRY, SparseIndex

    index = SparseIndex(OpenFiles(10), str(tmp_path / "i"), OFFSET_ENTRY, fresh=True)
    for key in range(5):
        index.append(key, 10 * key)
    index.spill()
    assert index.last_two() == [(3, 30), (4, 40)]
    index.replace([(7, 70)])
    assert (len(index), index[0], index.last_key(), index.last_two()) == (1, (7, 70), 7, [(7, 70)])
    index.replace([])
    assert (len(index), index.last_key(), index.last_two()) == (0, -1, [])
