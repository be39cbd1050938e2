"""One file calls Spark's JVM, for a reason that is checked again with each version of Spark."""

import re
from importlib.metadata import version
from pathlib import Path
from subprocess import Popen

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pyspark.sql import SparkSession

import pipeline
from pipeline.jvm import jvm_process

PRIVATE = re.compile(r"\._(?:jvm|jsc|jsparkSession|gateway|jdf|jc|jdt|sc)\b")


def test_private_names_of_spark_are_in_one_file():
    folder = Path(pipeline.__file__).parent
    assert [path.name for path in folder.rglob("*.py") if PRIVATE.search(path.read_text())] == ["jvm.py"]


def test_the_reason_was_checked_for_this_version():
    """With another version: does a session tell its process now? Then use that, and delete pipeline/jvm.py;
    else change the number here.
    """
    assert version("pyspark") == "4.2.0"
    assert [name for name in dir(SparkSession) if "proc" in name.lower() or "pid" in name.lower()] == []


def test_sparks_process_is_known(spark):
    process = jvm_process(spark)
    assert isinstance(process, Popen) and process.poll() is None
