"""One file calls Spark's JVM, for reasons that are checked again with each version of Spark and Delta."""

import re
from importlib.metadata import version
from pathlib import Path
from subprocess import Popen

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

import pipeline
from pipeline.jvm import HadoopFiles, jvm_process, newest_version

PRIVATE = re.compile(r"\._(?:jvm|jsc|jsparkSession|gateway|jdf|jc|jdt|sc)\b")


def test_private_names_of_spark_are_in_one_file():
    folder = Path(pipeline.__file__).parent
    assert [path.name for path in folder.rglob("*.py") if PRIVATE.search(path.read_text())] == ["jvm.py"]


def test_the_reasons_were_checked_for_these_versions():
    """With another version: has PySpark files now that can be renamed, listed and
    deleted, or DeltaTable its version?
    Then use that, and delete the call in pipeline/jvm.py; else change the number here.
    """
    assert (version("pyspark"), version("delta-spark")) == ("4.1.1", "4.1.0")
    # The first is for Spark Connect only, and copies.
    files = [name for name in dir(SparkSession) if "file" in name.lower() or "fs" in name.lower()]
    assert files == ["copyFromLocalToFs", "profile"]
    versions = [name for name in dir(DeltaTable) if "version" in name.lower()]
    assert versions == ["cloneAtVersion", "restoreToVersion"]


def test_files_are_made_listed_renamed_read_and_deleted(spark, tmp_path):
    files = HadoopFiles(spark, str(tmp_path))
    assert files.names("notes") == [] and not files.exists("notes")
    assert files.read_text("notes/b") is None
    for name in ("notes/b", "notes/a"):
        files.create(name)
    assert files.names("notes") == ["a", "b"] and files.read_text("notes/b") == ""
    (tmp_path / "text").write_text("äöü\n", encoding="utf-8")
    assert files.read_text("text") == "äöü\n"
    files.rename("notes", "others")
    files.delete("others/a")
    files.delete("others/none")
    assert files.names("others") == ["b"]


def test_the_newest_version_is_that_of_the_history(spark, tmp_path):
    path = str(tmp_path / "table")
    assert newest_version(spark, path) == -1
    for number in range(2):
        spark.range(1).write.format("delta").mode("append").save(path)
        assert newest_version(spark, path) == number
        assert DeltaTable.forPath(spark, path).history(1).first()["version"] == number


def test_sparks_process_is_known(spark):
    process = jvm_process(spark)
    assert isinstance(process, Popen) and process.poll() is None
