"""The process of Spark's JVM: the one thing for which PySpark has no public way. All else uses public APIs.

`jvm_process` is the process to end at SIGINT, which would otherwise outlive this one.
tests/pipeline/test_jvm.py fails when Spark has another version than the one for which this was checked.
"""

from subprocess import Popen
from typing import Any

from pyspark.sql import SparkSession


def jvm_process(spark: SparkSession) -> "Popen[bytes] | None":
    """Return Spark's process; None if another process started it."""
    context: Any = spark.sparkContext
    process: Popen[bytes] | None = getattr(context._gateway, "proc", None)
    return process
