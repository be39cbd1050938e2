"""The columns of the tables have the comments of the dictionary."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline import comments, dictionary
from pipeline.gold.usage import USAGE
from pipeline.schedule import Maintenance
from pipeline.silver import QUARANTINE
from pipeline.sources import EVENTS
from pipeline.tables import Warehouse

HOUR = timedelta(hours=1)


def described(spark, root, path):
    """Return the comments that DESCRIBE TABLE shows, by column."""
    rows = spark.sql(f"DESCRIBE TABLE delta.`{root}/{path}`").collect()
    return {row["col_name"]: row["comment"] for row in rows if row["data_type"] and row["col_name"][0] != "#"}


def test_every_column_has_its_comment_from_the_first_version_on(spark, taken):
    for table in dictionary.TABLES:
        if table.path in taken.tables:
            assert described(spark, taken.root, table.path) == {
                column.name: column.meaning + (f" [{column.unit}]" if column.unit else "")
                for column in table.columns
            }
            # The first version has them; no later one is only about them.
            log = taken.root / table.path / "_delta_log"
            changes = [each.name for each in sorted(log.glob("*.json")) if "metaData" in each.read_text()]
            assert changes == ["00000000000000000000.json"], table.path


@pytest.fixture
def copied(spark, taken, tmp_path):
    for table in (EVENTS, USAGE, QUARANTINE):
        shutil.copytree(taken.root / table.path, tmp_path / table.path)
    return Warehouse(spark, str(tmp_path))


def versions(warehouse):
    return [warehouse.newest_version(table) for table in (EVENTS, USAGE, QUARANTINE)]


def test_a_comment_that_changes_is_written_once(copied, monkeypatch):
    clock = [datetime(2025, 11, 22, tzinfo=UTC)]
    maintenance = Maintenance(copied, clock=lambda: clock[0])
    list(maintenance.due(HOUR))
    before = versions(copied)
    changed = "It's another meaning: a \\ and 'quotes'; `ticks`"
    tables = [
        replace(
            table,
            columns=tuple(
                replace(column, meaning=changed) if column.name in ("requests", "date") else column
                for column in table.columns
            ),
        )
        if table.path == USAGE.path
        else table
        for table in dictionary.TABLES
    ]
    monkeypatch.setattr(comments, "TABLES", tables)
    assert "the columns of 1 tables commented" in list(maintenance.due(HOUR))
    assert versions(copied) == [before[0], before[1] + 1, before[2]]
    found = described(copied.spark, copied.root, USAGE.path)
    assert (found["requests"], found["date"]) == (f"{changed} [requests]", f"{changed} [UTC day]")
    assert found["errors"] == "The number of error codes in responses [errors]"
    assert list(maintenance.due(HOUR)) == []
    assert versions(copied) == [before[0], before[1] + 1, before[2]]


def test_a_table_that_the_dictionary_does_not_have_gets_none(spark):
    rows = spark.range(1)
    assert comments.commented(rows, "_of_ours").schema == rows.schema


def test_any_change_of_a_comment_changes_the_digest(monkeypatch):
    before = comments.digest()
    assert before == comments.digest()
    monkeypatch.setattr(comments, "TABLES", dictionary.TABLES[1:])
    assert comments.digest() != before
