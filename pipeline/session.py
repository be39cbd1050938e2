"""A Spark session with Delta Lake and the Kafka connector. For `command` and the tests.

pom.xml names the jars. The session takes them from the disk if `make jars` or the image has installed them;
otherwise Spark downloads them itself (spark.jars.packages).
"""

import os
import sys
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from pyspark.sql import SparkSession

HERE: Final = Path(__file__).parent
POM: Final = HERE / "pom.xml"
JARS_VARIABLE: Final = "WEIR_PIPELINE_JARS"
NAMESPACE: Final = {"": "http://maven.apache.org/POM/4.0.0"}

LOG_LEVEL: Final = "spark.log.level"

SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # A table's log is small here; Delta's default of 50 partitions costs more than all else.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.schema.autoMerge.enabled": "true",
    # A batch has some 300 plans; Spark's cache of 100 compiled plans would keep none for the next batch.
    "spark.sql.codegen.cache.maxEntries": "5000",
    # The connector's newer way to read offsets skips internal topics, which the event topics are.
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    # Memory of a file's writer before it writes. (Parquet: 128 MiB)
    "spark.hadoop.parquet.block.size": str(32 << 20),
    # A batch has few days and topics: keeping their files open is cheaper than sorting its rows.
    "spark.sql.maxConcurrentOutputFileWriters": "4",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A push may be a megabyte; this bounds what Python receives at once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16777216",
    # Tables contain usage per client: files 0640, folders 0750. Hadoop sets modes itself and ignores the
    # umask.
    "spark.hadoop.fs.permissions.umask-mode": "027",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def coordinates() -> list[str]:
    """Return the jars' Maven coordinates, group:artifact:version."""
    pom = ElementTree.parse(POM)  # noqa: S314 - our own file
    return [
        ":".join(each.findtext(part, "", NAMESPACE) for part in ("groupId", "artifactId", "version"))
        for each in pom.iterfind("dependencies/dependency", NAMESPACE)
    ]


def jars() -> list[Path]:
    """Return the jars on the disk: all of them or none."""
    folder = Path(os.environ.get(JARS_VARIABLE) or HERE / "jars")
    found = [folder / f"{name}-{version}.jar" for _, name, version in (c.split(":") for c in coordinates())]
    return found if all(each.exists() for each in found) else []


def open_session(master: str, *, memory: str = "1g", settings: dict[str, str] | None = None) -> SparkSession:
    """Open a session in UTC with Spark's log off.

    `settings` override ours; `master` local[*] uses two shuffle partitions a core.
    """
    # Executors must use this interpreter, whatever python3 is on the machine.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("weir-pipeline")
    config = dict(SETTINGS)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        config["spark.driver.memory"] = memory
        # With a heap this small G1 costs a third of an event's time.
        config["spark.driver.extraJavaOptions"] = "-XX:+UseParallelGC"
        config["spark.sql.shuffle.partitions"] = str(2 * _cores(master))
        # Frames of a batch are small after their first stage, and this runs a job for each stage.
        config["spark.sql.adaptive.enabled"] = "false"
        # VACUUM lists its files in as many tasks; Spark's default of 10,000 takes minutes on one machine.
        config["spark.sql.sources.parallelPartitionDiscovery.parallelism"] = str(2 * _cores(master))
    on_disk = jars()
    if on_disk:
        config["spark.jars"] = ",".join(map(str, on_disk))
    else:
        config["spark.jars.packages"] = ",".join(coordinates())
    for key, value in (config | (settings or {})).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if LOG_LEVEL not in (settings or {}):
        # The caller reports errors in one sentence; a task's stack trace adds nothing.
        session.sparkContext.setLogLevel("OFF")
    return session


def _cores(master: str) -> int:
    inside = master.partition("[")[2].partition("]")[0].partition(",")[0]
    return int(inside) if inside.isdigit() else os.cpu_count() or 1
