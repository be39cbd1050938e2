"""A kill before any operation on a file, from the first to the last of a pass, loses nothing.

The table: what the next start finds is either the log before the pass, or a part of its groups replaced. In
every case the last record of each key is there, at its offset; the producers go on; and the next pass
finishes the work.
"""

import os
import shutil

import pytest

from broker.log import disk
from tests.log.cleaner.harness import clean, close_segment, compacted, end, pairs, put, put_in_transaction
from tests.log.harness import NOW, open_store

OPERATIONS = (
    "open_file",
    "write_at",
    "flush",
    "flush_directory",
    "rename",
    "remove",
    "replace_file",
    "set_modified_ms",
)


@pytest.fixture(autouse=True)
def _nothing_waits_for_the_disk(monkeypatch):
    """A killed process loses nothing that it has written, flushed or not."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _: None)


@pytest.fixture
def copies(tmp_path):
    made = tmp_path / "killed"
    made.mkdir()
    return made


def fill(log):
    """Two groups of several segments, with transactions, and an active segment."""
    for round_ in range(24):
        put(log, *[(f"key-{at}", f"{round_}" * 20) for at in range(4)])
        if round_ % 6 == 0:
            put_in_transaction(log, (7, 0, round_ // 6), ("key-0", "in a transaction"))
            end(log, 7, is_commit=round_ % 12 == 0)
        put(log, (f"once-{round_}", "x"), producer=(8, 0, round_))
    close_segment(log)
    put(log, ("key-0", "active"))


def copied_before(function, where, copies):
    def call(*args):
        shutil.copytree(where, copies / f"{len(list(copies.iterdir())):03d}")
        return function(*args)

    return call


def last_values(found):
    return {key: (offset, value) for offset, key, value in found}


def test_no_moment_loses_a_record(where, copies, monkeypatch):
    store, _ = open_store(where)
    log = compacted(store, segment_bytes=1_000)
    fill(log)
    log = compacted(store, segment_bytes=4_000)  # so that a group has several segments
    assert len(log.segments) > 8
    before = pairs(log)
    moments = []

    def watched(name, function):
        def call(*args, **kwargs):
            moments.append(name)
            shutil.copytree(where, copies / f"{len(moments):03d}-{name}")
            return function(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for name in OPERATIONS:
            patch.setattr(disk, name, watched(name, getattr(disk, name)))
        clean(store, log)
    after, producers = pairs(log), log.producers.items()
    store.close()
    assert {"rename", "flush", "flush_directory", "write_at", "replace_file"} <= set(moments)
    aborted = {offset for offset, _, value in before if value == "in a transaction"} - {
        offset for offset, *_ in after
    }
    outcomes = set()
    for moment in sorted(copies.iterdir()):
        again, recovery = open_store(moment)
        found = compacted(again, segment_bytes=4_000)
        assert (recovery.missing, recovery.damage, recovery.truncated) == ([], [], []), moment.name
        log_now = pairs(found)
        outcomes.add(len(log_now))
        kept = last_values([each for each in log_now if each[0] not in aborted])
        assert kept == last_values(after), moment.name
        assert set(log_now) <= set(before)
        assert [(each, state.epoch) for each, state in found.producers.items()] == [
            (each, state.epoch) for each, state in producers
        ]
        assert {each: state.batches[-1].last_sequence for each, state in found.producers.items()} == {
            each: state.batches[-1].last_sequence for each, state in producers
        }
        left = {path.suffix for path in (moment / "events-0").iterdir()}
        assert not left & {".cleaned", ".swap", ".deleted"}, moment.name
        clean(again, found)
        assert pairs(found) == after, moment.name
        again.close()
    assert {len(before), len(after)} < outcomes  # and states between the two


def test_a_kill_while_a_start_completes_a_replacement(where, copies, tmp_path, monkeypatch):
    store, _ = open_store(where)
    log = compacted(store, segment_bytes=1_000)
    fill(log)
    log = compacted(store, segment_bytes=4_000)  # so that a group has several segments
    swapped = tmp_path / "swapped"
    with monkeypatch.context() as patch:

        def rename(old, new, rename=disk.rename):
            rename(old, new)
            if new.endswith(".log.swap") and not swapped.exists():
                shutil.copytree(where, swapped)

        patch.setattr(disk, "rename", rename)
        clean(store, log)
    after = pairs(log)
    store.close()
    with monkeypatch.context() as patch:
        for name in ("rename", "remove"):
            patch.setattr(disk, name, copied_before(getattr(disk, name), swapped, copies))
        open_store(swapped)[0].close()
    moments = sorted(copies.iterdir())
    assert len(moments) > 10
    for moment in moments:
        again, recovery = open_store(moment)
        assert (recovery.missing, recovery.damage) == ([], [])
        found = compacted(again, segment_bytes=4_000)
        clean(again, found, now=NOW)
        assert pairs(found) == after
        again.close()
