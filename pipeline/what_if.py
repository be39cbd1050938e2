"""Simulates the recorded load under a proposed quota file.

Called by `command`. Spark finds and orders the records; the broker's own quota code (broker.simulation)
decides on throttling, so the result is what the broker would have done.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from broker.simulation.engine import MAX_EVENTS, Outcome, run_scenario
from broker.simulation.scenario_file import read_scenario
from pipeline import silver
from pipeline.formats import REQUESTS
from pipeline.headers import cluster_of, node_of, text_of
from pipeline.tables import CLUSTER, DATE


def clusters_of(events: DataFrame, first: str, last: str, node: int) -> list[str]:
    """Return the clusters whose broker of that id recorded requests on those days; some have no id."""
    there = (F.col("topic") == REQUESTS) & F.col(DATE).between(
        F.lit(first).cast(DATE), F.lit(last).cast(DATE)
    )
    found = events.where(there & (node_of() == node)).select(cluster_of().alias(CLUSTER)).distinct()
    return sorted(row[CLUSTER] for row in found.collect() if row[CLUSTER] is not None)


def recorded(events: DataFrame, first: str, last: str, node: int, cluster: str | None = None) -> DataFrame:
    """Return a `line` of bronze.events for each second of a client at one broker, ordered by time.

    Covers the UTC days from `first` to `last`, both included, without quarantined records. With a
    `cluster`, only its records are read.
    """
    valid = silver.parse_events(events, REQUESTS).where(F.col("reason").isNull())
    if cluster is not None:
        valid = valid.where(cluster_of() == cluster)
    day = F.to_date(F.timestamp_millis("event.time_ms"))
    # The record of an event may have been appended on another day than the event's own.
    return (
        valid.where(day.between(F.lit(first).cast(DATE), F.lit(last).cast(DATE)))
        .where(node_of() == node)
        .where(F.col("event.source") == "client")
        .orderBy("event.time_ms", "partition", "offset")
        .select(text_of(F.col("value")).alias("line"))
    )


def simulate_recorded(lines: Iterable[str], quotas: Path, max_events: int = MAX_EVENTS) -> Outcome:
    """Simulate the load. Raises BadFileError for an invalid quota file, and TooManyEventsError."""
    with TemporaryDirectory() as folder:
        load, scenario = Path(folder) / "load.jsonl", Path(folder) / "what-if.yaml"
        with load.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        scenario.write_text(json.dumps({"recorded": str(load), "quotas": str(quotas.resolve())}))
        return run_scenario(read_scenario(scenario), max_events)
