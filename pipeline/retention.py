"""The time for which the rows of each table are kept, in whole UTC days.

A pure rule for `maintenance` and `command`. A day is removed whole, which only takes files out of a table's
log. Tables without days are small and kept for ever.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from pipeline import silver
from pipeline.formats import QUOTA_CHANGES
from pipeline.gold.seconds import SECONDS
from pipeline.tables import DATE, Table

LAYERS: Final = ("bronze", "silver", "gold")

AS_LONG_AS: Final = {silver.TABLES[QUOTA_CHANGES]: "gold", silver.SNAPSHOTS: "gold", SECONDS: "silver"}
"""Tables that are kept as long as another layer than their own. Rules are small, and a day of gold needs the
limits then in force; seconds have a size like events.
"""


@dataclass(frozen=True, slots=True)
class Retention:
    """The days before today that each layer keeps; 0 or less keeps all."""

    bronze: int = 7
    silver: int = 30
    gold: int = 400

    def first_kept(self, table: Table, today: date) -> date | None:
        """Return the first day whose rows stay; None if all stay."""
        if DATE not in table.partitions:
            return None
        return self.first_kept_of(AS_LONG_AS.get(table) or table.path.partition("/")[0], today)

    def first_kept_of(self, layer: str, today: date) -> date | None:
        """Return the first day whose rows stay in a layer; None if all stay."""
        days = {"bronze": self.bronze, "silver": self.silver, "gold": self.gold}[layer]
        return today - timedelta(days=days) if days > 0 else None
