"""From the sources to gold, one batch after the other.

A batch may be repeated after a kill at any point: what it had appended is known by its number, and gold is
always made anew from silver for the minutes that the batch touched. So the tables are those of an undisturbed
run, and late events change the minutes to which they belong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pipeline import bronze, silver
from pipeline.extent import Extent
from pipeline.formats import CONNECTIONS, QUOTA_CHANGES, REQUESTS, TELEMETRY, THROTTLES
from pipeline.gold import advice, latency, limits, obedience, people, throttling, usage
from pipeline.gold.usage import MINUTE, minute_of
from pipeline.otlp import batch as pushes
from pipeline.tables import DATE, Table, Warehouse, Write
from pipeline.times import as_text, days, during, from_to, near, stretches

STREAM: Final = "stream"
"""Under which name the stream's batches are counted in the tables."""

DUE: Final = "_due"
"""Where the warehouse has the days that were touched and are still to be made."""


@dataclass(frozen=True, slots=True)
class ByMinute:
    """A gold table whose rows depend on one minute of one silver table."""

    table: Table
    source: str
    make: Callable[[DataFrame], DataFrame]


BY_MINUTE: Final = (
    ByMinute(usage.TABLE, REQUESTS, usage.usage_per_minute),
    ByMinute(latency.TABLE, REQUESTS, latency.phase_quantiles_per_minute),
    ByMinute(throttling.TABLE, THROTTLES, throttling.throttling_per_minute),
    ByMinute(people.STORMS, CONNECTIONS, people.connection_storms),
)


class Pipeline:
    """Brings rows of `sources.RAW` into the tables of one warehouse."""

    def __init__(self, warehouse: Warehouse, policy: advice.Policy = advice.Policy()) -> None:  # noqa: B008
        self.warehouse = warehouse
        self.policy = policy
        self.rows = 0

    def take(self, raw: DataFrame, batch: int, writer: str = STREAM) -> None:
        """One batch of a stream; the same `batch` has the same rows whenever it is repeated."""

        def append(table: Table, rows: DataFrame, part: str) -> None:
            self.warehouse.append_once(table, rows, f"{writer}:{part}", batch)

        self._take(raw, Extent.of(raw), append, is_all=True)

    def add(self, raw: DataFrame) -> None:
        """Rows of any source: those that are there already are passed over. Raises NotRecordsError."""
        extent = Extent.of(raw)

        def add(table: Table, rows: DataFrame, _part: str) -> None:
            self.warehouse.add(table, rows, extent.where)

        alone = raw.dropDuplicates(list(bronze.EVENTS.keys)) if extent.copies else raw
        self._take(alone, extent, add, is_all=extent.is_whole)

    def _take(self, raw: DataFrame, extent: Extent, write: Write, is_all: bool) -> None:
        """`is_all`: what a table has within `extent` are rows of this batch and no others."""
        raw = bronze.dated(raw)
        self.rows += extent.rows
        if not extent.rows:
            return
        write(bronze.EVENTS, raw, "all")
        for topic in sorted(extent.topics & silver.TABLES.keys()):
            self._take_topic(topic, silver.opened(raw, topic), extent.part({topic}), write, is_all)
        if TELEMETRY in extent.topics:
            pushes.take(self.warehouse, raw, write)
        known = {*silver.TABLES, TELEMETRY}
        if extent.topics - known:
            write(silver.QUARANTINE, silver.strangers(raw, sorted(known)), "strangers")

    def _take_topic(self, topic: str, events: DataFrame, extent: Extent, write: Write, is_all: bool) -> None:
        write(silver.TABLES[topic], silver.accepted(events), topic)
        # Asked of the table, for a batch that is repeated writes nothing and has its minutes all the same.
        here = self.warehouse.read(silver.TABLES[topic]).where(extent.where)
        counts = here.groupBy(as_text(minute_of()).alias(MINUTE)).count().collect()
        if not is_all or sum(row["count"] for row in counts) < extent.rows:
            write(silver.QUARANTINE, silver.refused(events), topic)
        for first, last in stretches(row[MINUTE] for row in counts):
            for day in days(first, last):
                self.warehouse.note(f"{DUE}/{day}")
            self._make_minutes(topic, first, last)

    def _make_minutes(self, topic: str, first: str, last: str) -> None:
        """Gold of one topic, for the minutes from `first` to `last`, both included."""
        here = from_to(MINUTE, "TIMESTAMP", first, last)
        dates = from_to(DATE, "DATE", first[:10], last[:10])
        for each in BY_MINUTE:
            if each.source == topic:
                events = self.warehouse.read(silver.TABLES[topic])
                events = events.where(near(DATE, first, last)).where(during("time", first, last))
                self.warehouse.replace(each.table, each.make(events), f"{dates} AND {here}")

    def make_days(self) -> None:
        """What is made of whole days, for those that were touched since it was made, by whichever process."""
        for day in self.warehouse.noted(DUE):
            self._make_day(day)
            self.warehouse.forget(f"{DUE}/{day}")

    def _make_day(self, day: str) -> None:
        house = self.warehouse
        on_the_day = f"{DATE} = DATE '{day}'"
        if house.exists(silver.TABLES[CONNECTIONS]):
            connections = house.read(silver.TABLES[CONNECTIONS]).where(on_the_day)
            house.replace(people.BORROWED, people.borrowed_names_per_day(connections), on_the_day)
        if house.exists(silver.TABLES[THROTTLES]):
            throttles = house.read(silver.TABLES[THROTTLES]).where(on_the_day)
            house.replace(obedience.TABLE, obedience.obedience_per_day(throttles), on_the_day)
        if not house.exists(usage.TABLE):
            return
        used = house.read(usage.TABLE).where(on_the_day)
        house.replace(people.OFFENDERS, people.top_offenders_per_day(used), on_the_day)
        told = advice.quota_advice(used, F.lit(day).cast("date"), self.policy)
        house.replace(advice.TABLE, told, on_the_day)
        if house.exists(silver.TABLES[QUOTA_CHANGES]):
            held = limits.limits_over_time(house.read(silver.TABLES[QUOTA_CHANGES]))
            house.replace(limits.UTILISATION, limits.utilisation_per_minute(used, held), on_the_day)
