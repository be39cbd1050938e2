"""Which log is due: dirty ratio, compaction lags, checkpoints, and logs that cannot be cleaned."""

from pathlib import Path

import pytest

from broker.common.errors import ApiError
from broker.common.slices import run_through
from broker.config.sections.topics import TopicSettings
from broker.log.checkpoints import parse_offsets
from broker.log.cleaner.manager import CleanerManager
from tests.log.cleaner.harness import clean, close_segment, compacted, keyed, pairs, put
from tests.log.harness import NOW, after_kill, log_files, open_store

POINTS = "cleaner-offset-checkpoint"


@pytest.fixture
def manager(store):
    return CleanerManager(store)


def sized_put(log, size: int, *, timestamp: int = NOW) -> None:
    """Append one record whose batch has exactly `size` bytes."""
    for length in range(size - 90, size):
        made = keyed(("a", "x" * length), timestamp=timestamp)
        if len(made) == size:
            log.stage(made, now_wall_ms=NOW)
            assert log.commit()
            return
    raise AssertionError(size)


@pytest.mark.parametrize(("dirty", "is_due"), [(499, False), (500, False), (501, True)])
def test_a_log_is_due_above_its_dirty_ratio(store, manager, dirty, is_due):
    log = compacted(store, min_cleanable_dirty_ratio=0.5)
    sized_put(log, 500)
    close_segment(log)
    clean(store, log)
    sized_put(log, dirty)
    close_segment(log)
    part = run_through(manager.choose(NOW))
    assert (part is not None) is is_due
    assert manager.assess(log, NOW)[1:5] == (1, 2, 500, dirty)
    assert manager.max_dirty_ratio == dirty / (500 + dirty)
    assert manager.chosen_wall_ms == NOW


def test_the_dirtiest_log_comes_first_and_each_only_once(store, manager):
    one, two = compacted(store, index=0), compacted(store, index=1)
    for log in (one, two):
        sized_put(log, 500)
        close_segment(log)
    clean(store, one)
    sized_put(one, 900)
    close_segment(one)
    chosen = [run_through(manager.choose(NOW)) for _ in range(3)]
    assert [None if each is None else each.log for each in chosen] == [two, one, None]
    manager.leave(two)
    assert run_through(manager.choose(NOW)).log is two


@pytest.mark.parametrize("policy", [(), ("delete",)])
def test_other_logs_are_not_compacted(store, manager, policy):
    log = compacted(store, cleanup_policy=policy)
    log.stage(keyed(("a", "1")), now_wall_ms=NOW)
    close_segment(log)
    assert run_through(manager.choose(NOW)) is None


@pytest.mark.parametrize(("age", "end"), [(999, 0), (1_000, 1), (1_001, 1)])
def test_a_young_segment_is_not_compacted(store, manager, age, end):
    log = compacted(store, min_compaction_lag_ms=1_000)
    put(log, ("a", "1"), timestamp=NOW)
    close_segment(log)
    put(log, ("a", "2"), timestamp=NOW + 500)
    close_segment(log)
    assert manager.assess(log, NOW + age).end == end


@pytest.mark.parametrize(("age", "delay"), [(59_999, 0), (60_000, 0), (60_001, 1)])
def test_an_old_dirty_record_makes_a_log_due(store, manager, age, delay):
    log = compacted(store, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=60_000)
    put(log, ("a", "1"), timestamp=NOW)
    close_segment(log)
    part = run_through(manager.choose(NOW + age))
    assert (0 if part is None else part.delay_ms) == delay == manager.max_delay_ms


def test_the_active_segment_is_rolled_by_the_maximum_lag(store):
    for age, segments in ((59_999, 1), (60_000, 1), (60_001, 2)):
        log = compacted(store, index=age, max_compaction_lag_ms=60_000)
        put(log, ("a", "1"), timestamp=NOW)
        put(log, ("a", "2"), timestamp=NOW + age)
        assert len(log.segments) == segments
    log = compacted(store, index=1, cleanup_policy=("delete",), max_compaction_lag_ms=60_000)
    put(log, ("a", "1"), timestamp=NOW)
    put(log, ("a", "2"), timestamp=NOW + 60_001)
    assert len(log.segments) == 1


def test_a_pass_begins_where_the_last_one_ended_also_after_a_kill(store, where, tmp_path):
    log = compacted(store)
    put(log, ("a", "1"))
    close_segment(log)
    assert clean(store, log).end_offset == 1
    assert (where / POINTS).read_bytes() == b"0\n1\nevents 0 1\n"
    again, _ = open_store(after_kill(where, tmp_path / "killed"))
    assert CleanerManager(again).assess(compacted(again), NOW).first_dirty == 1
    again.close()


@pytest.mark.parametrize(
    ("checkpoint", "first", "is_reset"), [(1, 2, True), (2, 2, False), (4, 4, False), (5, 2, True)]
)
def test_a_checkpoint_outside_the_log_is_replaced(store, where, manager, checkpoint, first, is_reset):
    log = compacted(store)
    put(log, *[(f"key-{at}", "1") for at in range(4)])
    close_segment(log)
    log.delete_records_before(2)
    store.directories.of(log).cleaner_points.set(("events", 0), checkpoint)
    part = manager.assess(log, NOW)
    assert (part.first_dirty, part.is_reset) == (first, is_reset)


def test_a_deleted_partition_leaves_no_checkpoint(store, where):
    log = compacted(store)
    put(log, ("a", "1"))
    close_segment(log)
    clean(store, log)
    store.delete_partition("events", 0)
    assert parse_offsets((where / POINTS).read_bytes()) == {}
    put(compacted(store), ("a", "1"))
    assert manager_of(store).assess(compacted(store), NOW).first_dirty == 0


def manager_of(store) -> CleanerManager:
    return CleanerManager(store)


def test_a_damaged_segment_is_left_alone(store, where, manager):
    log = compacted(store)
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    close_segment(log)
    before = pairs(log)
    (first, _) = log_files(where)
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(content)
    with pytest.raises(ApiError, match="is damaged at byte"):
        clean(store, log, manager=manager)
    manager.fail(log, "damaged")
    assert manager.uncleanable == {log: "damaged"}
    assert run_through(manager.choose(NOW)) is None
    assert first.read_bytes() == bytes(content) and len(before) == 2


def test_a_topic_keeps_everything_without_a_policy(store):
    log = compacted(store, cleanup_policy=(), retention_ms=1, retention_bytes=1)
    log.stage(keyed(("a", "1"), timestamp=1), now_wall_ms=NOW)
    close_segment(log)
    assert run_through(store.retention(NOW)) == [] and len(log.segments) == 2
    log.configure(TopicSettings(retention_ms=1))
    run_through(store.retention(NOW))
    assert len(log.segments) == 1


def test_the_checkpoint_is_a_file_that_kafka_reads(where: Path, store):
    for index in (0, 11):
        log = compacted(store, index=index)
        put(log, ("a", "1"))
        close_segment(log)
        clean(store, log)
    assert parse_offsets((where / POINTS).read_bytes()) == {("events", 0): 1, ("events", 11): 1}
