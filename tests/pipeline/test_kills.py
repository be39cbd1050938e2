"""`weir pipeline` as a process that is killed: at any point, and however often, the tables are those of a run
that nobody disturbed. The same events come from the topics of a broker, and from files.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from benchmarks.pipeline import OPEN_BROKER, WEIR, broker, fill
from benchmarks.pipeline_day import write_day
from pipeline import session
from tests.pipeline.conftest import SETTINGS
from tests.pipeline.contents import assert_equal, contents

CLIENTS, EVENTS, BATCH = 12, 1_500, 400
SEED = 17

pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java 17"),
    pytest.mark.skipif(not session.jars(), reason="the jars are not there: make jars"),
]


class Cluster:
    """A broker with a day's events, the files that they are from, and what an undisturbed run makes of it."""

    def __init__(self, folder, address):
        self.folder = folder
        self.address = address
        began = time.monotonic()
        self.tables = self.tables_of("undisturbed", "run", "--once", *self.source)
        self.seconds = time.monotonic() - began

    @property
    def source(self):
        return ("--bootstrap", self.address, "--most", str(BATCH))

    def started(self, name, *arguments):
        where = ("--warehouse", str(self.folder / name), "--master", "local[2]")
        settings = [f"--spark={key}={value}" for key, value in SETTINGS.items()]
        return subprocess.Popen(
            [WEIR, "pipeline", *arguments, *where, *settings], stdout=subprocess.PIPE, start_new_session=True
        )

    def tables_of(self, name, *arguments):
        """Of a warehouse, after a run to its end."""
        process = self.started(name, *arguments)
        said, _ = process.communicate()
        assert process.returncode == 0, said
        return contents(self.folder / name)

    def kill(self, name, dice, *arguments, latest=1.1):
        """Python and its JVM together, at a moment from the start to `latest` of the time that a run takes.
        Returns whether there still was anybody to kill.
        """
        process = self.started(name, *arguments, *self.source)
        time.sleep(dice.uniform(0.2, latest) * self.seconds)
        was_running = process.poll() is None
        if was_running:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return was_running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills")
    write_day(folder / "files", CLIENTS, EVENTS)
    with broker(folder / "broker", sys.executable, "-c", OPEN_BROKER) as address:
        assert fill(address, folder / "files") > EVENTS
        yield Cluster(folder, address)


def test_after_kills_and_without_its_checkpoint_the_tables_are_those_of_an_undisturbed_run(cluster):
    dice = random.Random(SEED)
    for mode in ("--once", "--continuous"):
        assert cluster.kill("killed", dice, "run", mode, latest=0.7)
    assert_equal(cluster.tables_of("killed", "run", "--once", *cluster.source), cluster.tables)
    shutil.rmtree(cluster.folder / "killed/_checkpoint")
    assert_equal(cluster.tables_of("killed", "run", "--once", *cluster.source), cluster.tables)


def test_files_give_the_tables_that_the_topics_give(cluster):
    assert {"gold/quota_advice", "gold/quota_utilisation_per_minute"} <= cluster.tables.keys()
    assert_equal(cluster.tables_of("from-files", "backfill", str(cluster.folder / "files")), cluster.tables)


@pytest.mark.slow
def test_after_ten_kills_the_tables_are_those_of_an_undisturbed_run(cluster):
    dice = random.Random(SEED + 1)
    kills = 0
    while kills < 10:
        kills += cluster.kill("ten", dice, "run", dice.choice(("--once", "--continuous")))
        if kills == 5:
            # What follows is read from the beginning once more.
            shutil.rmtree(cluster.folder / "ten/_checkpoint", ignore_errors=True)
    assert_equal(cluster.tables_of("ten", "run", "--once", *cluster.source), cluster.tables)
