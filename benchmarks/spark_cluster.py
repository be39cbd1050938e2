"""Spark's own cluster on this machine: a master and workers of one core each, all on loopback.

For benchmarks.pipeline_cluster and the pipeline's tests. Comes with the package pyspark.
"""

import contextlib
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED: Final = re.compile(r"Successfully registered with master (spark://\S+)")
WORKER_MEMORY: Final = "1g"
EXECUTOR_MEMORY: Final = "700m"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The master's URL, the environment of a driver, and the folder of each worker, which has one of each
    executor.
    """

    master: str
    workers: tuple[Path, ...]

    @property
    def settings(self) -> tuple[str, ...]:
        """Settings of an application that takes every worker."""
        return (f"spark.executor.memory={EXECUTOR_MEMORY}", f"spark.driver.host={LOOPBACK}")

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"SPARK_LOCAL_IP": LOOPBACK}


@contextlib.contextmanager
def spark_cluster(scratch: Path, workers: int, *, are_pinned: bool = False) -> Iterator[Cluster]:
    """Run a cluster until the block ends; ready once all workers are registered.

    A worker of one core runs one task at a time; `are_pinned` lets its compiler and its collector have no
    other core either.
    """
    with contextlib.ExitStack() as running:
        where = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0")
        master = running.enter_context(_daemon("master.Master", MASTER, where, scratch))
        folders = tuple(scratch / f"worker-{number}" for number in range(workers))
        for number, folder in enumerate(folders):
            folder.mkdir(parents=True)
            size = ("--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", str(folder))
            core = number if are_pinned else None
            running.enter_context(
                _daemon("worker.Worker", REGISTERED, (*where, *size, master), scratch, core)
            )
        yield Cluster(master, folders)


@contextlib.contextmanager
def _daemon(
    name: str, ready: re.Pattern[str], arguments: tuple[str, ...], scratch: Path, core: int | None = None
) -> Iterator[str]:
    """Run a daemon of Spark, on one core if it is given; yield the master's URL once it has logged that it
    is ready.
    """
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "pyspark is not installed"
    home = Path(spec.origin).parent
    pinned = () if core is None else ("taskset", "--cpu-list", str(core))
    process = subprocess.Popen(
        [*pinned, home / "bin/spark-class", f"org.apache.spark.deploy.{name}", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=scratch,
        env=os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": LOOPBACK, "SPARK_DAEMON_MEMORY": "256m"},
    )
    try:
        assert process.stderr is not None
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if found := ready.search(line):
                break
        else:
            raise RuntimeError(f"{name} ended: {''.join(lines)}")
        # A full pipe would stop the daemon.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield found[1]
    finally:
        process.terminate()
        process.wait(30)
