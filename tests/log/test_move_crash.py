"""After a kill at any moment of a move, the next start has every record once and continues the move."""

import shutil

import pytest

from broker.log import disk
from tests.log.harness import NOW, all_records, append, fill, make, offsets, sized
from tests.log.moving import begin, clear, directories, finish, open_two, settle, step


def killed(where, copies):
    """Copy the state that the next process would find."""
    shutil.copytree(where, copies / f"{len(list(copies.iterdir())):03d}")


@pytest.fixture
def where(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def copies(tmp_path):
    made = tmp_path / "killed"
    made.mkdir()
    return made


def watch(monkeypatch, where, copies, ends, log):
    """Kill before every operation that changes a name or a file of the copy."""

    def around(function):
        def call(*args, **kwargs):
            killed(where, copies)
            ends.append(log.high_watermark)
            return function(*args, **kwargs)

        return call

    for name in ("copy", "copy_file", "rename", "replace_file", "make_directory"):
        monkeypatch.setattr(disk, name, around(getattr(disk, name)))


def test_no_moment_loses_or_doubles_a_record(where, copies, monkeypatch):
    store, _ = open_two(where)
    log = make(store, segment_bytes=500)
    fill(log, 9)
    log.delete_records_before(2)
    ends = []
    with monkeypatch.context() as watched:
        watch(watched, where, copies, ends, log)
        move = begin(store, log, "b")
        while step(store, move, 300):
            append(log, sized(100))
        settle(store)
    store.close()
    moments = sorted(copies.iterdir())
    assert len(moments) > 25
    resumed = 0
    for moment, end in zip(moments, ends, strict=True):
        again, recovery = open_two(moment)
        found = make(again, segment_bytes=500)
        assert offsets(all_records(found)) == list(range(2, end)), moment.name
        assert recovery.partitions - len(recovery.duplicates) == 1
        for running in list(again.moves.running.values()):
            resumed += 1
            finish(again, running, 300)
        append(found, sized(100))
        assert offsets(all_records(found)) == list(range(2, end + 1)), moment.name
        clear(again, NOW + 3_600_000)
        assert sorted(name for names in directories(moment).values() for name in names) == ["events-0"]
        again.close()
    assert resumed > 15


def test_a_move_goes_on_behind_the_segments_that_are_there(where, tmp_path):
    store, _ = open_two(where)
    log = make(store, segment_bytes=500)
    fill(log, 17)
    move = begin(store, log, "b")
    while move.size < 1_200:
        step(store, move, 200)
    shutil.copytree(where, tmp_path / "killed")
    again, _ = open_two(tmp_path / "killed")
    (move,) = again.moves.running.values()
    assert move.size == 1_000 == move.flushed_offset * 100
    finish(again, move)
    assert move.copied == 700
    for each in (store, again):
        each.close()


def test_a_copy_that_is_not_of_these_segments_begins_afresh(where):
    store, _ = open_two(where)
    log = make(store, segment_bytes=500)
    fill(log, 17)
    move = begin(store, log, "b")
    while move.size < 1_200:
        step(store, move, 200)
    store.close()
    (copy,) = (where / "b").glob("*-future")
    with (copy / "00000000000000000000.log").open("ab") as file:
        file.write(b"x")
    again, _ = open_two(where)
    (move,) = again.moves.running.values()
    assert move.size == 0
    finish(again, move)
    assert offsets(all_records(make(again))) == list(range(17))
    again.close()


def test_a_stop_in_the_middle_is_clean_and_the_move_goes_on(where):
    store, _ = open_two(where)
    log = make(store, segment_bytes=500)
    fill(log, 17)
    move = begin(store, log, "b")
    for _ in range(5):
        step(store, move, 200)
    assert store.close() == []
    again, recovery = open_two(where)
    assert not recovery.unclean
    assert again.moves.running
    again.close()


def test_a_copy_of_nothing_and_a_second_copy_are_removed(where):
    store, _ = open_two(where)
    log = make(store)
    fill(log, 3)
    begin(store, log, "b")
    store.close()
    (copy,) = (where / "b").glob("*-future")
    shutil.copytree(copy, copy.parent / f"events-0.{'0' * 32}-future")
    shutil.copytree(copy, copy.parent / f"gone-0.{'1' * 32}-future")
    shutil.copytree(copy, where / "a" / f"events-0.{'2' * 32}-future")
    again, _ = open_two(where)
    assert len(again.moves.running) == 1
    clear(again)
    assert directories(where) == {"a": ["events-0"], "b": ["events-0.future"]}
    again.close()


def test_of_two_places_the_one_that_has_more_is_used(where):
    store, _ = open_two(where)
    fill(make(store), 3)
    store.close()
    shutil.copytree(where / "a" / "events-0", where / "b" / "events-0")
    again, recovery = open_two(where)
    assert len(recovery.duplicates) == 1
    fill(make(again), 2)
    again.close()
    assert directories(where)["a"] == ["events-0"] or directories(where)["b"] == ["events-0"]


def test_a_place_that_has_other_records_is_put_aside_and_not_deleted(where):
    store, _ = open_two(where)
    fill(make(store), 5)
    other = store.create_partition("events", bytes(15) + b"\x01", 1, make(store).settings)
    fill(other, 2)
    store.close()
    (where / "b" / "events-1").rename(where / "b" / "events-0")
    again, recovery = open_two(where)
    assert [each.renamed_to.endswith("-stray") for each in recovery.duplicates] == [True]
    assert offsets(all_records(make(again))) == list(range(5))
    clear(again)
    assert directories(where) == {"a": ["events-0"], "b": ["events-0.stray"]}
    again.close()
