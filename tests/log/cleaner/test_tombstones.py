"""Tombstones, and markers without records, go delete.retention.ms after the first pass over them."""

import pytest

from broker.records.compression import Codec
from tests.log.cleaner.harness import (
    clean,
    close_segment,
    compacted,
    contents,
    end,
    headers,
    pairs,
    put,
    put_in_transaction,
)
from tests.log.harness import NOW, offset_for_timestamp

RETENTION = 5_000


@pytest.fixture
def log(store):
    return compacted(store, delete_retention_ms=RETENTION)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    ("waited", "remains"), [(RETENTION - 1, True), (RETENTION, False), (RETENTION + 1, False)]
)
def test_a_tombstone_goes_when_its_time_is_over(store, log, codec, waited, remains):
    put(log, ("a", "1"))
    put(log, ("b", "1"), ("a", None), codec=codec, timestamp=NOW - 7)
    close_segment(log)
    clean(store, log)
    assert pairs(log) == [(1, "b", "1"), (2, "a", None)]
    (header,) = headers(log)
    assert (header.delete_horizon_ms, header.codec) == (NOW + RETENTION, codec)
    assert [each.timestamp for each in contents(log)] == [NOW - 7, NOW - 6]
    assert header.max_timestamp == NOW - 6
    put(log, ("c", "1"))
    close_segment(log)
    clean(store, log, now=NOW + waited)
    assert pairs(log) == [(1, "b", "1"), *([(2, "a", None)] if remains else []), (3, "c", "1")]
    assert headers(log)[0].delete_horizon_ms == NOW + RETENTION  # it is set once
    assert offset_for_timestamp(log, NOW - 7) == (1, NOW - 7)


def test_without_retention_the_next_pass_removes_a_tombstone(store):
    log = compacted(store, delete_retention_ms=0)
    put(log, ("a", None), ("b", "1"))
    close_segment(log)
    clean(store, log)
    assert pairs(log) == [(0, "a", None), (1, "b", "1")]
    clean(store, log)
    assert pairs(log) == [(1, "b", "1")]


def test_a_marker_goes_after_the_records_of_its_transaction(store, log):
    put_in_transaction(log, (7, 0, 0), ("a", "1"))
    assert end(log, 7, is_commit=True) == 1
    put(log, ("a", "2"))
    # An active producer keeps its last batch.
    for _ in log.producers.expire(NOW):
        pass
    close_segment(log)
    clean(store, log)
    assert [(each.base_offset, each.is_control) for each in headers(log)] == [(1, True), (2, False)]
    assert headers(log)[0].delete_horizon_ms is None  # its transaction had a record in this pass
    clean(store, log)
    assert headers(log)[0].delete_horizon_ms == NOW + RETENTION
    clean(store, log, now=NOW + RETENTION - 1)
    assert [each.base_offset for each in headers(log)] == [1, 2]
    clean(store, log, now=NOW + RETENTION)
    assert [each.base_offset for each in headers(log)] == [2]


def test_aborted_records_go_at_once_and_their_marker_later(store, log):
    put(log, ("a", "kept"))
    put_in_transaction(log, (7, 0, 0), ("a", "aborted"), ("b", "aborted"))
    assert end(log, 7, is_commit=False) == 3
    put(log, ("c", "1"))
    for _ in log.producers.expire(NOW):
        pass
    close_segment(log)
    clean(store, log)
    assert pairs(log) == [(0, "a", "kept"), (4, "c", "1")]
    # A reader that is in the middle still learns that the transaction was aborted.
    assert [each.producer_id for each in log.aborted_in(0, 10_000)] == [7]
    clean(store, log)
    assert log.aborted_in(0, 10_000) == [] and not log.has_aborted
    clean(store, log, now=NOW + RETENTION)
    assert [each.base_offset for each in headers(log)] == [0, 4]


def test_an_active_producer_keeps_its_last_batch_without_records(store, log):
    put(log, ("a", "1"), ("b", "1"), producer=(7, 3, 10))
    put(log, ("a", "2"), ("b", "2"))
    close_segment(log)
    clean(store, log)
    empty = headers(log)[0]
    assert (empty.base_offset, empty.last_offset, empty.record_count) == (0, 1, 0)
    assert (empty.producer_id, empty.producer_epoch, empty.base_sequence) == (7, 3, 10)
    # A retry of that batch is recognized after a start that has only the log.
    put(log, ("a", "3"), producer=(7, 3, 12))
    close_segment(log)
    clean(store, log)
    assert 0 not in [each.base_offset for each in headers(log)]


def test_open_transactions_stop_the_cleaner(store, log):
    put(log, ("a", "1"))
    close_segment(log)
    put(log, ("a", "2"))
    put_in_transaction(log, (7, 0, 0), ("a", "open"))
    close_segment(log)
    put(log, ("a", "3"))
    close_segment(log)
    assert clean(store, log).end_offset == 1
    end(log, 7, is_commit=True)
    close_segment(log)
    assert clean(store, log).end_offset == 5
    assert pairs(log) == [(3, "a", "3")]
