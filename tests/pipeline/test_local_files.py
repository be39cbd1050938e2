"""Weir's classes for Hadoop's local files start no process, and do what Hadoop's own do."""

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline import session

CHECK = Path(__file__).parent / "local_files/LocalFilesCheck.java"


@pytest.fixture
def java():
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None or not session.own_jars():
        pytest.skip("there is no JDK 17, or no jar for local files: make jars")
    return java


@pytest.fixture
def hadoop():
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        pytest.skip("pyspark is not installed: make test-pipeline installs it")
    return Path(found.origin).parent / "jars"


def mode_of(path):
    return oct(path.stat().st_mode & 0o7777)


def test_files_get_their_modes_and_names_without_a_process(java, hadoop, tmp_path):
    classes = ":".join(map(str, (*session.own_jars(), f"{hadoop}/*")))
    # Nothing is on PATH, so chmod would be an error.
    done = subprocess.run(
        [java, "-cp", classes, CHECK, tmp_path],
        env={**os.environ, "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = ["refused", "version is a file", "absent is not there"]
    assert done.stdout.splitlines() == said
    assert mode_of(tmp_path / "made") == "0o750"
    assert mode_of(tmp_path / "written") == mode_of(tmp_path / "version") == "0o640"
    for mode in (0, 1, 0o400, 0o777):
        assert mode_of(tmp_path / f"mode-{mode:o}") == oct(mode)


def test_a_session_on_this_machine_uses_them(spark):
    if not session.own_jars():
        pytest.skip("there is no jar for local files: make jars")
    conf = spark.sparkContext.getConf()
    assert {key: conf.get(key) for key in session.LOCAL_FILES} == session.LOCAL_FILES
