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


@pytest.mark.parametrize("table", ["gold/connection_storms", "silver/quarantine"])
def test_a_table_without_a_version_is_being_created(copied, monkeypatch, table):
    """As a first run leaves it while it writes the first file."""
    shutil.rmtree(copied / table, ignore_errors=True)
    (copied / table / "_delta_log").mkdir(parents=True)
    done = weir_tables(copied, monkeypatch)
    assert done.exit_code == 0
    name = table.replace("/", ".")
    assert [line.split(None, 1) for line in done.output.splitlines() if name in line] == [
        [name, "being created"]
    ]


def test_a_missing_file_is_one_line_with_its_table(copied, monkeypatch):
    for data in (copied / "silver" / "throttles").rglob("*.parquet"):
        data.unlink()
    done = weir_tables(copied, monkeypatch)
    assert done.exit_code == 1 and "the table silver.throttles" in done.output.splitlines()[-1]


def test_rows_whose_sum_is_beyond_64_bits_are_counted(spark, warehouse, monkeypatch):
    from pipeline import silver
    from pipeline.formats import REQUESTS
    from pipeline.listing import of_folder
    from pipeline.maintain import beyond
    from pipeline.run import Pipeline
    from tests.pipeline.events import raw, record, request

    pipeline = Pipeline(warehouse)
    with monkeypatch.context() as earlier:
        earlier.setattr(silver, "MAX_COUNT", 2**53)
        corrupt = [record(REQUESTS, at, request(1, requests=2**53 - 1)) for at in range(1_100)]
        pipeline.take(raw(spark, corrupt), 0)
    pipeline.take(raw(spark, [record(REQUESTS, 1_100, request(61, requests=3))]), 1)
    pipeline.make_days()
    assert list(beyond(warehouse)) == [("gold.usage_per_minute", "requests", 1)]
    assert of_folder(Path(warehouse.root)).beyond == list(beyond(warehouse))
    done = weir_tables(warehouse.root, monkeypatch)
    assert "gold.usage_per_minute: requests is beyond 64 bits, and null, in 1 of the rows" in done.output


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
