"""Compaction and moves between log directories: one waits for the other, and the checkpoint moves along."""

from broker.common.slices import run_through
from broker.log.checkpoints import parse_offsets
from broker.log.cleaner.manager import CleanerManager
from tests.log.cleaner.harness import clean, close_segment, compacted, pairs, put
from tests.log.harness import NOW
from tests.log.moving import begin, finish, open_two


def test_a_log_that_moves_is_not_compacted_and_keeps_its_checkpoint(tmp_path):
    store, _ = open_two(tmp_path)
    log, manager = compacted(store, min_cleanable_dirty_ratio=0.1), CleanerManager(store)
    put(log, ("a", "1"), ("a", "2"))
    close_segment(log)
    clean(store, log, manager=manager)
    put(log, ("a", "3"))
    close_segment(log)
    move = begin(store, log, "b")
    assert run_through(manager.choose(NOW)) is None and not manager.may_replace(log)
    finish(store, move)
    assert parse_offsets((tmp_path / "b" / "cleaner-offset-checkpoint").read_bytes()) == {("events", 0): 2}
    assert parse_offsets((tmp_path / "a" / "cleaner-offset-checkpoint").read_bytes()) == {}
    part = run_through(manager.choose(NOW))
    assert part is not None and (part.log, part.first_dirty) == (log, 2)
    manager.leave(log)
    clean(store, log, manager=manager)
    assert pairs(log) == [(2, "a", "3")]
    store.close()
