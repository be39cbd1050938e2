"""The sources of events: the topics of a Kafka cluster, or files with their records.

Both give rows of one shape (`RAW`), so that later steps do not depend on the source. The table `EVENTS` keeps
them, so that they can be read again. A file is Parquet of
that shape, as `weir pipeline export` writes it, or JSON lines with `topic`, `partition`, `offset`,
`timestamp_ms` and the value as `value` (text) or `value_base64`.
"""

import json
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import PurePath
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pipeline.formats import TELEMETRY, VALUES, cluster_of, origin
from pipeline.tables import CLUSTER, DATE, Table
from pipeline.times import day_of

EVENT_TOPICS: Final = "|".join((*VALUES, TELEMETRY))
"""All known topics, including those that do not exist yet."""

NEW_TOPICS_WITHIN_MS: Final = 30_000

MAX_PER_TASK: Final = 250_000
"""Records that one core reads of one partition of a topic; most events are in one partition."""

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

RAW: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("value", BinaryType()),
        StructField("headers", HEADERS),
    ]
)

PLACE: Final = ("topic", "partition", "offset")

EVENTS: Final = Table("bronze/events", (CLUSTER, *PLACE), (DATE, "topic"), "timestamp", has_changes=True)
"""Partitioned by topic, because each kind of event is read separately."""

_LINE: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp_ms", LongType()),
        StructField("value", StringType()),
        StructField("value_base64", StringType()),
        StructField("headers", MapType(StringType(), StringType())),
        StructField("headers_base64", MapType(StringType(), StringType())),
    ]
)


def kafka_options(bootstrap: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the connector's options; `options` are Kafka client settings such as security.protocol."""
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribePattern": EVENT_TOPICS,
        # The event topics are internal; `session` has the other setting that makes them visible.
        "kafka.exclude.internal.topics": "false",
        # One client id for all of Spark's clients: the pipeline appears in its own tables.
        "kafka.client.id": "weir-pipeline",
        "kafka.metadata.max.age.ms": str(NEW_TOPICS_WITHIN_MS),
        # Spark asks for a partition's offsets after each poll, on the connection on which the next fetch
        # already waits for records that may not come. (Kafka: 500 ms, 500 records)
        "kafka.fetch.max.wait.ms": "5",
        "kafka.max.poll.records": "10000",
        "includeHeaders": "true",
        "maxRecordsPerPartition": str(MAX_PER_TASK),
        "startingOffsets": "earliest",
        # Retention may remove old events between runs; the rest must still be read.
        "failOnDataLoss": "false",
        **{f"kafka.{key}": value for key, value in options.items()},
    }


def stream(spark: SparkSession, bootstrap: str, options: Mapping[str, str], max_per_batch: int) -> DataFrame:
    """Return a streaming frame from the oldest event on, with at most `max_per_batch` rows a batch."""
    reader = spark.readStream.format("kafka").options(**kafka_options(bootstrap, options))
    return raw_of(reader.option("maxOffsetsPerTrigger", max_per_batch).load())


def everything(spark: SparkSession, bootstrap: str, options: Mapping[str, str]) -> DataFrame:
    """Return the present records of the topics."""
    return raw_of(spark.read.format("kafka").options(**kafka_options(bootstrap, options)).load())


def waiting(
    spark: SparkSession,
    bootstrap: str,
    options: Mapping[str, str],
    read: Mapping[tuple[str, int], int],
    most: int,
) -> int:
    """Return how many records the topics have from the next offsets to read on, at most `most`."""
    topics = sorted({topic for topic, _ in read})
    others = [topic for topic in EVENT_TOPICS.split("|") if topic not in topics]
    named = kafka_options(bootstrap, options)
    del named["subscribePattern"]
    frames = []
    if topics:
        starts = {
            name: {str(at): offset for (topic, at), offset in read.items() if topic == name}
            for name in topics
        }
        assigned = {name: [int(at) for at in starts[name]] for name in topics}
        places = {"assign": json.dumps(assigned), "startingOffsets": json.dumps(starts)}
        frames.append(spark.read.format("kafka").options(**named | places).load())
    if others:
        frames.append(
            spark.read.format("kafka").options(**named | {"subscribePattern": "|".join(others)}).load()
        )
    return int(reduce(DataFrame.unionByName, (each.select("offset") for each in frames)).limit(most).count())


def files(spark: SparkSession, path: str) -> DataFrame:
    """Return the records of files, each once; of a folder, those of all its files.

    JSON lines end in .json, .jsonl or .ndjson (.gz too), all else is Parquet. Raises pyspark's
    AnalysisException if there is no file.
    """
    name = PurePath(path).name.removesuffix(".gz")
    if name.endswith((".json", ".jsonl", ".ndjson")):
        return _each_once(_lines(spark, path))
    return _each_once(raw_of(spark.read.schema(RAW).option("pathGlobFilter", "*.parquet").parquet(path)))


def _each_once(raw: DataFrame) -> DataFrame:
    """Remove duplicate records, as of overlapping exports.

    The check for duplicates costs a tenth of the shuffle that removes them.
    """
    place = [CLUSTER, *PLACE]
    placed = raw.withColumn(CLUSTER, cluster_of())
    is_twice = placed.groupBy(*place).count().where(F.col("count") > 1)
    return raw if is_twice.isEmpty() else placed.dropDuplicates(place).drop(CLUSTER)


def _lines(spark: SparkSession, path: str) -> DataFrame:
    read = spark.read.schema(_LINE).json(path)
    value = F.coalesce(F.unbase64("value_base64"), F.encode("value", "UTF-8"))
    return raw_of(
        read.select(
            "topic",
            "partition",
            "offset",
            F.timestamp_millis("timestamp_ms").alias("timestamp"),
            value.alias("value"),
            F.concat(
                _headers("headers", lambda text: F.encode(text, "UTF-8")),
                _headers("headers_base64", F.unbase64),
            ).alias("headers"),
        )
    )


def _headers(name: str, read: Callable[[Column], Column]) -> Column:
    entries = F.map_entries(F.coalesce(F.col(name), F.create_map().cast(MapType(StringType(), StringType()))))
    return F.transform(
        entries, lambda each: F.struct(each["key"].alias("key"), read(each["value"]).alias("value"))
    )


def raw_of(frame: DataFrame) -> DataFrame:
    """Return the columns of `RAW` in its types, without others."""
    return frame.select(*(F.col(field.name).cast(field.dataType) for field in RAW.fields))


def dated(raw: DataFrame) -> DataFrame:
    """Return `raw` with where each record comes from, and the day on which the broker appended it."""
    return raw.select("*", *origin()).withColumn(DATE, day_of("timestamp"))
