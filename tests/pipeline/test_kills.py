"""A run that is killed with kill -9 and repeated gives the tables of an undisturbed run, from topics and
from files, in a folder and in an object store; so does a stream that has lost its checkpoint.

The killed runs are separate processes; all else uses the tests' session.
"""

import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from benchmarks.pipeline import OPEN_BROKER, broker
from pipeline import session, sources
from pipeline.loss import LOST
from pipeline.maintain import ALL
from pipeline.retention import Retention
from pipeline.run import Pipeline
from pipeline.schedule import Maintenance
from pipeline.streaming import CHECKPOINT, Stream
from pipeline.tables import Warehouse
from tests.pipeline.everything import Contents, contents, some_of_everything
from tests.pipeline.killing import Place, bucket, finished, folder, gaps, killed
from tests.support.object_store import object_store

EVENTS: Final = 800
EVERY_S: Final = 3
MOST: Final = 420
"""Records per batch of the killed runs, which have two batches; an undisturbed run has one."""

# This broker records no events of its own clients, or each run would read more than the last; and nothing
# expires, despite its age.
SILENT: Final = ("events.topics=", "log.retention.ms=-1")

KILLS: Final = 10


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """The topics' broker, and the tables of one run."""

    address: str
    root: Path
    tables: Contents
    commits: int


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    scratch = tmp_path_factory.mktemp("kills")
    with broker(scratch / "data", sys.executable, "-c", OPEN_BROKER, overrides=SILENT) as address:
        _send(address)
        root = scratch / "undisturbed"
        _finish(spark, address, root)
        yield Undisturbed(address, root, contents(root), folder(root).commits())


def _send(address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    for topic, partition, _, time_, value, headers in some_of_everything(EVENTS, EVERY_S):
        at_ms = round(time_.timestamp() * 1_000)
        producer.produce(topic, value, partition=partition, timestamp=at_ms, headers=headers)
    assert producer.flush(30) == 0


def _finish(spark: SparkSession, address: str, root: Path, most: int = 2 * MOST) -> None:
    """Run like `weir pipeline run --once`, within this process."""
    for _ in Stream(Warehouse(spark, str(root)), address, {}, most).once():
        pass


def _run(undisturbed: Undisturbed) -> tuple[object, ...]:
    return "run", "--once", "--bootstrap", undisturbed.address, "--most", MOST


@pytest.fixture(scope="module")
def exported(spark: SparkSession, undisturbed: Undisturbed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of files with the records of the topics."""
    path = tmp_path_factory.mktemp("exported") / "events"
    sources.everything(spark, undisturbed.address, {}).write.parquet(str(path))
    return path


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "folder":
        yield folder(tmp_path / "warehouse")
        return
    if not session.s3_jars():
        pytest.skip("the jars for S3 are not there: make jars-s3")
    with object_store() as store:
        yield bucket(store, "killed")


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, KILLS])
def test_a_run_that_is_killed_and_repeated_makes_the_tables_of_one_that_was_not(
    spark, undisturbed, tmp_path, kills
):
    after, run = gaps(undisturbed.commits, kills), _run(undisturbed)
    survived = [killed(folder(tmp_path), gap, *run) for gap in after]
    assert all(survived), f"a run ended before it was killed: {after}"
    _finish(spark, undisturbed.address, tmp_path, MOST)
    assert len(list((tmp_path / CHECKPOINT / "commits").glob("[0-9]*"))) == 2
    assert contents(tmp_path) == undisturbed.tables


@pytest.mark.slow
@pytest.mark.parametrize("place", ["store"], indirect=True)
def test_a_run_into_an_object_store_is_killed_and_repeated(undisturbed, place):
    after, run = gaps(undisturbed.commits, KILLS), _run(undisturbed)
    survived = [killed(place, gap, *run) for gap in after]
    assert all(survived), f"a run ended before it was killed: {after}"
    finished(place, *run)
    assert place.contents(undisturbed.tables) == undisturbed.tables


@pytest.mark.slow
@pytest.mark.parametrize("place", ["folder", "store"], indirect=True)
def test_a_backfill_is_killed_and_repeated(undisturbed, exported, place):
    # A backfill prints no line when Spark has started.
    after = gaps(undisturbed.commits, KILLS, first=1)
    survived = [killed(place, gap, "backfill", exported) for gap in after]
    assert all(survived), f"a backfill ended before it was killed: {after}"
    finished(place, "backfill", exported)
    assert place.contents(undisturbed.tables) == undisturbed.tables


@pytest.mark.slow
def test_maintenance_that_is_killed_and_repeated_loses_no_row_that_it_keeps(spark, undisturbed, tmp_path):
    root = tmp_path / "warehouse"
    shutil.copytree(undisturbed.root, root)
    keep = ("--keep-bronze", "7", "--keep-silver", "0", "--keep-gold", "0")
    # Removal, clustering and VACUUM make some seventy commits.
    survived = [
        killed(folder(root), gap, "maintain", *keep)
        for gap in (1, random.randint(2, 8), random.randint(2, 20))
    ]
    assert all(survived), "maintenance ended before it was killed"
    list(Maintenance(Warehouse(spark, str(root)), Retention(7, 0, 0)).due(timedelta(hours=1)))
    assert contents(root) == undisturbed.tables | {sources.EVENTS.path: []}


def test_every_table_is_compared(undisturbed):
    assert set(undisturbed.tables) == {table.path for table in ALL} - {LOST.path}
    assert all(undisturbed.tables.values())


def test_files_make_the_tables_that_topics_make(spark, undisturbed, tmp_path):
    exported = str(tmp_path / "files")
    sources.everything(spark, undisturbed.address, {}).write.parquet(exported)
    pipeline = Pipeline(Warehouse(spark, str(tmp_path / "warehouse")))
    pipeline.add(sources.files(spark, exported))
    pipeline.make_days()
    assert contents(tmp_path / "warehouse") == undisturbed.tables


def test_a_stream_that_has_lost_its_checkpoint_doubles_nothing(spark, undisturbed, tmp_path):
    root = tmp_path / "warehouse"
    shutil.copytree(undisturbed.root, root)
    shutil.rmtree(root / CHECKPOINT)
    _finish(spark, undisturbed.address, root)
    assert contents(root) == undisturbed.tables


def test_a_stream_takes_what_a_backfill_has_not_brought(spark, undisturbed, tmp_path):
    some = sources.everything(spark, undisturbed.address, {}).where("offset < 5")
    pipeline = Pipeline(Warehouse(spark, str(tmp_path)))
    pipeline.add(some)
    _finish(spark, undisturbed.address, tmp_path)
    assert contents(tmp_path) == undisturbed.tables
