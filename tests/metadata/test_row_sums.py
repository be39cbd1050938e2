"""The checksums of the rows of the metadata."""

import sqlite3
from pathlib import Path

import pytest

from broker.metadata.actor import BROKER_ITSELF
from broker.metadata.changes import Change, ChangeKind, Unreadable, write_pairs
from broker.metadata.row_sums import COLUMNS, check_rows, row_sum, sum_rows
from broker.metadata.store import MetadataStore

ANN = write_pairs((("user", "ann"),))
ROW = (1, 1, 2, "eve", "admin", "", "page", "client-quota", "e", "k", None, "5")


def test_each_value_counts_and_so_does_what_is_null() -> None:
    sums = {row_sum(ROW)}
    for at, value in enumerate(ROW):
        for other in ("x", "", None, 7):
            if other != value:
                sums.add(row_sum((*ROW[:at], other, *ROW[at + 1 :])))
    assert len(sums) == 1 + sum(other != value for value in ROW for other in ("x", "", None, 7))


def test_a_value_that_cannot_be_decrypted_counts_as_its_text() -> None:
    assert row_sum((*ROW[:-1], Unreadable("5"))) == row_sum(ROW)


def filled(path: Path, changes: int) -> sqlite3.Connection:
    store = MetadataStore.open(path, 1_000)
    for number in range(changes):
        store.commit(
            [Change(ChangeKind.CLIENT_QUOTA, ANN, "producer_byte_rate", str(number))], BROKER_ITSELF, 2_000
        )
    store.close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TRIGGER change_is_not_edited")
    return connection


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (1, f"1 of its rows are damaged: number 2 (client-quota {ANN} producer_byte_rate)"),
        (5, "5 of its rows are damaged: number 2"),
        (6, ", 1 more"),
    ],
)
def test_damaged_rows_are_named(tmp_path: Path, damaged: int, words: str) -> None:
    connection = filled(tmp_path / "m", 8)
    check_rows(connection, salvage=False)
    connection.execute("UPDATE change SET new = new || '0' WHERE seq BETWEEN 2 AND ?", (1 + damaged,))
    with pytest.raises(ValueError, match="rows are damaged") as refused:
        check_rows(connection, salvage=False)
    assert words in str(refused.value)
    assert ("more" in str(refused.value)) == (damaged == 6)
    check_rows(connection, salvage=True)
    check_rows(connection, salvage=False)
    connection.close()


def test_a_row_without_a_checksum_is_damaged(tmp_path: Path) -> None:
    connection = filled(tmp_path / "m", 1)
    connection.execute("UPDATE change SET crc = NULL WHERE seq = 2")
    with pytest.raises(ValueError, match="number 2"):
        check_rows(connection, salvage=False)
    connection.close()


def test_checksums_are_written_once_and_rows_stay_protected(tmp_path: Path) -> None:
    connection = filled(tmp_path / "m", 3)
    before = connection.execute(f"SELECT {COLUMNS}, crc FROM change").fetchall()
    connection.execute("UPDATE change SET crc = NULL")
    sum_rows(connection)
    assert connection.execute(f"SELECT {COLUMNS}, crc FROM change").fetchall() == before
    with pytest.raises(sqlite3.IntegrityError, match="append only"):
        connection.execute("UPDATE change SET new = '7'")
    changes = connection.total_changes
    sum_rows(connection)
    assert connection.total_changes == changes
    connection.close()
