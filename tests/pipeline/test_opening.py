"""A table that cannot be read or written is reported before anything is written to any."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline.gold import advice as quota_advice
from pipeline.gold.usage import USAGE
from pipeline.opening import UnusableTableError, check_tables
from pipeline.sources import EVENTS
from pipeline.tables import Table, Warehouse


@pytest.fixture
def copied(spark, taken, tmp_path):
    """Return a warehouse of a table that may be damaged, one before it and one after it."""
    root = tmp_path / "copied"
    for table in (EVENTS, USAGE, quota_advice.TABLE):
        shutil.copytree(taken.root / table.path, root / table.path)
    return Warehouse(spark, str(root))


def log_of(warehouse: Warehouse, table: Table = USAGE) -> list[Path]:
    return sorted((Path(warehouse.path(table)) / "_delta_log").glob("*.json"))


def files_of(warehouse: Warehouse) -> set[Path]:
    return set(Path(warehouse.root).rglob("*"))


def refused(warehouse: Warehouse, *, is_written: bool) -> str:
    """Check the tables, whose files must stay as they are; return the line about the only bad one."""
    before = files_of(warehouse)
    if is_written:
        (message,) = check_tables(warehouse, is_written=True)
    else:
        with pytest.raises(UnusableTableError) as caught:
            check_tables(warehouse, is_written=False)
        message = str(caught.value)
    assert files_of(warehouse) == before
    assert message.startswith(f"the table gold.usage_per_minute in {warehouse.root} cannot be used")
    assert ("nothing was written" in message) is not is_written
    assert "\n" not in message
    return message


def test_whole_tables_pass_and_stay_as_they_are(spark, taken):
    whole = Warehouse(spark, str(taken.root))
    before = files_of(whole)
    assert check_tables(whole, is_written=True) == []
    assert files_of(whole) == before


def test_a_warehouse_without_tables_passes(warehouse):
    assert check_tables(warehouse, is_written=True) == []


def test_nothing_is_done_without_the_records(copied):
    log_of(copied, EVENTS)[-1].write_bytes(b"{")
    for crc in (Path(copied.path(EVENTS)) / "_delta_log").glob(".*crc"):
        crc.unlink()
    with pytest.raises(
        UnusableTableError, match=r"bronze\.events .* cannot be used, and nothing was written"
    ):
        check_tables(copied, is_written=True)


@pytest.mark.parametrize("content", [b"", b'{"add":', b"\x00\xff\x00"])
@pytest.mark.parametrize("is_written", [False, True])
def test_a_damaged_log_is_reported(copied, content, is_written):
    log_of(copied)[0].write_bytes(content)
    for crc in (Path(copied.path(USAGE)) / "_delta_log").glob(".*crc"):
        crc.unlink()
    refused(copied, is_written=is_written)


def protocol(warehouse: Warehouse, **changes: object) -> None:
    """Append a version of the table that only changes the protocol."""
    new = {"minReaderVersion": 1, "minWriterVersion": 2} | changes
    last = log_of(warehouse)[-1]
    later = last.with_name(f"{int(last.stem) + 1:020}.json")
    later.write_text(json.dumps({"protocol": new}) + "\n")


@pytest.mark.parametrize(
    "newer",
    [
        {"minReaderVersion": 4},
        {"minWriterVersion": 8},
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"], "writerFeatures": ["x"]},
    ],
)
@pytest.mark.parametrize("is_written", [False, True])
def test_a_table_that_only_a_newer_delta_can_read_is_reported(copied, newer, is_written):
    protocol(copied, **newer)
    refused(copied, is_written=is_written)


def test_a_table_that_only_a_newer_delta_can_write_may_be_read(copied):
    protocol(copied, minWriterVersion=7, writerFeatures=["tomorrow"])
    assert check_tables(copied, is_written=False) == []
    refused(copied, is_written=True)
