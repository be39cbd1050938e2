"""What clustering saves a query for one client: `python -m benchmarks.pipeline_clustering`.

A day of 1,000 clients is read into a warehouse. Then its requests are compacted, and clustered; after each
the requests of one client are added up with deltalake, as the console reads, and with Spark. Files are as
small against the day as 128 MB are against a day of a large cluster. Needs what benchmarks.pipeline needs.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final

import click
from deltalake import DeltaTable, QueryBuilder

from benchmarks.pipeline_day import write_day
from pipeline import maintain, session, silver, sources
from pipeline.formats import REQUESTS
from pipeline.run import Pipeline
from pipeline.tables import Warehouse

TABLE: Final = silver.TABLES[REQUESTS]
TIMES: Final = 7
SIZES: Final = {
    "spark.databricks.delta.optimize.maxFileSize": str(2 << 20),
    "spark.databricks.delta.optimize.minFileSize": str(1 << 20),
}


@click.command()
@click.option("--events", default=1_000_000, show_default=True, type=click.IntRange(1))
@click.option("--clients", default=1_000, show_default=True, type=click.IntRange(1))
@click.option("--keep", type=click.Path(path_type=Path), help="Folder of events, made when it is not there.")
def main(events: int, clients: int, keep: Path | None) -> None:
    """Measure a table as it was written, compacted, and clustered."""
    with tempfile.TemporaryDirectory(prefix="weir-clustering-") as name:
        scratch = Path(name)
        day = keep or scratch / "day"
        if not day.exists():
            write_day(day, clients, events)
        spark = session.open_session("local[2]", settings=SIZES)
        warehouse = Warehouse(spark, str(scratch / "warehouse"))
        Pipeline(warehouse).add(sources.files(spark, str(day)))
        rows = warehouse.read(TABLE)
        client = rows.groupBy("client_id").count().orderBy("count").first()
        assert client is not None
        where = f"client_id = '{client['client_id']}'"
        steps: dict[str, Callable[[], object]] = {
            "written": lambda: None,
            "compacted": lambda: maintain.compact(warehouse, TABLE),
            "clustered": lambda: maintain.cluster(warehouse, TABLE, None, date.max),
        }
        for step, act in steps.items():
            began = time.perf_counter()
            act()
            print(f"{step} in {time.perf_counter() - began:.1f} s; {_look(warehouse, where)}", flush=True)
        spark.stop()


def _look(warehouse: Warehouse, where: str) -> str:
    """Return the files with the client by the log's extremes, and the median time of the query."""
    table = DeltaTable(warehouse.path(TABLE))
    client = where.split("'")[1]
    actions = table.get_add_actions(flatten=True)
    names = actions.schema.names
    sizes = actions.column("size_bytes").to_pylist()
    if "min.client_id" in names:
        extremes = zip(
            actions.column("min.client_id").to_pylist(),
            actions.column("max.client_id").to_pylist(),
            sizes,
            strict=True,
        )
        opened = [size for low, high, size in extremes if low is None or low <= client <= high]
    else:
        opened = sizes
    sql = f"SELECT sum(bytes_in) AS total FROM t WHERE {where}"
    engine = QueryBuilder().register("t", table)
    console = _median(lambda: engine.execute(sql).read_all())
    by_spark = _median(lambda: warehouse.read(TABLE).where(where).selectExpr("sum(bytes_in)").collect())
    return (
        f"{len(opened)} of {len(sizes)} files, {sum(opened) / 1e6:.1f} of {sum(sizes) / 1e6:.1f} MB, "
        f"deltalake {console * 1000:.0f} ms, Spark {by_spark * 1000:.0f} ms"
    )


def _median(act: Callable[[], object]) -> float:
    taken = []
    for _ in range(TIMES):
        began = time.perf_counter()
        act()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
