"""Raw rows, kept so that they can be read again. For `run`."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import DateType, StructField, StructType

from pipeline.sources import RAW
from pipeline.tables import DATE, Table

EVENTS: Final = Table("bronze/events", ("topic", "partition", "offset"), (DATE, "topic"), "timestamp")
"""Partitioned by topic, because each kind of event is read separately."""

SCHEMA: Final = StructType([*RAW.fields, StructField(DATE, DateType())])


def dated(raw: DataFrame) -> DataFrame:
    """Return `raw` with the day on which the broker appended each record."""
    return raw.withColumn(DATE, F.to_date("timestamp"))
