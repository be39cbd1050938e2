"""Which records a batch has: of each partition the first, the last and how many. For `run`.

What lies between two offsets of a partition is found in a table without a look at most of its files, so the
rows of a batch can be asked for where they were written instead of being kept in memory meanwhile.
"""

from dataclasses import dataclass
from typing import Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it


class NotRecordsError(Exception):
    """Rows without a topic, a partition, an offset or a timestamp; the message says how many."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Both offsets are included. `rows` are different ones, `copies` those that are there once more."""

    topic: str
    partition: int
    first: int
    last: int
    rows: int
    copies: int

    @property
    def is_whole(self) -> bool:
        """Whether no offset in between is left out."""
        return self.rows == self.last - self.first + 1

    @property
    def where(self) -> str:
        topic = self.topic.replace("\\", "\\\\").replace("'", "\\'")
        return (
            f"(topic = '{topic}' AND partition = {self.partition} "
            f"AND offset >= {self.first} AND offset <= {self.last})"
        )


@dataclass(frozen=True, slots=True)
class Extent:
    stretches: tuple[Stretch, ...]

    @classmethod
    def of(cls, raw: DataFrame) -> Self:
        """Reads where the rows are and nothing else of them. Raises NotRecordsError."""
        told = raw.groupBy("topic", "partition").agg(
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
            F.count_distinct("offset").alias("rows"),
            F.count("*").alias("all"),
            F.count_if(F.col("offset").isNull() | F.col("timestamp").isNull()).alias("nowhere"),
        )
        found = told.collect()
        nowhere = sum(
            row["all"] if row["topic"] is None or row["partition"] is None else row["nowhere"]
            for row in found
        )
        if nowhere:
            raise NotRecordsError(f"{nowhere:,} rows have no topic, partition, offset or timestamp")
        return cls(
            tuple(
                Stretch(each["topic"], each["partition"], each["first"], each["last"], each["rows"],
                        each["all"] - each["rows"])
                for each in found
            )
        )  # fmt: skip

    @property
    def topics(self) -> set[str]:
        return {each.topic for each in self.stretches}

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.stretches)

    @property
    def copies(self) -> int:
        return sum(each.copies for each in self.stretches)

    @property
    def is_whole(self) -> bool:
        return all(each.is_whole for each in self.stretches)

    @property
    def where(self) -> str:
        """What lies within, and rows that were left out in between: a condition for any table of records."""
        return " OR ".join(each.where for each in self.stretches) or "false"

    def part(self, topics: set[str]) -> "Extent":
        return Extent(tuple(each for each in self.stretches if each.topic in topics))
