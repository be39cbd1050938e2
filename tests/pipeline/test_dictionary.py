"""The dictionary describes the columns that the pipeline writes, no more and no less."""

import pytest
from click.testing import CliRunner

from broker.__main__ import main
from pipeline.dictionary import TABLES


def test_the_command_describes_the_tables_without_spark_and_without_a_warehouse(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = CliRunner().invoke(main, ["pipeline", "tables", "--schema", "--warehouse", str(tmp_path / "none")])
    assert done.exit_code == 0
    for table in TABLES:
        assert f"{table.name}: {table.row}\n" in done.output
        assert all(f"  {column.name} " in done.output for column in table.columns)


@pytest.fixture
def written(spark, taken, tmp_path):
    """Yield the schemas of all tables as written: those of `taken`, and that of lost records."""
    import shutil

    from pipeline.formats import REQUESTS
    from pipeline.maintain import ALL
    from pipeline.run import Pipeline
    from pipeline.tables import Warehouse
    from tests.pipeline.events import raw, record, request

    shutil.copytree(taken.root, tmp_path, dirs_exist_ok=True)
    warehouse = Warehouse(spark, str(tmp_path))
    Pipeline(warehouse).take(raw(spark, [record(REQUESTS, 1_000, request(1))]), 1)
    return {
        table.path: spark.read.format("delta").load(warehouse.path(table)).schema
        for table in ALL
        if warehouse.exists(table)
    }


def test_the_dictionary_has_the_tables_and_columns_that_are_written(written):
    from pipeline.maintain import ALL

    described = {table.path: {each.name: each.type for each in table.columns} for table in TABLES}
    assert written.keys() == described.keys() == {table.path for table in ALL}
    for path, schema in written.items():
        assert {each.name: each.dataType.simpleString() for each in schema.fields} == described[path], path


def test_the_keys_are_those_of_the_pipeline():
    pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")
    from pipeline.maintain import ALL

    assert {table.path: set(table.keys) for table in TABLES} == {table.path: set(table.keys) for table in ALL}
