"""The pipeline on a cluster of Spark with two workers, and a warehouse on an object store.

Each run is a process of its own, as users start it; the cluster and the store serve them all.
"""

import os
import socket
import subprocess
import sys
from typing import Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from deltalake import DeltaTable

from benchmarks.pipeline import WEIR
from benchmarks.spark_cluster import Cluster, spark_cluster
from pipeline import session
from pipeline.gold import advice
from tests.pipeline.conftest import JAVA_OPTIONS, SETTINGS
from tests.pipeline.events import raw
from tests.pipeline.everything import rows_of_table, some_of_everything
from tests.support.object_store import ObjectStore, object_store
from webui.insights.location import of_table, storage_options

WITHIN_S: Final = 480
SMALL: Final = tuple(
    f"{key}={value}"
    for key, value in {
        **SETTINGS,
        # A partition for each worker.
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    }.items()
)


@pytest.fixture(scope="module")
def store():
    if not session.s3_jars():
        pytest.skip("the jars for S3 are not there: make jars-s3")
    with object_store() as store:
        yield store


@pytest.fixture(scope="module")
def exported(spark, tmp_path_factory):
    """Return the path of files of events."""
    path = tmp_path_factory.mktemp("exported") / "events"
    raw(spark, some_of_everything()).write.parquet(str(path))
    return path


def weir(store: ObjectStore, *arguments: object, cluster: Cluster | None = None) -> "subprocess.Popen[str]":
    environment = (os.environ if cluster is None else cluster.environment) | store.environment
    settings = (*SMALL, *(cluster.settings if cluster else ()))
    return subprocess.Popen(
        [WEIR, "pipeline", *map(str, arguments), *(f"--spark={each}" for each in settings)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, list[str]]:
    """Return the status and the lines of Weir's own, without those of Spark's start."""
    out, _ = process.communicate(timeout=WITHIN_S)
    return process.returncode, out.splitlines()


def test_a_cluster_and_an_object_store_make_the_tables_of_one_machine(
    store, exported, taken, tmp_path, monkeypatch
):
    warehouse = store.warehouse("cluster")
    with spark_cluster(tmp_path, workers=2) as cluster:
        run = ("backfill", exported, "--warehouse", warehouse, "--master", cluster.master)
        status, lines = ended(weir(store, *run, cluster=cluster))
        assert (status, "new" in lines[-1]) == (0, True), lines
        # A folder of an application, with one of an executor in it.
        assert [len(list(worker.glob("app-*/*/stderr"))) for worker in cluster.workers] == [1, 1]
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    options = storage_options(warehouse, os.environ)
    found = {
        name: rows_of_table(DeltaTable(of_table(warehouse, name), storage_options=options))
        for name in taken.tables
    }
    # Two minutes are too few for advice, unless a test asks for it.
    assert found == taken.tables | {advice.TABLE.path: []}


WRITER: Final = """
import sys
from pipeline import session
from pipeline.conflicts import repeated
url, first = sys.argv[1], int(sys.argv[2])
settings = {"spark.sql.shuffle.partitions": "1", "spark.databricks.delta.snapshotPartitions": "1"}
spark = session.open_session("local[1]", settings=settings, uses_s3=True)
print("ready", flush=True)
sys.stdin.readline()
for number in range(first, first + 10):
    frame = spark.range(number, number + 1).write.format("delta").mode("append")
    repeated(lambda: frame.save(url))
"""


@pytest.mark.slow
def test_two_processes_that_write_one_table_at_once_lose_nothing(store, monkeypatch):
    url, refused = store.warehouse("written/twice"), store.refused_puts()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, url, str(first)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | store.environment,
        )
        for first in (0, 100)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=WITHIN_S)
        assert process.returncode == 0
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    table = DeltaTable(of_table(url, "."), storage_options=storage_options(url, os.environ))
    numbers = sorted(table.to_pyarrow_table()["id"].to_pylist())
    assert numbers == [*range(10), *range(100, 110)]
    assert store.refused_puts() > refused, "the writers were never in each other's way"


@pytest.mark.slow
def test_a_store_that_refuses_is_reported_in_a_line(store, exported):
    runs = {
        "403": ("backfill", exported, "--warehouse", store.warehouse("refused")),
        "no-bucket": ("backfill", exported, "--warehouse", "s3a://no-bucket/warehouse"),
    }
    with store.refusing():
        status, lines = ended(weir(store, *runs["403"]))
    assert status == 1
    assert lines[-1].startswith("Error: ") and "403" in lines[-1], lines
    status, lines = ended(weir(store, *runs["no-bucket"]))
    assert status == 1
    assert lines[-1].startswith("Error: ") and "no-bucket" in lines[-1], lines
    events = of_table(store.warehouse("refused"), "bronze/events")
    options = store.environment | {"allow_http": "true"}
    assert not DeltaTable.is_deltatable(events, storage_options=options)


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_reported_before_spark_starts(store, exported):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        closed = ObjectStore(f"http://127.0.0.1:{sock.getsockname()[1]}")
        status, lines = ended(weir(closed, "backfill", exported, "--warehouse", "s3a://weir/x"))
    assert status == 1
    refused = f"Error: no object store is reachable ({closed.url}: [Errno 111] Connection refused)"
    assert lines == ["Loading PySpark", refused]
