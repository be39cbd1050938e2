"""The rows that a commit added to a table, read from Delta's log without reading rows.

For `tables`. The log is a file of JSON lines for each version, with a line for each added file, its number
of rows and the extremes of its columns, and with the writer's name and batch, if given (Delta's PROTOCOL.md).
Neither Delta's nor deltalake's API returns these by commit: `history` has no files and no batches,
`get_add_actions` the files of a whole version, and the change data feed must be enabled in each table.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class File:
    """A data file. `path` is relative to the table; `minimum` and `maximum` are by column."""

    path: str
    partition: dict[str, str | None]
    rows: int
    minimum: dict[str, Any]
    maximum: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Commit:
    """A version of a table. `batches` has the last batch of each named writer.

    `files` are those that added rows, without the ones that only compact others.
    """

    files: tuple[File, ...]
    batches: dict[str, int]
    operation: str

    @property
    def is_added(self) -> bool:
        """Whether rows were added without a batch number."""
        return bool(self.rows) and not self.batches and self.operation in ("MERGE", "WRITE")

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def of(self, column: str, values: Collection[str]) -> tuple[File, ...]:
        """Return the files of those partitions."""
        return tuple(file for file in self.files if file.partition[column] in values)

    def rows_by(self, column: str) -> dict[str, int]:
        """Return the number of rows added to each partition."""
        found: Counter[str] = Counter()
        for file in self.files:
            found[str(file.partition[column])] += file.rows
        return {value: rows for value, rows in found.items() if rows}

    def edges(self, column: str) -> list[tuple[Any, Any]]:
        """Return the extremes of a column in each file that has them."""
        return [(file.minimum[column], file.maximum[column]) for file in self.files if column in file.minimum]


def file_of(version: int) -> str:
    """Return the file name of a version in the log."""
    return f"{version:020}.json"


def parsed(text: str) -> Commit:
    """Parse one version."""
    files, batches, operation = [], {}, ""
    for line in text.splitlines():
        action = json.loads(line)
        if "add" in action:
            if action["add"].get("dataChange", True):
                files.append(_file(action["add"]))
        elif "txn" in action:
            batches[action["txn"]["appId"]] = action["txn"]["version"]
        elif "commitInfo" in action:
            operation = action["commitInfo"].get("operation", "")
    return Commit(tuple(files), batches, operation)


def _file(add: dict[str, Any]) -> File:
    stats = json.loads(add.get("stats") or "{}")
    minimum, maximum = stats.get("minValues", {}), stats.get("maxValues", {})
    return File(unquote(add["path"]), add["partitionValues"], stats["numRecords"], minimum, maximum)


def with_batch(texts: Iterable[str], writer: str, batch: int) -> Commit | None:
    """Return the version in which `writer` wrote this batch, searching from the newest; None if there is
    none.
    """
    for text in texts:
        commit = parsed(text)
        if commit.batches.get(writer) == batch:
            return commit
    return None
