"""The calls into Spark's JVM for which PySpark has no public way. All others use public APIs.

* `HadoopFiles`: a warehouse may be on any file system whose jars Spark has, reached with the session's
  settings. PySpark reads and writes frames there, but cannot rename, list or delete a file, and reads one
  only in a job, which takes 200 ms instead of 6 for a version of Delta's log.
* `newest_version`: the public `DeltaTable.history` runs a job too, 160 ms instead of 16, after each of the
  dozen appends of a batch. The package deltalake needs 5 ms, but has other URLs and other credentials than
  Hadoop's file systems.
* `jvm_process`: the process to end at SIGINT, which would otherwise outlive this one.

tests/pipeline/test_jvm.py fails when Spark or Delta has another version than the one for which these reasons
were checked.
"""

from subprocess import Popen
from typing import Any

from pyspark.sql import SparkSession


class HadoopFiles:
    """Files under `root`, a path or a URL; paths are relative to it."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._context: Any = spark.sparkContext
        self._root = root

    def exists(self, path: str) -> bool:
        files, hadoop_path = self._find(path)
        return bool(files.exists(hadoop_path))

    def names(self, folder: str) -> list[str]:
        """Return the sorted names of the files in a folder; none if there is no folder."""
        files, hadoop_path = self._find(folder)
        found = files.listStatus(hadoop_path) if files.exists(hadoop_path) else ()
        return sorted(str(each.getPath().getName()) for each in found)

    def create(self, path: str) -> None:
        """Create an empty file, or empty it."""
        files, hadoop_path = self._find(path)
        files.create(hadoop_path, True).close()

    def rename(self, old_path: str, new_path: str) -> None:
        files, old = self._find(old_path)
        files.rename(old, self._find(new_path)[1])

    def delete(self, path: str) -> None:
        """Delete a file; nothing happens if there is none."""
        files, hadoop_path = self._find(path)
        files.delete(hadoop_path, False)

    def read_text(self, path: str) -> str | None:
        """Return the content of a file, None if there is none."""
        files, hadoop_path = self._find(path)
        if not files.exists(hadoop_path):
            return None
        stream = files.open(hadoop_path)
        try:
            return str(self._context._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _find(self, path: str) -> tuple[Any, Any]:
        """Return the file system and its path object."""
        hadoop_path = self._context._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{path}")
        return hadoop_path.getFileSystem(self._context._jsc.hadoopConfiguration()), hadoop_path


def newest_version(spark: SparkSession, path: str) -> int:
    """Return the newest version of the Delta table at `path`; -1 if it was never written."""
    session: Any = spark
    jvm = session.sparkContext._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path)
    nothing = jvm.scala.Option.empty()
    return int(log.update(False, nothing, nothing).version())


def jvm_process(spark: SparkSession) -> "Popen[bytes] | None":
    """Return Spark's process; None if another process started it."""
    context: Any = spark.sparkContext
    process: Popen[bytes] | None = getattr(context._gateway, "proc", None)
    return process
