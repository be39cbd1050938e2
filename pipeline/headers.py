"""Reads the headers of a record; docs/events.md defines them."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.tables import CLUSTER

NODE: Final = "node"

ORIGIN: Final = (CLUSTER, NODE)
"""Columns that say where a row comes from; null in rows of records without these headers."""


def origin() -> list[Column]:
    """Return the columns of `ORIGIN`, from `headers`."""
    return [cluster_of().alias(CLUSTER), node_of().alias(NODE)]


def cluster_of() -> Column:
    """Return the cluster's id; null without one."""
    return header(CLUSTER)


def node_of() -> Column:
    """Return the id of the broker or gateway; null without one."""
    return header(NODE).try_cast("int")


def header(name: str) -> Column:
    """Return the text of a record's first header of that name; null without one."""
    place = F.array_position("headers.key", name)
    return text_of(F.get("headers.value", (place - 1).cast("int")))


def text_of(value: Column) -> Column:
    """Return bytes as text; invalid UTF-8 becomes U+FFFD. (`decode` would fail the whole batch.)"""
    return F.make_valid_utf8(value.cast("string"))
