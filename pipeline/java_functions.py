"""Calls functions of Weir's Java classes, where the session has them. For `silver` and `gold`.

Spark finds them by name in a catalog of functions, java/Functions.java. Each saves processor time and gives
what the expression of Spark's own functions beside its call gives; docs/benchmarks.md has what they save.
"""

from typing import Final
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.histograms import EVENT

CATALOG: Final = "weir"
CLASS: Final = "weir.Functions"

_knows: Final = WeakKeyDictionary[SparkSession, bool]()


def are_known(spark: SparkSession) -> bool:
    """Return whether the session has the classes; it finds their functions by name then."""
    if spark not in _knows:
        spark.conf.set(f"spark.sql.catalog.{CATALOG}", CLASS)
        spark.conf.set(f"spark.sql.catalog.{CATALOG}.requests", EVENT.json())
        try:
            _ = spark.range(0).select(_call("request_event", F.lit(b""))).schema
        except (PySparkException, Py4JError):  # `make jars` found no JDK, or a platform has its own jars.
            spark.conf.unset(f"spark.sql.catalog.{CATALOG}")
            _knows[spark] = False
        else:
            _knows[spark] = True
    return _knows[spark]


def request_event(value: Column) -> Column:
    """Return `histograms.EVENT` of a value's bytes; null if they are not in the form that a broker writes."""
    return _call("request_event", value)


def sum_of_values(counts: Column) -> Column:
    """Return the sum of a map's values; null for no map, a null among them, or a sum beyond 64 bits."""
    return _call("sum_of_values", counts)


def merged_histograms(histograms: Column) -> Column:
    """Aggregate arrays of histograms, which are maps from the edges of buckets to their counts.

    The result is an array of structs: `at`, the place of a histogram in its array from 0, an edge `us`, and
    its `count` in all of them. A sum beyond 64 bits is null.
    """
    return _call("merged_histograms", histograms)


def _call(name: str, value: Column) -> Column:
    return F.call_function(f"{CATALOG}.{name}", value)
