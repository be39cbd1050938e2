"""Reads values of `__weir_requests` by Weir's Java class, where the session has it. For `silver`.

The class reads what a broker writes, and nothing else: see java/RequestEvents.java. Spark finds it in a
catalog of functions, java/Functions.java. docs/benchmarks.md has what it saves.
"""

from typing import Final
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.formats import REQUESTS, VALUES

CATALOG: Final = "weir"
CLASS: Final = "weir.Functions"
FUNCTION: Final = f"{CATALOG}.request_event"

_knows: Final = WeakKeyDictionary[SparkSession, bool]()


def is_known(spark: SparkSession) -> bool:
    """Return whether the session has the class; it finds its function by name then."""
    if spark not in _knows:
        spark.conf.set(f"spark.sql.catalog.{CATALOG}", CLASS)
        spark.conf.set(f"spark.sql.catalog.{CATALOG}.requests", VALUES[REQUESTS].json())
        try:
            _ = spark.range(0).select(F.call_function(FUNCTION, F.lit(b""))).schema
        except (PySparkException, Py4JError):  # `make jars` found no JDK, or a platform has its own jars.
            spark.conf.unset(f"spark.sql.catalog.{CATALOG}")
            _knows[spark] = False
        else:
            _knows[spark] = True
    return _knows[spark]


def event_of(value: str) -> Column:
    """Return the event in a column of bytes; null if they are not in the form that a broker writes."""
    return F.call_function(FUNCTION, F.col(value))
