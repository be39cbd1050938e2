"""Lists the tables for `weir pipeline tables`; those of a folder without Spark, which would take half a
minute.

Used by `command`. Tables at a URL are Spark's, which has the access to their store: `maintain`, `loss`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pipeline.dictionary import TABLES
from pipeline.errors import first_line

QUARANTINE: Final = "silver/quarantine"
LOST: Final = "gold/lost_records"
FAILED: Final = "_failed"
LOG: Final = "_delta_log"


SUMS: Final = {
    "gold/usage_per_minute": (
        *("produce_bytes", "fetch_bytes", "requests", "errors", "throttle_ms", "handler_us"),
    ),
    "gold/phase_quantiles_per_minute": ("timed",),
    "gold/latency_by_software_per_day": ("timed",),
    "gold/throttling_per_minute": ("throttles", "throttle_ms"),
    "gold/throttle_compliance_per_day": ("throttles", "throttle_ms", "waited", "sent_early"),
    "gold/connection_storms": ("attempts",),
}
"""Columns that are null only if their sum is beyond 64 bits."""


class UnreadableTableError(Exception):
    """A table that cannot be read, with the reason in a line."""


@dataclass(frozen=True, slots=True)
class Line:
    """A table. `written` is the UTC time of the last version, to the second."""

    name: str
    rows: int
    files: int
    nbytes: int
    written: str


@dataclass(frozen=True, slots=True)
class Listing:
    """`quarantined` are (topic, reason, records), `lost` (topic, records); the most first. `beyond` are
    (table, column of `SUMS`, rows), `created` the tables whose first version is not written yet,
    `failed` what lacks something because it failed.
    """

    lines: list[Line]
    quarantined: list[tuple[str, str, int]]
    lost: list[tuple[str, int]]
    beyond: list[tuple[str, str, int]] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def of_folder(root: Path) -> Listing:
    """List the tables in a folder. Raises UnreadableTableError, and ImportError without the packages."""
    # deltalake says late, and as an error of the table, that it needs this.
    import_module("pyarrow")
    lacking = {row["table"].replace("/", ".") for row in _rows(root, FAILED, ["table"])}
    found = Listing([], _quarantined(root), _lost(root), failed=sorted(lacking))
    for documented in TABLES:
        path = documented.path
        table = _table(root, path)
        if table is not None:
            found.lines.append(_line(root, path, table))
            found.beyond.extend(_beyond(path, table))
        elif (root / path / LOG).is_dir():
            found.created.append(documented.name)
    return found


def _beyond(path: str, table: Any) -> Iterator[tuple[str, str, int]]:
    """Yield the sums that some rows do not have, by the statistics in the table's log."""
    files = table.get_add_actions(flatten=True)
    for column in SUMS.get(path, ()):
        name = f"null_count.{column}"
        rows = sum(filter(None, files[name].to_pylist())) if name in files.schema.names else 0
        if rows:
            yield path.replace("/", "."), column, rows


def _line(root: Path, path: str, table: Any) -> Line:
    try:
        rows = table.to_pyarrow_dataset().count_rows()
        sizes = table.get_add_actions(flatten=True)["size_bytes"].to_pylist()
        written = datetime.fromtimestamp(table.history(1)[0]["timestamp"] / 1_000, UTC)
    except Exception as error:
        raise _unreadable(root, path, error) from error
    return Line(path.replace("/", "."), rows, len(sizes), sum(sizes), f"{written:%Y-%m-%d %H:%M:%S}")


def _quarantined(root: Path) -> list[tuple[str, str, int]]:
    counts = Counter((row["topic"], row["reason"]) for row in _rows(root, QUARANTINE, ["topic", "reason"]))
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [(topic, reason, count) for (topic, reason), count in ordered]


def _lost(root: Path) -> list[tuple[str, int]]:
    records: Counter[str] = Counter()
    for row in _rows(root, LOST, ["topic", "records"]):
        records[row["topic"]] += row["records"]
    return sorted(records.items(), key=lambda each: (-each[1], each[0]))


def _rows(root: Path, path: str, columns: list[str]) -> Iterator[dict[str, Any]]:
    table = _table(root, path)
    if table is None:
        return
    try:
        for batch in table.to_pyarrow_dataset().to_batches(columns=columns):
            yield from batch.to_pylist()
    except Exception as error:
        raise _unreadable(root, path, error) from error


def _table(root: Path, path: str) -> Any:
    """Return the table, or None if there is none, or no version of it yet."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    if not (root / path / LOG).is_dir():
        return None
    try:
        return DeltaTable(root / path)
    except TableNotFoundError:
        return None
    except Exception as error:
        raise _unreadable(root, path, error) from error


def _unreadable(root: Path, path: str, error: Exception) -> UnreadableTableError:
    name = path.replace("/", ".")
    return UnreadableTableError(
        f"the table {name} in {root} cannot be read: its log is damaged, or a newer version wrote it "
        f"({first_line(error)})"
    )
