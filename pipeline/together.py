"""Runs steps at the same time, each in a session of its own. For `run` and `days`.

While the driver plans one step or commits it to a table, the tasks of others use the cores.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

from pyspark import inheritable_thread_target

from pipeline.tables import NO_SETTINGS, Warehouse

Step = Callable[[Warehouse], None]


class Together:
    """The sessions of the steps on one warehouse, which are kept: a step has the same one each time.

    For one thread at a time, but steps may run further steps by an object of their own.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self._beside: dict[tuple[str, bool], Warehouse] = {}

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
        names = {name: (settings or {}).get(name, NO_SETTINGS) for name in steps}
        warehouses = {name: self._session_of(name, each) for name, each in names.items()}

        def act(name: str) -> None:
            warehouse = warehouses[name]
            warehouse.spark.addTag(tag)
            try:
                steps[name](warehouse)
            finally:
                warehouse.spark.removeTag(tag)

        target = inheritable_thread_target(self.warehouse.spark)
        with ThreadPoolExecutor(at_once or max(len(steps), 1)) as threads:
            futures: list[Future[Any]] = [threads.submit(target(partial(act, name))) for name in steps]
            done, running = wait(futures, return_when=FIRST_EXCEPTION)
            if running:
                for future in running:
                    future.cancel()
                for warehouse in warehouses.values():
                    warehouse.spark.interruptTag(tag)
        for future in done:
            future.result()

    def _session_of(self, name: str, settings: Mapping[str, str]) -> Warehouse:
        key = name, bool(settings)
        if key not in self._beside:
            self._beside[key] = self.warehouse.beside(settings)
        return self._beside[key]
