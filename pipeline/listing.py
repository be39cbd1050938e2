"""Lists the tables for `weir pipeline tables`; those of a folder without Spark, which would take half a
minute.

Used by `command`. Tables at a URL are Spark's, which has the access to their store: `maintain`, `loss`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pipeline.dictionary import TABLES
from pipeline.errors import first_line

QUARANTINE: Final = "silver/quarantine"
LOST: Final = "gold/lost_records"
LOG: Final = "_delta_log"


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
    """`quarantined` are (topic, reason, records), `lost` (topic, records); the most first."""

    lines: list[Line]
    quarantined: list[tuple[str, str, int]]
    lost: list[tuple[str, int]]


def of_folder(root: Path) -> Listing:
    """List the tables in a folder. Raises UnreadableTableError, and ImportError without the packages."""
    # deltalake says late, and as an error of the table, that it needs this.
    import_module("pyarrow")
    return Listing(list(_lines(root)), _quarantined(root), _lost(root))


def _lines(root: Path) -> Iterator[Line]:
    for table in TABLES:
        found = _table(root, table.path)
        if found is not None:
            yield _line(root, table.path, found)


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
    """Return the table, or None if there is none."""
    from deltalake import DeltaTable

    if not (root / path / LOG).is_dir():
        return None
    try:
        return DeltaTable(root / path)
    except Exception as error:
        raise _unreadable(root, path, error) from error


def _unreadable(root: Path, path: str, error: Exception) -> UnreadableTableError:
    name = path.replace("/", ".")
    return UnreadableTableError(
        f"the table {name} in {root} cannot be read: its log is damaged, or a newer version wrote it "
        f"({first_line(error)})"
    )
