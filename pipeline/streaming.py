"""The stream from the event topics into a warehouse: batches, the checkpoint, progress messages.

Called by `command`. The checkpoint is in the warehouse and records the stream's position. Each batch is
appended under the stream's own id. A stream that finds tables with rows of other origin (a backfill, a
removed checkpoint) adds only missing rows instead, which takes longer and never duplicates a row.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame

from pipeline import alive, sources
from pipeline.batches import Batches
from pipeline.days import DayJob, Days
from pipeline.failures import ERRORS, Failures
from pipeline.offsets import OffsetCheck, TopicMadeAnewError, newest
from pipeline.run import Pipeline, was_added_up_to
from pipeline.session import runs_locally
from pipeline.tables import Warehouse
from pipeline.work import Work

MOST_COUNTED: Final = 100_000
"""The most records that `Stream.left` counts."""

CHECKPOINT: Final = "_checkpoint"

DAYS_EVERY_S: Final = 300
"""Interval at which a continuous stream recomputes the tables of whole days."""

LOOKS_EVERY_S: Final = 1

RECORDS_OF_A_TASK: Final = 5_000
"""The least that a task reads, if there are so many. A task for each partition of each topic would take
longer to start than to run, and each would write files that all steps open.
"""


class Stream:
    """The stream of a warehouse. Of two streams on one warehouse, Spark ends one. `once` and `continuous`
    raise TopicMadeAnewError, before anything of the topic is written. `batches` notes when one runs,
    `failures` what tables lack.
    """

    _made_anew: TopicMadeAnewError | None = None

    def __init__(
        self,
        warehouse: Warehouse,
        bootstrap: str,
        options: Mapping[str, str],
        max_per_batch: int,
        batches: Batches | None = None,
        failures: Failures | None = None,
        work: Work | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._options = options
        self._work = Work() if work is None else work
        self._warehouse = warehouse
        self._failures = Failures() if failures is None else failures
        self._frame = sources.stream(warehouse.spark, bootstrap, options, max_per_batch)
        self._taken = 0
        self._batches = Batches() if batches is None else batches
        self._days = Days(batches=self._batches, failures=self._failures)

    def once(self) -> Iterator[str]:
        """Process everything present, yielding progress lines; then recompute the tables of whole days."""
        yield from self._run({"availableNow": True}, _nothing)
        self._make_days()

    def continuous(self, every_s: int, days_every_s: float = DAYS_EVERY_S) -> Iterator[str]:
        """Process until the process is stopped. New topics are read once they are discovered.

        The tables of whole days are made beside the stream, which does not wait for them; they wait for its
        batches. Raises an error of theirs too.
        """
        with DayJob(self._days, self._warehouse, days_every_s) as job:
            yield from self._run({"processingTime": f"{every_s} seconds"}, job.check)

    def left(self) -> str:
        """Return in words how many records wait that came while the stream ran `once`."""
        spark, most = self._warehouse.spark, MOST_COUNTED + 1
        try:
            read = newest(spark, f"{self._warehouse.root}/{CHECKPOINT}")
            records = sources.waiting(spark, self._bootstrap, self._options, read, most)
        except ERRORS:
            return "All records that were there at the start are read"
        if not records:
            return "No records are left"
        count = f"{records:,}" if records < most else f"more than {MOST_COUNTED:,}"
        return f"All records that were there at the start are read; {count} came meanwhile, for the next run"

    def _make_days(self) -> None:
        self._pipeline(self._warehouse).make_days()

    def _pipeline(self, warehouse: Warehouse) -> Pipeline:
        return Pipeline(warehouse, days=self._days, failures=self._failures, work=self._work)

    def _run(self, trigger: dict[str, Any], check: Callable[[], None]) -> Iterator[str]:
        """Run the query, and start it once more after a known error of the connector 4.1.1.

        The connector ends a query that repeated the batch of a killed one when it reports its progress,
        after the batch is done.
        """
        try:
            yield from self._progress(trigger, check)
        except StreamingQueryException:
            if self._made_anew is not None:
                raise self._made_anew from None
            if not self._taken:
                raise
            yield from self._progress(trigger, check)

    def _progress(self, trigger: dict[str, Any], check: Callable[[], None]) -> Iterator[str]:
        for each in _progress_of(self._start(trigger), check):
            self._work.is_behind(behind(each))
            yield in_words(each)

    def _start(self, trigger: dict[str, Any]) -> Any:
        is_only_writer, root = self._is_only_writer(), self._warehouse.root
        query_id: Future[str] = Future()
        offsets = OffsetCheck(self._warehouse.spark, f"{root}/{CHECKPOINT}")
        pipelines: list[Pipeline] = []
        # The executors of a cluster have cores of their own; here one task costs less than several.
        is_local = runs_locally(self._warehouse.spark)
        least_tasks = 1 if is_local else self._warehouse.spark.sparkContext.defaultParallelism

        def take(frame: DataFrame, batch: int) -> None:
            try:
                most = offsets.check(batch)
            except TopicMadeAnewError as error:
                self._made_anew = error
                raise
            if not pipelines:
                # The query has a session of its own.
                pipelines.append(self._pipeline(Warehouse(frame.sparkSession, root)))
            rows = frame.coalesce(max(tasks_for(most), least_tasks))
            self._work.is_doing(f"batch {batch}: reading {most:,} records")
            with self._batches.running():
                if is_only_writer:
                    pipelines[0].take(rows, batch, query_id.result())
                else:
                    pipelines[0].add(rows)
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
        return self._has_checkpoint() and was_added_up_to(warehouse) is None

    def _has_checkpoint(self) -> bool:
        try:
            self._warehouse.spark.read.text(f"{self._warehouse.root}/{CHECKPOINT}/metadata")
        except AnalysisException:
            return False
        return True


def tasks_for(records: int) -> int:
    """Return how many tasks may read so many records."""
    return max(1, records // RECORDS_OF_A_TASK)


def _nothing() -> None:
    """Check nothing."""


def _progress_of(query: Any, check: Callable[[], None]) -> Iterator[Mapping[str, Any]]:
    """Yield Spark's progress of each batch that had rows, until the query ends. Raises its error, and
    `check`'s.
    """
    reported = -1
    try:
        has_ended = False
        while not has_ended:
            has_ended = query.awaitTermination(LOOKS_EVERY_S)
            check()
            before = reported
            for each in query.recentProgress:
                if each["batchId"] > reported and each["numInputRows"]:
                    reported = each["batchId"]
                    yield each
            if reported > before or not query.status["isTriggerActive"]:
                alive.touch()
    finally:
        query.stop()


def behind(progress: Mapping[str, Any]) -> int:
    """Return the records that remain after a batch."""
    return sum(
        int(source["metrics"].get("maxOffsetsBehindLatest", 0) or 0)
        for source in progress["sources"]
        if source["metrics"]
    )


def in_words(progress: Mapping[str, Any]) -> str:
    """Describe one batch: its records, its rate, and the records that remain."""
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    return (
        f"batch {progress['batchId']}: {progress['numInputRows']:,} records in {seconds:.1f} s "
        f"({progress['processedRowsPerSecond'] or 0:,.0f}/s), {behind(progress):,} behind"
    )
