"""A write-ahead log with a flipped bit stops the start, although SQLite silently skips the damage."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.metadata.actor import BROKER_ITSELF
from broker.metadata.changes import Change, ChangeKind
from broker.metadata.row_sums import row_sum
from broker.metadata.store import MetadataStore
from broker.metadata.wal import MetadataUnusable, unread_commits

HEADER, FRAME = 32, 24 + 4_096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.sqlite"


def wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[bytes]:
    """Return a log of three transactions with a page each, none of them in the main file."""
    path = tmp_path / "other.sqlite"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("CREATE TABLE t (value)")
    connection.execute("PRAGMA journal_mode = WAL")
    for value in range(3):
        connection.execute("INSERT INTO t VALUES (?)", (value,))
    content = wal_of(path).read_bytes()
    assert len(content) == HEADER + 3 * FRAME
    yield content
    connection.close()


def flipped(content: bytes, at: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


def next_id(value: int) -> Change:
    return Change(ChangeKind.PRODUCER_IDS, "", "next", str(value))


def test_a_whole_log_is_read_whole(log: bytes) -> None:
    assert unread_commits(log) == 0


@pytest.mark.parametrize("content", [b"", b"x", bytes(HEADER)])
def test_a_log_without_frames_has_nothing_to_read(content: bytes) -> None:
    assert unread_commits(content) == 0


@pytest.mark.parametrize(
    ("at", "unread"),
    [
        (HEADER + 24, 3),
        (HEADER + FRAME - 1, 3),
        (HEADER + FRAME + 24, 2),
        (HEADER + 2 * FRAME - 1, 2),
        (HEADER + 2 * FRAME + 24, 1),
        (HEADER + 3 * FRAME - 1, 1),
    ],
)
def test_a_flipped_bit_in_a_frame_hides_all_transactions_from_there_on(
    log: bytes, at: int, unread: int
) -> None:
    assert unread_commits(flipped(log, at)) == unread


@pytest.mark.parametrize("at", range(0, HEADER, 4))
def test_a_flipped_bit_in_the_head_hides_all_transactions(log: bytes, at: int) -> None:
    assert unread_commits(flipped(log, at)) == 3


def test_a_transaction_without_its_last_bytes_was_not_committed(log: bytes) -> None:
    assert unread_commits(log[:-1]) == 0


def test_frames_of_an_earlier_log_behind_the_current_one_do_not_count(log: bytes) -> None:
    stale = bytearray(log[HEADER:])
    for start in range(0, len(stale), FRAME):
        stale[start + 8] ^= 1
    assert unread_commits(log + bytes(stale)) == 0


def test_the_log_is_empty_after_every_commit_because_a_checkpoint_follows(path: Path) -> None:
    store = MetadataStore.open(path, 1_000)
    assert wal_of(path).stat().st_size == 0
    store.commit([next_id(7)], BROKER_ITSELF, 2_000)
    assert wal_of(path).stat().st_size == 0
    only_main = path.with_name("copy.sqlite")
    shutil.copy(path, only_main)
    store.close()
    again = MetadataStore.open(only_main, 3_000)
    assert again.image.next_producer_id == 7
    again.close()


def with_log(path: Path, commits: int) -> None:
    """Leave the files as an earlier version does after a kill: changes in the log only."""
    MetadataStore.open(path, 1_000).close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    for seq in range(2, 2 + commits):
        row = (seq, seq, 1, "", "admin", "", "broker", "producer-ids", "", "next", None, str(seq))
        marks = ", ".join("?" * 13)
        connection.execute(f"INSERT INTO change VALUES ({marks})", (*row, row_sum(row)))
    kept = [(each, each.read_bytes()) for each in (path, wal_of(path))]
    connection.close()
    for each, content in kept:
        each.write_bytes(content)


def test_a_log_of_an_earlier_process_is_taken_over(path: Path) -> None:
    with_log(path, 2)
    store = MetadataStore.open(path, 2_000)
    assert store.image.next_producer_id == 3
    assert wal_of(path).stat().st_size == 0
    store.close()


def test_a_log_with_two_unread_changes_stops_the_start_and_is_left_alone(path: Path) -> None:
    with_log(path, 2)
    damaged = flipped(wal_of(path).read_bytes(), HEADER + 100)
    wal_of(path).write_bytes(damaged)
    with pytest.raises(MetadataUnusable, match=r"-wal is damaged: 2 changes.*--rebuild-metadata"):
        MetadataStore.open(path, 2_000)
    assert wal_of(path).read_bytes() == damaged


def test_one_unread_change_is_one_that_was_being_written_when_the_power_went(path: Path) -> None:
    with_log(path, 2)
    content = wal_of(path).read_bytes()
    wal_of(path).write_bytes(flipped(content, len(content) - 1))
    store = MetadataStore.open(path, 2_000)
    assert store.image.next_producer_id == 2
    store.close()


def test_salvage_reads_a_damaged_log_as_far_as_it_goes_and_keeps_a_copy(path: Path) -> None:
    with_log(path, 3)
    content = wal_of(path).read_bytes()
    frames = (len(content) - HEADER) // FRAME
    damaged = flipped(content, HEADER + (frames // 3) * FRAME + 100)
    wal_of(path).write_bytes(damaged)
    store = MetadataStore.open(path, 2_000, salvage=True)
    assert store.image.next_producer_id == 2
    store.close()
    assert path.with_name("metadata.sqlite-wal.damaged").read_bytes() == damaged


@pytest.mark.parametrize("missing", [True, False])
def test_an_empty_main_file_beside_a_log_stops_the_start(path: Path, missing: bool) -> None:
    with_log(path, 1)
    if missing:
        path.unlink()
    else:
        path.write_bytes(b"")
    before = wal_of(path).read_bytes()
    with pytest.raises(MetadataUnusable, match="is missing or empty"):
        MetadataStore.open(path, 2_000)
    assert wal_of(path).read_bytes() == before
