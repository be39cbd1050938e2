"""What if: the load that was recorded, played against a proposed quota file.

Called by `command`. Spark finds the records and puts them in order; who would have been held is the broker's
own quota code to say (broker.simulation), so its answer is what the broker would have done.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from broker.simulation.engine import MOST_EVENTS, Outcome, play
from broker.simulation.reading import read_scenario
from pipeline import silver
from pipeline.formats import REQUESTS
from pipeline.tables import DATE


def recorded(events: DataFrame, first: str, last: str, node: int) -> DataFrame:
    """Of bronze.events: a `line` for each second of a client at one broker, in the order of time, for the UTC
    days from `first` to `last` (both included). What is in the quarantine is left out.
    """
    understood = silver.opened(events, REQUESTS).where(F.col("reason").isNull())
    day = F.to_date(F.timestamp_millis("event.time_ms"))
    # An event may have been recorded on another day than its own.
    return (
        understood.where(day.between(F.lit(first).cast(DATE), F.lit(last).cast(DATE)))
        .where(silver.node_of() == node)
        .where(F.col("event.source") == "client")
        .orderBy("event.time_ms", "partition", "offset")
        .select(silver.text_of(F.col("value")).alias("line"))
    )


def played(lines: Iterable[str], quotas: Path, most: int = MOST_EVENTS) -> Outcome:
    """Raises BadFileError for a quota file that cannot be meant, TooManyEventsError."""
    with TemporaryDirectory() as folder:
        load, scenario = Path(folder) / "load.jsonl", Path(folder) / "what-if.yaml"
        with load.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        scenario.write_text(json.dumps({"recorded": str(load), "quotas": str(quotas.resolve())}))
        return play(read_scenario(scenario), most)
