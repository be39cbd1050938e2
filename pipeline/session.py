"""A Spark session with Delta Lake and the Kafka connector. For `command` and the tests.

The jars are named once, in pom.xml. Where `make jars` or the image has put them on the disk they are taken
from there; else Spark fetches them itself (spark.jars.packages).
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
    # A table's log is small here; Delta's 50 partitions for it cost more than all else.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.schema.autoMerge.enabled": "true",
    # A batch has some 300 plans; of the 100 that Spark keeps compiled none would be there for the next batch.
    "spark.sql.codegen.cache.maxEntries": "5000",
    # The connector's newer way to ask for offsets passes over internal topics, which the event topics are.
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    # What a file's writer keeps in memory before it writes. (Parquet: 128 MiB)
    "spark.hadoop.parquet.block.size": str(32 << 20),
    # A batch is of few days and topics: to keep their files open is cheaper than to sort its rows.
    "spark.sql.maxConcurrentOutputFileWriters": "4",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A push may be a megabyte; Python is handed as many as it can hold.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16777216",
    # Tables tell who did how much: files 0640, folders 0750. Hadoop sets modes itself, whatever the umask is.
    "spark.hadoop.fs.permissions.umask-mode": "027",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def coordinates() -> list[str]:
    """The jars as Maven names them, group:artifact:version."""
    pom = ElementTree.parse(POM)  # noqa: S314 - our own file
    return [
        ":".join(each.findtext(part, "", NAMESPACE) for part in ("groupId", "artifactId", "version"))
        for each in pom.iterfind("dependencies/dependency", NAMESPACE)
    ]


def jars() -> list[Path]:
    """Those that are on the disk: all of them or none."""
    folder = Path(os.environ.get(JARS_VARIABLE) or HERE / "jars")
    found = [folder / f"{name}-{version}.jar" for _, name, version in (c.split(":") for c in coordinates())]
    return found if all(each.exists() for each in found) else []


def open_session(master: str, *, memory: str = "1g", settings: dict[str, str] | None = None) -> SparkSession:
    """Quiet, in UTC. `settings` win over ours; `master` local[*] takes two shuffle partitions a core."""
    # Executors are to run what this runs, whatever else is called python3 on the machine.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("weir-pipeline")
    wanted = dict(SETTINGS)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        wanted["spark.driver.memory"] = memory
        # Of a heap this small G1 makes more work than it spares: a third of what an event costs.
        wanted["spark.driver.extraJavaOptions"] = "-XX:+UseParallelGC"
        wanted["spark.sql.shuffle.partitions"] = str(2 * _cores(master))
        # VACUUM lists its files in as many tasks; Spark's own 10,000 take minutes on one machine.
        wanted["spark.sql.sources.parallelPartitionDiscovery.parallelism"] = str(2 * _cores(master))
    on_disk = jars()
    if on_disk:
        wanted["spark.jars"] = ",".join(map(str, on_disk))
    else:
        wanted["spark.jars.packages"] = ",".join(coordinates())
    for key, value in (wanted | (settings or {})).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if LOG_LEVEL not in (settings or {}):
        # What is wrong is said in a sentence by whoever asked; a task's stack says no more.
        session.sparkContext.setLogLevel("OFF")
    return session


def _cores(master: str) -> int:
    inside = master.partition("[")[2].partition("]")[0].partition(",")[0]
    return int(inside) if inside.isdigit() else os.cpu_count() or 1
