"""Counts what the source lost: records that retention deleted before they were read. For `run`.

Offsets of an event topic have no gaps, so a gap between two records that were read is a loss. What was
deleted before the first record that was read does not count. Topics and files agree, because only the records
matter; a loss ends when a later backfill has the records.

`POSITIONS` has the next offset to read of each partition, so that no batch searches older records. It is
written last: a repeated batch finds the same gaps until then, and nothing afterwards.
"""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.conflicts import repeated
from pipeline.sources import EVENTS
from pipeline.tables import CLUSTER, DATE, Table, Warehouse, Write
from pipeline.times import day_of

LOST: Final = Table("gold/lost_records", (CLUSTER, "topic", "partition", "first"))
POSITIONS: Final = Table("bronze/positions", (CLUSTER, "topic", "partition"), ())

_LOST_SCHEMA: Final = (
    f"{DATE} date, time timestamp, {CLUSTER} string, topic string, partition int, first bigint, last bigint, "
    "records bigint"
)
_POSITIONS_SCHEMA: Final = f"{CLUSTER} string, topic string, partition int, next bigint"

TopicPartition = tuple[str, int]
"""A topic and a partition."""

Positions = dict[tuple[str | None, TopicPartition], int]
"""The next offset to read, by cluster and place."""


@dataclass(frozen=True, slots=True)
class Span:
    """The records of one partition in a batch; `time` is that of the first."""

    cluster: str | None
    place: TopicPartition
    first: int
    last: int
    rows: int
    time: datetime

    @property
    def is_whole(self) -> bool:
        return self.rows == self.last - self.first + 1

    def joined(self, other: "Span") -> "Span":
        """Return both as one, of this one's cluster."""
        early = min(self, other, key=lambda each: each.first)
        last, rows = max(self.last, other.last), self.rows + other.rows
        return Span(self.cluster, self.place, early.first, last, rows, early.time)


def take(warehouse: Warehouse, rows: DataFrame, write: Write, known: Positions | None = None) -> Positions:
    """Note the gaps before and between the rows, which bronze has; return the positions after them.

    `known` are the positions that this process returned last: while rows follow on them without a gap, they
    are not read again.
    """
    found = _spans(rows)
    if known is not None and _follow(known, found):
        _write_positions(warehouse, known, named(found, known))
        return advanced(known, named(found, known))
    before = _positions(warehouse)
    spans = named(found, before)
    # Bronze has each record once: rows that end at the position were noted before a kill.
    unread = [span for span in spans if span.last + 1 != position_of(span, before)]
    late = [span for span in unread if span.first < position_of(span, before)]
    new = [span for span in unread if span not in late]
    gaps = [gap for span in new if (gap := gap_before(span, before)) is not None]
    if gaps:
        write(warehouse, LOST, warehouse.spark.createDataFrame(gaps, _LOST_SCHEMA), "before")
    torn = [span for span in new if not span.is_whole]
    if torn:
        write(warehouse, LOST, _gaps(rows, torn), "between")
    if late:
        repeated(partial(_search_again, warehouse, late))
    _write_positions(warehouse, before, spans)
    return advanced(before, spans)


def _follow(positions: Positions, spans: list[Span]) -> bool:
    """Return whether each span begins at its position and has no gap."""
    return all(span.is_whole and positions.get((span.cluster, span.place)) == span.first for span in spans)


def _write_positions(warehouse: Warehouse, before: Positions, spans: list[Span]) -> None:
    """Write the positions that the spans have changed. Of two writers at once the larger position counts."""
    after = advanced(before, spans)
    changed = [key for key, at in after.items() if before.get(key) != at]
    removed = before.keys() - after.keys()
    if changed or removed:
        state = [(cluster, *place, after.get((cluster, place))) for cluster, place in (*changed, *removed)]
        rows = warehouse.spark.createDataFrame(state, _POSITIONS_SCHEMA)
        warehouse.rewrite(POSITIONS, partial(_joined, rows), _POSITIONS_SCHEMA)


def _joined(changes: DataFrame, positions: DataFrame) -> DataFrame:
    """Return the positions after changes; those that become null are removed."""
    both = positions.unionByName(changes).coalesce(1)
    after = both.groupBy(*POSITIONS.keys).agg(
        F.max("next").alias("next"), F.every(F.col("next").isNotNull()).alias("is_kept")
    )
    return after.where("is_kept").drop("is_kept")


def named(spans: list[Span], positions: Positions) -> list[Span]:
    """Return spans whose cluster is known. Records of earlier versions have none: they are of the only
    cluster that their partition has.
    """
    by_place: dict[TopicPartition, list[Span]] = {}
    for span in spans:
        by_place.setdefault(span.place, []).append(span)
    found = []
    for place, each in by_place.items():
        clusters = {span.cluster for span in each}
        read = {cluster for cluster, at in positions if at == place}
        if clusters == {None} and len(read) == 1:
            clusters |= read
        if len(clusters - {None}) == 1:
            (cluster,) = clusters - {None}
            whole = replace(each[0], cluster=cluster)
            for other in each[1:]:
                whole = whole.joined(other)
            each = [whole]
        found += each
    return found


def position_of(span: Span, positions: Positions) -> int:
    """Return the next offset to read, before the batch; the span's first one if nothing was read."""
    known = positions.get((span.cluster, span.place), positions.get((None, span.place)))
    return span.first if known is None else known


def gap_before(span: Span, positions: Positions) -> tuple[Any, ...] | None:
    """Return a row of `LOST` if records before the span were not read."""
    due = position_of(span, positions)
    if span.first <= due:
        return None
    return span.time.date(), span.time, span.cluster, *span.place, due, span.first - 1, span.first - due


def advanced(positions: Positions, spans: list[Span]) -> Positions:
    """Return the positions after the batch."""
    found = dict(positions)
    for span in spans:
        found[span.cluster, span.place] = max(position_of(span, positions), span.last + 1)
        if span.cluster is not None:
            found.pop((None, span.place), None)
    return found


def _positions(warehouse: Warehouse) -> Positions:
    if not warehouse.exists(POSITIONS):
        return {}
    rows = warehouse.read(POSITIONS).collect()
    return {(row[CLUSTER], (row["topic"], row["partition"])): row["next"] for row in rows}


def _spans(rows: DataFrame) -> list[Span]:
    found = rows.groupBy(CLUSTER, "topic", "partition").agg(
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.count("*").alias("rows"),
        F.min_by(F.unix_millis("timestamp"), "offset").alias("time_ms"),
    )
    return [_span(row) for row in found.collect()]


def _span(row: Row) -> Span:
    time = datetime.fromtimestamp(row["time_ms"] / 1000, UTC)
    place = row["topic"], row["partition"]
    return Span(row[CLUSTER], place, row["first"], row["last"], row["rows"], time)


def _search_again(warehouse: Warehouse, late: list[Span]) -> None:
    """Replace the gaps of partitions to which older records were added."""
    found = _gaps(warehouse.read(EVENTS), late)
    if warehouse.exists(LOST) or not found.isEmpty():
        of_places = " OR ".join(
            f"(topic = '{topic}' AND partition = {partition} AND {CLUSTER} <=> {_quoted(cluster)})"
            for cluster, (topic, partition) in ((span.cluster, span.place) for span in late)
        )
        warehouse.replace(LOST, found, of_places)


def _gaps(rows: DataFrame, spans: list[Span]) -> DataFrame:
    """Return rows of `LOST`: the gaps between records, in the partitions of the spans."""
    owners: Counter[TopicPartition] = Counter(span.place for span in spans)
    places = [
        # A partition with one cluster has records without a name too.
        (span.cluster, *span.place, owners[span.place] == 1)
        for span in spans
    ]
    wanted = rows.sparkSession.createDataFrame(
        places, "owner string, topic string, partition int, is_only boolean"
    )
    is_its = F.col(CLUSTER).eqNullSafe(F.col("owner")) | (F.col("is_only") & F.col(CLUSTER).isNull())
    placed = rows.join(F.broadcast(wanted), ["topic", "partition"]).where(is_its)
    in_order = Window.partitionBy("owner", "topic", "partition").orderBy("offset")
    due = F.lag("offset").over(in_order) + 1
    return (
        placed.select("owner", "topic", "partition", "offset", "timestamp", due.alias("first"))
        .where(F.col("offset") > F.col("first"))
        .select(
            day_of("timestamp").alias(DATE),
            F.col("timestamp").alias("time"),
            F.col("owner").alias(CLUSTER),
            "topic",
            "partition",
            "first",
            (F.col("offset") - 1).alias("last"),
            (F.col("offset") - F.col("first")).alias("records"),
        )
    )


def _quoted(text: str | None) -> str:
    return "NULL" if text is None else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def lost(warehouse: Warehouse) -> list[tuple[str, int]]:
    """Return the lost records by topic, the most first."""
    if not warehouse.exists(LOST):
        return []
    counts = warehouse.read(LOST).groupBy("topic").agg(F.try_sum("records").alias("records"))
    return [(row["topic"], row["records"]) for row in counts.orderBy(F.desc("records"), "topic").collect()]
