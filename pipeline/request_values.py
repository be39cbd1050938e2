"""Reads values of `__weir_requests` by Weir's Java class, where the session has it. For `silver`.

The class reads what a broker writes, and nothing else: see java/RequestEvents.java. Reading and parsing
a request takes a third less processor time with it: docs/benchmarks.md.
"""

from typing import Final
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.formats import REQUESTS, VALUES

CLASS: Final = "weir.RequestEvents"
FUNCTION: Final = "weir_request_event"

_knows: Final = WeakKeyDictionary[SparkSession, bool]()


def is_known(spark: SparkSession) -> bool:
    """Return whether the session has the class; its function is registered then."""
    if spark not in _knows:
        try:
            spark.udf.registerJavaFunction(FUNCTION, CLASS, VALUES[REQUESTS])
        except PySparkException:  # `make jars` found no JDK, or a platform has its own jars.
            _knows[spark] = False
        else:
            _knows[spark] = True
    return _knows[spark]


def event_of(value: str) -> Column:
    """Return the event in a column of bytes; null if they are not in the form that a broker writes."""
    return F.call_function(FUNCTION, F.col(value))
