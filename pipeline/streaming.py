"""The stream from the event topics into a warehouse: batches, the checkpoint, progress messages.

Called by `command`. The checkpoint is in the warehouse and records the stream's position. Each batch is
appended under the stream's own id. A stream that finds tables with rows of other origin (a backfill, a
removed checkpoint) adds only missing rows instead, which takes longer and never duplicates a row.
"""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from math import inf
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from pipeline import sources
from pipeline.offsets import OffsetCheck, TopicMadeAnewError
from pipeline.run import ADDED, Pipeline
from pipeline.tables import Warehouse

CHECKPOINT: Final = "_checkpoint"

DAYS_EVERY_S: Final = 300
"""Interval at which a continuous stream recomputes the tables of whole days."""

LOOKS_EVERY_S: Final = 1


class Stream:
    """The stream of a warehouse. Of two streams on one warehouse, Spark ends one. `once` and `continuous`
    raise TopicMadeAnewError, before anything of the topic is written.
    """

    _made_anew: TopicMadeAnewError | None = None

    def __init__(
        self, warehouse: Warehouse, bootstrap: str, options: Mapping[str, str], max_per_batch: int
    ) -> None:
        self._warehouse = warehouse
        self._frame = sources.stream(warehouse.spark, bootstrap, options, max_per_batch)
        self._taken = 0
        self._days_made = time.monotonic()

    def once(self) -> Iterator[str]:
        """Process everything present, yielding progress lines; then recompute the tables of whole days."""
        yield from self._run(inf, {"availableNow": True})
        Pipeline(self._warehouse).make_days()

    def continuous(self, every_s: int) -> Iterator[str]:
        """Process until the process is stopped. New topics are read once they are discovered."""
        yield from self._run(DAYS_EVERY_S, {"processingTime": f"{every_s} seconds"})

    def _run(self, days_every_s: float, trigger: dict[str, Any]) -> Iterator[str]:
        """Run the query, and start it once more after a known error of the connector 4.1.1.

        The connector ends a query that repeated the batch of a killed one when it reports its progress,
        after the batch is done.
        """
        try:
            yield from _progress_of(self._start(days_every_s, trigger))
        except StreamingQueryException:
            if self._made_anew is not None:
                raise self._made_anew from None
            if not self._taken:
                raise
            yield from _progress_of(self._start(days_every_s, trigger))

    def _start(self, days_every_s: float, trigger: dict[str, Any]) -> Any:
        is_only_writer, root = self._is_only_writer(), self._warehouse.root
        query_id: Future[str] = Future()
        offsets = OffsetCheck(self._warehouse.spark, f"{root}/{CHECKPOINT}")

        def take(frame: DataFrame, batch: int) -> None:
            try:
                offsets.check(batch)
            except TopicMadeAnewError as error:
                self._made_anew = error
                raise
            pipeline = Pipeline(Warehouse(frame.sparkSession, root))
            if is_only_writer:
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

    def _is_only_writer(self) -> bool:
        """Return whether the stream of this checkpoint has appended all rows of the tables."""
        warehouse = self._warehouse
        if not warehouse.exists(sources.EVENTS):
            return True
        return warehouse.files.exists(CHECKPOINT) and not warehouse.files.names(ADDED)


def _progress_of(query: Any) -> Iterator[str]:
    """Yield a line for each batch that had rows, until the query ends. Raises the query's error."""
    reported = -1
    try:
        has_ended = False
        while not has_ended:
            has_ended = query.awaitTermination(LOOKS_EVERY_S)
            for each in query.recentProgress:
                if each["batchId"] > reported and each["numInputRows"]:
                    reported = each["batchId"]
                    yield in_words(each)
    finally:
        query.stop()


def in_words(progress: Mapping[str, Any]) -> str:
    """Describe one batch: its records, its rate, and the records that remain."""
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
