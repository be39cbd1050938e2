"""What clustering saves a query for one client: `python -m benchmarks.pipeline_clustering`.

A day of `gold/usage_per_minute` is written in the order of time, as a stream writes it; then compacted, and
clustered. After each the bytes of one client are added up with deltalake, as the console does. Files are as
small against this day as 128 MB are against one of a large cluster. Needs what benchmarks.pipeline needs.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import date
from typing import Final

import click
from deltalake import DeltaTable, QueryBuilder

from pipeline import maintain, session
from pipeline.gold.usage import USAGE
from pipeline.tables import Warehouse

MINUTES: Final = 1_440
WRITES: Final = 24
TIMES: Final = 7
SIZES: Final = {
    "spark.databricks.delta.optimize.maxFileSize": str(1 << 20),
    "spark.databricks.delta.optimize.minFileSize": str(1 << 20),
}


@click.command()
@click.option("--clients", default=1_000, show_default=True, type=click.IntRange(1))
def main(clients: int) -> None:
    """Measure a table as it was written, compacted, and clustered."""
    with tempfile.TemporaryDirectory(prefix="weir-clustering-") as scratch:
        spark = session.open_session("local[2]", settings=SIZES)
        warehouse = Warehouse(spark, scratch)
        for part in range(WRITES):
            first, rows = part * MINUTES // WRITES, clients * MINUTES // WRITES
            made = spark.range(rows).selectExpr(
                "DATE '2026-03-02' AS date",
                "TIMESTAMP '2026-03-02 00:00:00' + "
                f"make_interval(0, 0, 0, 0, 0, {first} + id DIV {clients}) AS minute",
                f"concat('user-', id % {clients} DIV 10) AS principal",
                f"concat('client-', id % {clients}) AS client_id",
                "CAST(rand(7) * 1e9 AS BIGINT) AS produce_bytes",
                "CAST(rand(8) * 1e9 AS BIGINT) AS fetch_bytes",
            )
            warehouse.append_once(USAGE, made.coalesce(1), "benchmark", part)
        steps: dict[str, Callable[[], object]] = {
            "written": lambda: None,
            "compacted": lambda: maintain.compact(warehouse, USAGE),
            "clustered": lambda: maintain.cluster(warehouse, USAGE, None, date.max),
        }
        for step, act in steps.items():
            began = time.perf_counter()
            act()
            seconds = time.perf_counter() - began
            print(f"{step} in {seconds:.1f} s; {_look(warehouse, f'client-{clients // 2}')}", flush=True)
        spark.stop()


def _look(warehouse: Warehouse, client: str) -> str:
    """Return the files that may have the client by the log's extremes, and the median time of the query."""
    table = DeltaTable(warehouse.path(USAGE))
    columns = ("min.client_id", "max.client_id", "size_bytes")
    actions = table.get_add_actions(flatten=True)
    files = list(zip(*(actions.column(name).to_pylist() for name in columns), strict=True))
    opened = [size for low, high, size in files if low <= client <= high]
    sql = f"SELECT sum(produce_bytes) AS total FROM t WHERE client_id = '{client}'"
    engine, spent = QueryBuilder().register("t", table), []
    for _ in range(TIMES):
        began = time.perf_counter()
        engine.execute(sql).read_all()
        spent.append(time.perf_counter() - began)
    return (
        f"{len(opened)} of {len(files)} files, {sum(opened) / 1e6:.1f} of "
        f"{sum(size for *_, size in files) / 1e6:.1f} MB, {statistics.median(spent) * 1000:.0f} ms"
    )


if __name__ == "__main__":
    main()
