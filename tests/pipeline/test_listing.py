"""What `weir pipeline tables` lists: the same with and without Spark, and in a second without."""

import shutil
import tarfile
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from broker.__main__ import main

RECORDED: Final = Path(__file__).parent / "warehouses" / "2026-11.tar.xz"

pytest.importorskip("pyarrow", reason="pyarrow is not installed: make test-pipeline installs it")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    root = tmp_path_factory.mktemp("recorded")
    with tarfile.open(RECORDED) as archive:
        archive.extractall(root, filter="data")
    return root


@pytest.fixture
def copied(recorded, tmp_path):
    return Path(shutil.copytree(recorded, tmp_path / "copied"))


def weir_tables(root, monkeypatch):
    """Run it where there is no Java."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return CliRunner().invoke(main, ["pipeline", "tables", "--warehouse", str(root)])


def test_a_folder_is_listed_without_java(recorded, monkeypatch):
    done = weir_tables(recorded, monkeypatch)
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0].split() == ["table", "rows", "files", "bytes", "written", "(UTC)"]
    assert lines[1].split()[:4] == ["bronze.events", "105", "6", "21,032"]
    assert "1 of __weir_requests in quarantine: unknown version" in lines


def test_a_table_without_files_is_listed_with_none(copied, monkeypatch):
    deltalake = pytest.importorskip("deltalake")
    deltalake.DeltaTable(copied / "bronze" / "positions").delete()
    line = next(each for each in weir_tables(copied, monkeypatch).output.splitlines() if "positions" in each)
    assert line.split()[1:4] == ["0", "0", "0"]


def test_a_damaged_log_is_one_line_with_its_table(copied, monkeypatch):
    for log in (copied / "silver" / "throttles" / "_delta_log").glob("*.json"):
        log.write_text("{", encoding="utf-8")
    done = weir_tables(copied, monkeypatch)
    assert done.exit_code == 1 and len(done.output.splitlines()) == 1
    assert done.output.startswith(f"Error: the table silver.throttles in {copied} cannot be read: ")


def test_a_missing_file_is_one_line_with_its_table(copied, monkeypatch):
    for data in (copied / "silver" / "throttles").rglob("*.parquet"):
        data.unlink()
    done = weir_tables(copied, monkeypatch)
    assert done.exit_code == 1 and "the table silver.throttles" in done.output.splitlines()[-1]


def test_spark_counts_the_same(taken, spark):
    from pipeline.listing import of_folder
    from pipeline.loss import lost
    from pipeline.maintain import quarantined, table_descriptions
    from pipeline.tables import Warehouse

    warehouse = Warehouse(spark, str(taken.root))
    listing = of_folder(taken.root)
    theirs = {each.table.name: (each.rows, each.files, each.nbytes) for each in table_descriptions(warehouse)}
    assert {each.name: (each.rows, each.files, each.nbytes) for each in listing.lines} == theirs
    assert listing.quarantined == list(quarantined(warehouse))
    assert listing.lost == lost(warehouse)
