"""A pass of the cleaner: what remains in the log, and that readers and the next start find it."""

from tests.log.cleaner.harness import clean, close_segment, compacted, headers, pairs, put
from tests.log.harness import bytes_from, open_store


def test_the_last_record_of_each_key_remains_at_its_offset(store):
    log = compacted(store)
    put(log, ("a", "1"), ("b", "1"), ("c", "1"))
    put(log, ("a", "2"))
    close_segment(log)
    put(log, ("b", "2"))
    close_segment(log)
    put(log, ("c", "2"))
    run = clean(store, log)
    # The active segment is not cleaned, so it makes nothing obsolete.
    assert pairs(log) == [(2, "c", "1"), (3, "a", "2"), (4, "b", "2"), (5, "c", "2")]
    assert (run.first_dirty, run.end_offset) == (0, 5)
    assert (run.stats.records_read, run.stats.records_written) == (5, 3)
    assert [each.base_offset for each in log.segments] == [0, 5]


def test_the_next_start_serves_the_compacted_log(store, where):
    log = compacted(store)
    for round_ in range(20):
        put(log, *[(f"key-{at}", f"{round_}") for at in range(10)])
    close_segment(log)
    put(log, ("key-0", "last"))
    clean(store, log)
    found, known = pairs(log), headers(log)
    store.close()
    again, recovery = open_store(where)
    log = compacted(again)
    assert not recovery.missing and not recovery.damage
    assert (
        pairs(log) == found == [*[(190 + at, f"key-{at}", "19") for at in range(10)], (200, "key-0", "last")]
    )
    assert headers(log) == known
    assert log.high_watermark == 201
    again.close()


def test_a_fetch_from_a_removed_offset_gets_the_next_record(store):
    log = compacted(store)
    for value in range(9):
        put(log, ("a", str(value)))
    close_segment(log)
    clean(store, log)
    assert bytes_from(log, 3) == bytes_from(log, 8) != b""
