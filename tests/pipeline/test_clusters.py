"""Events of several clusters and brokers in one warehouse, and warehouses from before rows had a cluster."""

import shutil

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from deltalake import DeltaTable, write_deltalake

from pipeline import silver
from pipeline.formats import QUOTA_CHANGES, REQUESTS
from pipeline.gold import advice, limits, usage
from pipeline.run import Pipeline
from pipeline.sources import EVENTS, files
from pipeline.tables import Warehouse
from tests.pipeline.events import quota_change, raw, record, request, rows_of
from tests.pipeline.everything import some_of_everything


def of_cluster(name, nbytes, limit):
    """A request and a limit at the first places of the topics of one cluster."""
    change = quota_change(-1, 1, entity={"user": "alice"}, new=limit)
    return [
        record(REQUESTS, 0, request(1, bytes_in=nbytes), cluster=name),
        record(QUOTA_CHANGES, 0, change, cluster=name),
    ]


@pytest.mark.parametrize("way", ["add", "take"])
def test_clusters_share_a_warehouse_and_no_row(spark, warehouse, way):
    pipeline = Pipeline(warehouse, advice.Policy(least_minutes=1))
    batches = [of_cluster("x", 60, 1.0), of_cluster("y", 600, 100.0), of_cluster(None, 6, 1.0)]
    for number, batch in enumerate(batches):
        if way == "add":
            pipeline.add(raw(spark, batch))
            pipeline.add(raw(spark, batch))
        else:
            pipeline.take(raw(spark, batch), number)
    pipeline.make_days()
    assert pipeline.rows == 6
    for table in (EVENTS, silver.TABLES[REQUESTS]):
        rows = warehouse.read(table).where(f"topic = '{REQUESTS}'")
        assert rows_of(rows, "cluster", "node", "offset") == [("x", 1, 0), ("y", 1, 0), (None, 1, 0)]
    used = rows_of(warehouse.read(usage.USAGE), "cluster", "produce_bytes")
    assert used == [("x", 60), ("y", 600), (None, 6)]
    shares = warehouse.read(limits.UTILISATION).where("key = 'producer_byte_rate'")
    assert rows_of(shares, "cluster", "utilisation") == [("x", 1.0), ("y", 0.1), (None, 0.1)]
    ranks = warehouse.read(usage.OFFENDERS).where("by = 'produce_bytes'")
    assert rows_of(ranks, "cluster", "rank", "total", "share") == [
        ("x", 1, 60, 1.0),
        ("y", 1, 600, 1.0),
        (None, 1, 6, 1.0),
    ]
    advised = warehouse.read(advice.TABLE).where("key = 'producer_byte_rate'")
    assert rows_of(advised, "cluster", "peak") == [("x", 6.0), ("y", 60.0), (None, 0.6)]


def test_of_files_each_record_of_each_cluster_is_taken_once(spark, tmp_path):
    batch = [of_cluster(name, 1, 1.0)[0] for name in ("x", "y", "x", None)]
    raw(spark, batch).write.parquet(str(tmp_path / "export"))
    assert files(spark, str(tmp_path / "export")).count() == 3


@pytest.mark.parametrize("way", ["add", "take"])
def test_a_warehouse_from_before_rows_had_a_cluster_goes_on(spark, taken, tmp_path, way):
    shutil.copytree(taken.root, tmp_path, dirs_exist_ok=True)
    for log in tmp_path.glob("*/*/_delta_log"):
        folder = log.parent
        table = DeltaTable(folder)
        older = table.to_pyarrow_table()
        names = ["cluster"] + (["node"] if folder.parent.name == "bronze" else [])
        older = older.drop([name for name in names if name in older.column_names])
        by = table.metadata().partition_columns
        write_deltalake(folder, older, mode="overwrite", schema_mode="overwrite", partition_by=by)
    warehouse = Warehouse(spark, str(tmp_path))
    pipeline = Pipeline(warehouse, advice.Policy(least_minutes=2))
    count = warehouse.read(EVENTS).count()
    assert rows_of(warehouse.read(usage.USAGE), "cluster")[0] == (None,)
    new = of_cluster("x", 60, 1.0)
    if way == "add":
        pipeline.add(raw(spark, [*some_of_everything(), *new]))
    else:
        pipeline.take(raw(spark, new), 1)
    pipeline.make_days()
    assert warehouse.read(EVENTS).count() == count + 2
    added = warehouse.read(EVENTS).where("cluster = 'x'")
    assert rows_of(added, "node", "offset") == [(1, 0), (1, 0)]
    used = rows_of(warehouse.read(usage.USAGE).where("client_id = 'a'"), "cluster", "minute", "requests")
    assert used == [("x", "12:00", 1), (None, "12:00", 20), (None, "12:01", 10)]
