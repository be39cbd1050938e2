"""The comments of the tables' columns, from the dictionary: DESCRIBE TABLE and catalogs show them.

`tables` writes them with the version that makes a table, and `schedule` when the dictionary has changed, or
for a table that an earlier version made.
"""

import hashlib
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.dictionary import TABLES

COMMENT: Final = "comment"
"""Spark's key of a comment in a column's metadata."""


def comments_of(path: str) -> dict[str, str]:
    """Return the comment of each column of a table; none of a table that the dictionary does not have."""
    return {
        column.name: column.meaning + (f" [{column.unit}]" if column.unit else "")
        for table in TABLES
        if table.path == path
        for column in table.columns
    }


def digest() -> str:
    """Return a short text that changes with any comment."""
    texts = [f"{table.path} {comments_of(table.path)}" for table in TABLES]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def commented(rows: DataFrame, path: str) -> DataFrame:
    """Return rows whose columns have the comments of a table."""
    texts = comments_of(path)
    return rows.select(
        *(
            F.col(f"`{name}`").alias(name, metadata={COMMENT: texts[name]}) if name in texts else f"`{name}`"
            for name in rows.columns
        )
    )


def update(spark: SparkSession, path: str, place: str) -> bool:
    """Write the comments that a table at `place` lacks, in one commit; return whether there were any."""
    texts = comments_of(path)
    changed = {
        field.name: texts[field.name]
        for field in spark.read.format("delta").load(place).schema.fields
        if field.metadata.get(COMMENT) != texts.get(field.name, field.metadata.get(COMMENT))
    }
    if changed:
        each = ", ".join(f"`{name}` COMMENT {_literal(text)}" for name, text in changed.items())
        spark.sql(f"ALTER TABLE {_named(place)} ALTER COLUMN {each}")
    return bool(changed)


def _named(place: str) -> str:
    name = place if ":" in place else str(Path(place).absolute())
    return f"delta.`{name.replace('`', '``')}`"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
