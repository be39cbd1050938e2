"""Rows as they came, kept for as long as anybody may want to read them again. For `run`."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import DateType, StructField, StructType

from pipeline.sources import RAW
from pipeline.tables import DATE, Table

EVENTS: Final = Table("bronze/events", ("topic", "partition", "offset"), (DATE, "topic"), "timestamp")
"""Those of a topic lie together: each kind is read again by itself."""

SCHEMA: Final = StructType([*RAW.fields, StructField(DATE, DateType())])


def dated(raw: DataFrame) -> DataFrame:
    """`raw` with the day on which the broker took each record."""
    return raw.withColumn(DATE, F.to_date("timestamp"))
