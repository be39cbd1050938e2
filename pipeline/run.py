"""From the sources to gold, one batch after the other.

A batch may be repeated after a kill at any point: what it had appended is known by its number, and gold is
always made anew from silver for the minutes that the batch touched. So the tables are those of an undisturbed
run, and late events change the minutes to which they belong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pipeline import bronze, silver
from pipeline.formats import CONNECTIONS, QUOTA_CHANGES, REQUESTS, TELEMETRY, THROTTLES
from pipeline.gold import advice, latency, limits, obedience, people, throttling, usage
from pipeline.gold.usage import MINUTE, minute_of
from pipeline.otlp import batch as pushes
from pipeline.tables import DATE, Table, Warehouse, Write
from pipeline.times import days, edges, from_to, near

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

        self._take(raw, append)

    def add(self, raw: DataFrame) -> None:
        """Rows of any source: those that are there already are passed over."""

        def add(table: Table, rows: DataFrame, _part: str) -> None:
            self.warehouse.add(table, rows)

        self._take(raw.dropDuplicates(list(bronze.EVENTS.keys)), add)

    def _take(self, raw: DataFrame, write: Write) -> None:
        raw = bronze.dated(raw).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            counts = {row["topic"]: row["count"] for row in raw.groupBy("topic").count().collect()}
            topics = counts.keys()
            self.rows += sum(counts.values())
            if topics:
                write(bronze.EVENTS, raw, "all")
            for topic in sorted(topics & silver.TABLES.keys()):
                self._take_topic(topic, silver.opened(raw, topic), write)
            if TELEMETRY in topics:
                pushes.take(self.warehouse, raw, write)
            known = [*silver.TABLES, TELEMETRY]
            if topics - set(known):
                write(silver.QUARANTINE, silver.strangers(raw, known), "strangers")
        finally:
            raw.unpersist()

    def _take_topic(self, topic: str, events: DataFrame, write: Write) -> None:
        events = events.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            accepted, refused = silver.accepted(events), silver.refused(events)
            if not refused.isEmpty():
                write(silver.QUARANTINE, refused, topic)
            minutes = edges(accepted, minute_of())
            if minutes is not None:
                for day in days(*minutes):
                    self.warehouse.note(f"{DUE}/{day}")
                write(silver.TABLES[topic], accepted, topic)
                self._make_minutes(topic, *minutes)
        finally:
            events.unpersist()

    def _make_minutes(self, topic: str, first: str, last: str) -> None:
        """Gold of one topic, for the minutes from `first` to `last`, both included."""
        here = from_to(MINUTE, "TIMESTAMP", first, last)
        dates = from_to(DATE, "DATE", first[:10], last[:10])
        for each in BY_MINUTE:
            if each.source == topic:
                events = self.warehouse.read(silver.TABLES[topic]).where(near(DATE, first, last))
                events = events.withColumn(MINUTE, minute_of()).where(here).drop(MINUTE)
                self.warehouse.replace(each.table, each.make(events), f"{dates} AND {here}")

    def make_days(self) -> None:
        """What is made of whole days, for those that were touched since, by whichever process."""
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
