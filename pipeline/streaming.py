"""The stream from the event topics into a warehouse: batches, the checkpoint, progress in words.

Called by `command`. The checkpoint lies in the warehouse and says how far the stream came. Each batch is
appended under the stream's own id; a stream that finds tables which are not all its own (a backfill, a
checkpoint that was removed) adds what is not there instead, which takes longer and never doubles a row.
"""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from math import inf
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from pipeline import bronze, sources
from pipeline.run import ADDED, Pipeline
from pipeline.tables import Warehouse

CHECKPOINT: Final = "_checkpoint"

DAYS_EVERY_S: Final = 300
"""How often a continuous stream makes the tables of whole days anew."""

LOOKS_EVERY_S: Final = 1


class Stream:
    """One warehouse's; of two at once on one warehouse Spark ends one."""

    def __init__(
        self, warehouse: Warehouse, bootstrap: str, options: Mapping[str, str], most_per_batch: int
    ) -> None:
        self._warehouse = warehouse
        self._frame = sources.stream(warehouse.spark, bootstrap, options, most_per_batch)
        self._taken = 0
        self._days_made = time.monotonic()

    def once(self) -> Iterator[str]:
        """Everything that there is now, in lines to show; then the tables of whole days."""
        yield from self._run(inf, {"availableNow": True})
        Pipeline(self._warehouse).make_days()

    def continuous(self, every_s: int) -> Iterator[str]:
        """Until the process is told to stop. Topics made meanwhile are read when they are seen."""
        yield from self._run(DAYS_EVERY_S, {"processingTime": f"{every_s} seconds"})

    def _run(self, days_every_s: float, trigger: dict[str, Any]) -> Iterator[str]:
        """The connector 4.1.1 ends a query that repeated a killed one's batch when it comes to tell of it,
        after the batch is done: such a query is started once more.
        """
        try:
            yield from _told(self._start(days_every_s, trigger))
        except StreamingQueryException:
            if not self._taken:
                raise
            yield from _told(self._start(days_every_s, trigger))

    def _start(self, days_every_s: float, trigger: dict[str, Any]) -> Any:
        is_alone, root = self._is_alone(), self._warehouse.root
        query_id: Future[str] = Future()

        def take(frame: DataFrame, batch: int) -> None:
            pipeline = Pipeline(Warehouse(frame.sparkSession, root))
            if is_alone:
                pipeline.take(frame, batch, query_id.result())
            else:
                pipeline.add(frame)
            if time.monotonic() - self._days_made >= days_every_s:
                pipeline.make_days()
                self._days_made = time.monotonic()
            self._taken += 1

        writer = self._frame.writeStream.foreachBatch(take).trigger(**trigger)
        query = writer.option("checkpointLocation", f"{root}/{CHECKPOINT}").start()
        query_id.set_result(str(query.id))
        return query

    def _is_alone(self) -> bool:
        """Whether all that the tables have was appended by the stream of this checkpoint."""
        warehouse = self._warehouse
        if not warehouse.exists(bronze.EVENTS):
            return True
        return warehouse.has(CHECKPOINT) and not warehouse.noted(ADDED)


def _told(query: Any) -> Iterator[str]:
    """A line for each batch that had rows, until the query ends. Raises what ended it."""
    told = -1
    try:
        has_ended = False
        while not has_ended:
            has_ended = query.awaitTermination(LOOKS_EVERY_S)
            for each in query.recentProgress:
                if each["batchId"] > told and each["numInputRows"]:
                    told = each["batchId"]
                    yield in_words(each)
    finally:
        query.stop()


def in_words(progress: Mapping[str, Any]) -> str:
    """One batch: how many records, how fast, and how many are still to come."""
    behind = sum(
        int(source["metrics"].get("maxOffsetsBehindLatest", 0) or 0)
        for source in progress["sources"]
        if source["metrics"]
    )
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    return (
        f"batch {progress['batchId']}: {progress['numInputRows']:,} records in {seconds:.1f} s "
        f"({progress['processedRowsPerSecond'] or 0:,.0f}/s), {behind:,} behind"
    )
