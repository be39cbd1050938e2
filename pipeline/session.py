"""A Spark session with Delta Lake and the Kafka connector. For `command` and the tests.

pom.xml names the jars. The session takes them from the disk if `make jars` or the image has installed them;
otherwise Spark downloads them itself (spark.jars.packages). Those for S3, which `make jars-s3` installs, are
in the folder `s3` beside them and only loaded for a warehouse on S3. The one in the folder `weir` has Weir's
own classes, by which Hadoop writes local files without a process for each.

Settings of a cluster's size (executors, their cores and memory) are the user's; see docs/pipeline.md.
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

S3_JARS: Final = "s3"
S3_SCHEME: Final = "s3a://"

OWN_JARS: Final = "weir"
CLASS_PATH: Final = "spark.driver.extraClassPath"

LOG_LEVEL: Final = "spark.log.level"

SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.databricks.delta.schema.autoMerge.enabled": "true",
    # A small batch commits to a dozen tables; a checkpoint costs as much as such a commit, and all tables
    # write it in the same batch. (Delta: 10)
    "spark.databricks.delta.properties.defaults.checkpointInterval": "30",
    # Delta would read each table's files to write them into a file that it does not read itself.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    # A batch has some 300 plans; Spark's cache of 100 compiled plans would keep none for the next batch.
    "spark.sql.codegen.cache.maxEntries": "5000",
    # The connector's newer way to read offsets skips internal topics, which the event topics are.
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    # Each task of the connector leaves up to 10,000 records, which the next batch does not read: 300 MB that
    # live for minutes and are collected again and again. (Spark: 5m, 1m)
    "spark.kafka.consumer.fetchedData.cache.timeout": "1s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "5s",
    # Gold's rows take about twenty times the size of its files in memory, and Spark broadcasts a table whose
    # files seem small.
    "spark.sql.sources.fileCompressionFactor": "20",
    # A batch has few days and topics: keeping their files open is cheaper than sorting its rows.
    "spark.sql.maxConcurrentOutputFileWriters": "4",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Groups of a task in one map, before it sorts all of its rows instead: the minutes of a batch by API.
    # (Spark: 128)
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "2000",
    # A push may be a megabyte; this bounds what Python receives at once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16777216",
    # Tables contain usage per client: files 0640, folders 0750. Hadoop sets modes itself and ignores the
    # umask.
    "spark.hadoop.fs.permissions.umask-mode": "027",
    "spark.ui.enabled": "false",
    # The description of each plan, which only the pages show that are off.
    "spark.sql.ui.explainMode": "simple",
    "spark.ui.showConsoleProgress": "false",
    # Jobs of the stream and of its maintenance share the cores; first come, first served would let one wait
    # for all tasks of the other.
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": (HERE / "fair_scheduler.xml").as_uri(),
}

ONE_MACHINE: Final = {
    # A table's log is small here; Delta's default of 50 partitions costs more than all else.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Memory of a file's writer before it writes. (Parquet: 128 MiB)
    "spark.hadoop.parquet.block.size": str(32 << 20),
    # What compaction makes, and what it leaves alone: files that a query for one client can leave out, and
    # that are not written again each hour. (Delta: 1 GiB both)
    "spark.databricks.delta.optimize.maxFileSize": str(128 << 20),
    "spark.databricks.delta.optimize.minFileSize": str(64 << 20),
    # Frames of a batch are small after their first stage, and this runs a job for each stage.
    "spark.sql.adaptive.enabled": "false",
    # With a heap this small G1 costs a third of an event's time. Classes take some 220 MB; by its default
    # Java collects the whole heap five times until so many are loaded.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:MetaspaceSize=256m",
}
"""Settings for `local` masters. A cluster has Spark's and Delta's own."""

CLUSTER: Final = {
    # The tasks of many executors write many files: those of a partition are put together after the write
    # that makes the fiftieth, instead of once an hour.
    "spark.databricks.delta.autoCompact.enabled": "true",
}

S3_SETTINGS: Final = {
    # An object is put whole; S3A's defaults would try a closed port for minutes. (Hadoop: 5 and 7)
    "spark.hadoop.fs.s3a.attempts.maximum": "3",
    "spark.hadoop.fs.s3a.retry.limit": "4",
    # Hadoop's own default reads ahead by a library of which `make jars-s3` installs only what S3A loads.
    # (Hadoop: analytics)
    "spark.hadoop.fs.s3a.input.stream.type": "classic",
}
"""Credentials and a region come from AWS_* or from the user's settings."""

LOCAL_FILES: Final = {
    "spark.hadoop.fs.file.impl": "weir.LocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "weir.LocalFs",
}
"""Without Hadoop's native library its own classes start chmod and readlink, twelve times a commit."""

CONDITIONAL_LOG_STORE: Final = {"spark.delta.logStore.s3a.impl": "weir.ConditionalLogStore"}
"""Lets several processes write one table: ConditionalLogStore.java."""


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


def s3_jars() -> list[Path]:
    """Return the jars for S3 on the disk; none if `make jars-s3` has not installed them."""
    folder = Path(os.environ.get(JARS_VARIABLE) or HERE / "jars")
    return sorted((folder / S3_JARS).glob("*.jar"))


def own_jars() -> list[Path]:
    """Return the jar with Weir's classes on the disk; none if `make jars` found no JDK."""
    folder = Path(os.environ.get(JARS_VARIABLE) or HERE / "jars")
    return sorted((folder / OWN_JARS).glob("*.jar"))


def open_session(
    master: str, *, memory: str = "1g", settings: dict[str, str] | None = None, uses_s3: bool = False
) -> SparkSession:
    """Open a session in UTC with Spark's log off.

    `settings` override ours; `memory` is the driver's; `master` local[*] uses two shuffle partitions a core.
    `uses_s3` loads the jars for URLs that begin with s3a://; a platform that has its own needs none.
    """
    # Executors must use this interpreter, whatever python3 is on the machine.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("weir-pipeline")
    for key, value in configuration(master, memory, settings or {}, uses_s3=uses_s3).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if LOG_LEVEL not in (settings or {}):
        # The caller reports errors in one sentence; a task's stack trace adds nothing.
        session.sparkContext.setLogLevel("OFF")
    return session


def is_local(master: str) -> bool:
    """Return whether Spark runs in one process on this machine."""
    return master.startswith("local") and not master.startswith("local-cluster")


def runs_locally(spark: SparkSession) -> bool:
    """Return the same of a session."""
    return is_local(spark.conf.get("spark.master") or "")


def configuration(
    master: str, memory: str, settings: dict[str, str], *, uses_s3: bool = False
) -> dict[str, str]:
    """Return the settings of a session, as `open_session` takes them."""
    config = SETTINGS | {"spark.driver.memory": memory}
    if is_local(master):
        # VACUUM lists its files in as many tasks as the second says; Spark's 10,000 take minutes on one
        # machine.
        parallelism = (
            "spark.sql.shuffle.partitions",
            "spark.sql.sources.parallelPartitionDiscovery.parallelism",
        )
        config |= ONE_MACHINE | dict.fromkeys(parallelism, str(2 * _cores(master)))
        if (classes := own_jars()) and CLASS_PATH not in settings:
            # Not in spark.jars, which Spark opens as files itself.
            config |= LOCAL_FILES | {CLASS_PATH: ":".join(map(str, classes))}
    else:
        config |= CLUSTER
    if uses_s3:
        config |= s3_settings()
    shipped = jars()
    if not shipped:
        config["spark.jars.packages"] = ",".join(coordinates())
    elif uses_s3:
        shipped += s3_jars()
    if CLASS_PATH not in config:
        shipped += own_jars()
    if shipped:
        config["spark.jars"] = ",".join(map(str, shipped))
    return config | settings


def s3_settings() -> dict[str, str]:
    """Return the settings for S3. Spark itself reads the credentials and AWS_ENDPOINT_URL."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return (
        S3_SETTINGS
        | (CONDITIONAL_LOG_STORE if s3_jars() else {})
        | ({"spark.hadoop.fs.s3a.endpoint.region": region} if region else {})
        # Other services than Amazon's have no host name for each bucket.
        | ({"spark.hadoop.fs.s3a.path.style.access": "true"} if "AWS_ENDPOINT_URL" in os.environ else {})
    )


def _cores(master: str) -> int:
    inside = master.partition("[")[2].partition("]")[0].partition(",")[0]
    return int(inside) if inside.isdigit() else os.cpu_count() or 1
