"""What clustering saves a query for one client: `python -m benchmarks.pipeline_clustering`.

A day of `gold/usage_per_minute` is written in the order of time, as a stream writes it; then compacted, and
clustered by Z-order. After each the bytes of one client are added up, as the console does. Files are as small
against this day as 128 MB are against one of a large cluster. Everything is done by deltalake: its Z-order is
not Spark's, but of the same columns.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Final

import click
import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

DAY: Final = date(2026, 3, 2)
HOURS: Final = 24
FILE_BYTES: Final = 1 << 20
TIMES: Final = 9


@click.command()
@click.option("--clients", default=1_000, show_default=True, type=click.IntRange(1))
def main(clients: int) -> None:
    """Measure a table as it was written, compacted, and clustered."""
    with tempfile.TemporaryDirectory(prefix="weir-clustering-") as folder:
        dice = np.random.default_rng(7)
        for hour in range(HOURS):
            write_deltalake(folder, _usage(dice, hour, clients), partition_by=["date"], mode="append")
        steps: dict[str, Callable[[DeltaTable], object]] = {
            "written": lambda table: None,
            "compacted": lambda table: table.optimize.compact(target_size=FILE_BYTES),
            "clustered": lambda table: table.optimize.z_order(
                ["principal", "client_id"], target_size=FILE_BYTES
            ),
        }
        for step, act in steps.items():
            began = time.perf_counter()
            act(DeltaTable(folder))
            seconds = time.perf_counter() - began
            print(f"{step} in {seconds:.1f} s; {_look(folder, f'client-{clients // 2}')}", flush=True)


def _usage(dice: np.random.Generator, hour: int, clients: int) -> pa.Table:
    """Return an hour: a row for each minute and client, ten clients a principal."""
    began = datetime(DAY.year, DAY.month, DAY.day, hour, tzinfo=UTC)
    minutes = [began + timedelta(minutes=minute) for minute in range(60)]
    rows = 60 * clients
    names = [f"client-{client}" for client in range(clients)]
    return pa.table(
        {
            "date": pa.array([DAY] * rows, pa.date32()),
            "minute": pa.array([each for each in minutes for _ in range(clients)], pa.timestamp("us", "UTC")),
            "principal": pa.array([f"user-{client // 10}" for client in range(clients)] * 60),
            "client_id": pa.array(names * 60),
            "produce_bytes": pa.array(dice.integers(0, 10**9, rows)),
            "fetch_bytes": pa.array(dice.integers(0, 10**9, rows)),
        }
    )


def _look(folder: str, client: str) -> str:
    """Return the files that may have the client by the log's extremes, and the median time of the query."""
    table = DeltaTable(folder)
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
    whole = sum(size for *_, size in files) / 1e6
    part = sum(opened) / 1e6
    return (
        f"{len(opened)} of {len(files)} files, {part:.1f} of {whole:.1f} MB, "
        f"{statistics.median(spent) * 1000:.0f} ms"
    )


if __name__ == "__main__":
    main()
