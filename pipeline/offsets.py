"""Finds topics that were deleted and made anew while a stream was not looking. For `streaming`.

The offsets of such a topic go back. Spark's connector goes on without a word: it would leave out the records
up to the old position, and the others would have the keys of records that the tables have already.

A stream's checkpoint has a file for each batch, written before the batch, with the offsets up to which it
reads. A topic that has again as many records as the old one had cannot be recognized.
"""

import json
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

Offsets = dict[tuple[str, int], int]
"""The next offset to read, by topic and partition."""

OFFSETS: Final = "offsets"


class TopicMadeAnewError(Exception):
    """The offsets of a topic decreased, or the topic was deleted and created again."""


def newest(spark: SparkSession, checkpoint: str) -> Offsets:
    """Return the offsets up to which the last batch of a checkpoint reads."""
    files = _files(spark, f"{checkpoint}/{OFFSETS}")
    return files[max(files)] if files else {}


class OffsetCheck:
    """Compares the offsets of each batch of a stream with those of the batches before."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark = spark
        self._folder = f"{checkpoint}/{OFFSETS}"
        self._read: Offsets = {}
        self._last: tuple[int, Offsets] | None = None

    def check(self, batch: int) -> int:
        """Return the most records that the batch can have. Raises TopicMadeAnewError, before the batch has
        written anything and each time it is repeated.
        """
        if self._last is None or self._last[0] != batch - 1:
            self._learn(batch)
        new = self._files(f"/{batch}").get(batch, {})
        last = {} if self._last is None else self._last[1]
        check_offsets(self._read, last, new)
        self._note(batch, new)
        return records_between(last, new)

    def _learn(self, batch: int) -> None:
        """Read the offsets of all earlier batches that the checkpoint has, some hundred."""
        self._read, self._last = {}, None
        for number, offsets in sorted(self._files("").items()):
            if number < batch:
                self._note(number, offsets)

    def _note(self, batch: int, offsets: Offsets) -> None:
        for place, offset in offsets.items():
            self._read[place] = max(offset, self._read.get(place, 0))
        self._last = batch, offsets

    def _files(self, path: str) -> dict[int, Offsets]:
        return _files(self._spark, self._folder + path)


def _files(spark: SparkSession, path: str) -> dict[int, Offsets]:
    """Return the offsets by batch; none of a file that the checkpoint no longer has."""
    try:
        texts = spark.read.text(path, wholetext=True)
        rows = texts.select("value", "_metadata.file_name").collect()
    except PySparkException:
        return {}
    return {int(row["file_name"]): parsed(row["value"]) for row in rows if row["file_name"].isdigit()}


def parsed(text: str) -> Offsets:
    """Return the offsets of a checkpoint's file: a version, the batch, and a line for each source."""
    lines = text.splitlines()
    topics = json.loads(lines[2]) if len(lines) > 2 and lines[2].startswith("{") else {}
    return {
        (topic, int(partition)): offset
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


def records_between(last: Offsets, new: Offsets) -> int:
    """Return the number of records between offsets; of a partition without last ones, all up to its end."""
    return sum(offset - last.get(place, 0) for place, offset in new.items())


def check_offsets(read: Offsets, last: Offsets, new: Offsets) -> None:
    """Raises TopicMadeAnewError if a partition's offset is below the one up to which it was read, or if it
    was read once and was not in the last batch.
    """
    for (topic, partition), offset in new.items():
        done = read.get((topic, partition), 0)
        if offset < done or (done and (topic, partition) not in last):
            raise TopicMadeAnewError(
                f"the topic {topic} was deleted and made anew: partition {partition} ends at offset "
                f"{offset:,} and was read up to {done:,} before. Use another warehouse for the new topic"
            )
