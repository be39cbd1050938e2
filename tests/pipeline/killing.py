"""Processes of `weir pipeline`, killed with kill -9 at random points, and the warehouses that they write."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from deltalake import DeltaTable

from benchmarks.pipeline import WEIR
from tests.pipeline.conftest import JAVA_OPTIONS
from tests.pipeline.everything import Contents, contents, rows_of_table
from tests.support.object_store import ObjectStore
from webui.insights.location import of_table, storage_options

COMMITS_WITHIN_S: Final = 900.0
ENDED_WITHIN_S: Final = 900.0
BETWEEN_COMMITS_S: Final = 0.5
LOOK_EVERY_S: Final = 0.05

SPARK: Final = (
    "spark.sql.shuffle.partitions=1",
    "spark.databricks.delta.snapshotPartitions=1",
    f"spark.driver.extraJavaOptions={JAVA_OPTIONS}",
)


@dataclass(frozen=True, slots=True)
class Place:
    """A warehouse: its location, the number of commits to its tables so far, and how their rows are read."""

    warehouse: str
    commits: Callable[[], int]
    contents: Callable[[Iterable[str]], Contents]
    """Called with the names of the tables."""

    environment: Mapping[str, str] = field(default_factory=dict)


def folder(root: Path) -> Place:
    return Place(
        str(root),
        lambda: sum(1 for _ in root.glob("*/*/_delta_log/*.json")),
        lambda _: contents(root),
    )


def bucket(store: ObjectStore, name: str) -> Place:
    """Return a place in the store. Commits to other places of the store count too: write one at a time."""
    warehouse = store.warehouse(name)
    options = store.environment | (storage_options(warehouse, store.environment) or {})
    return Place(
        warehouse,
        store.commits,
        lambda names: {
            each: rows_of_table(DeltaTable(of_table(warehouse, each), storage_options=options))
            for each in names
        },
        store.environment,
    )


def gaps(commits: int, kills: int, first: int = 0) -> list[int]:
    """Return how many commits each of the killed runs may make: random points of this many commits, from the
    `first` on.
    """
    points = sorted(random.sample(range(first, commits), kills))
    return [later - earlier for earlier, later in pairwise([0, *points])]


def killed(place: Place, commits: int, *arguments: object) -> bool:
    """Start a command, and kill it some time after this number of commits, or after Spark's start for none;
    return False if it ended first.
    """
    enough = place.commits() + commits
    with _started(place, *arguments) as process:
        try:
            assert process.stdout is not None
            if not commits:
                next((line for line in process.stdout if line.startswith(b"From ")), None)
            _wait(lambda: process.poll() is not None or place.commits() >= enough)
            time.sleep(random.uniform(0, BETWEEN_COMMITS_S))
            is_running = process.poll() is None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return is_running


def finished(place: Place, *arguments: object) -> None:
    """Run a command to its end, which must be a good one."""
    with _started(place, *arguments) as process:
        output, _ = process.communicate(timeout=ENDED_WITHIN_S)
        assert process.returncode == 0, output.decode()


def _started(place: Place, *arguments: object) -> "subprocess.Popen[bytes]":
    command = [WEIR, "pipeline", *map(str, arguments), "--warehouse", place.warehouse]
    command += ["--master", "local[2]", *(f"--spark={each}" for each in SPARK)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, start_new_session=True, env=os.environ | place.environment
    )


def _wait(is_there: Callable[[], bool]) -> None:
    until = time.monotonic() + COMMITS_WITHIN_S
    while not is_there():
        assert time.monotonic() < until, "the run does not come on"
        time.sleep(LOOK_EVERY_S)
