"""Runs steps at the same time, each in a session of its own. For `run`, `days` and `otlp.tables`.

While the driver plans one step or commits it to a table, the tasks of others use the cores.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from threading import Event

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from pipeline.tables import NO_SETTINGS, Warehouse

Step = Callable[[Warehouse], None]


def nothing() -> None:
    """Cancel nothing."""


def run_together(
    spark: SparkSession,
    acts: Sequence[Callable[[], object]],
    at_once: int | None = None,
    cancel: Callable[[], None] = nothing,
) -> None:
    """Run all acts at the same time, or `at_once` of them, with the properties of this thread's jobs.

    After the first error no further one begins, and `cancel` is to end the running ones; the error is raised
    when they have ended.
    """
    has_failed = Event()

    def run(act: Callable[[], object]) -> None:
        if has_failed.is_set():
            return
        try:
            act()
        except BaseException:
            has_failed.set()
            raise

    target = inheritable_thread_target(spark)
    with ThreadPoolExecutor(at_once or max(len(acts), 1)) as threads:
        futures: list[Future[None]] = [threads.submit(target(partial(run, act))) for act in acts]
        done, running = wait(futures, return_when=FIRST_EXCEPTION)
        if running:
            cancel()
    for future in done:
        future.result()


class Together:
    """Sessions for steps on one warehouse, which are kept. Steps may run further steps by the same object."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self._idle: dict[frozenset[tuple[str, str]], list[Warehouse]] = {}

    def run(
        self,
        tag: str,
        steps: Mapping[str, Step],
        settings: Mapping[str, Mapping[str, str]] | None = None,
        at_once: int | None = None,
    ) -> None:
        """Run the steps, by name, with the settings of some, all or `at_once` of them at the same time. The
        first error cancels the jobs of the others, by the tag, and is raised.
        """
        running: list[Warehouse] = []

        def act(name: str) -> None:
            with self._session((settings or {}).get(name, NO_SETTINGS)) as warehouse:
                running.append(warehouse)
                warehouse.spark.addTag(tag)
                try:
                    steps[name](warehouse)
                finally:
                    warehouse.spark.removeTag(tag)

        def cancel() -> None:
            for warehouse in running:
                warehouse.spark.interruptTag(tag)

        run_together(self.warehouse.spark, [partial(act, name) for name in steps], at_once, cancel)

    @contextmanager
    def _session(self, settings: Mapping[str, str]) -> Iterator[Warehouse]:
        """Lend a warehouse with a session of its own and these settings."""
        idle = self._idle.setdefault(frozenset(settings.items()), [])
        try:
            warehouse = idle.pop()
        except IndexError:
            warehouse = self.warehouse.beside(settings)
        try:
            yield warehouse
        finally:
            idle.append(warehouse)
