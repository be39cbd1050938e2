"""What one batch added to a table, as the table's own log tells it: no row is read for it.

For `tables`. The log is Delta's: a file of JSON lines for each version, with a line for each file that came,
its rows, and the least and greatest of its columns; and with the writer and its batch, if one was named.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class File:
    """`path` is relative to the table; `least` and `most` are as text or numbers, by column."""

    path: str
    partition: dict[str, str | None]
    rows: int
    least: dict[str, Any]
    most: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Commit:
    """`batches` are the last ones of each writer that named itself. `files` are those that brought rows: what
    was only put together anew is none of them.
    """

    files: tuple[File, ...]
    batches: dict[str, int]
    operation: str

    @property
    def is_added(self) -> bool:
        """Whether rows came without the number of a batch."""
        return bool(self.rows) and not self.batches and self.operation in ("MERGE", "WRITE")

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def of(self, column: str, values: Collection[str]) -> tuple[File, ...]:
        """The files of those partitions."""
        return tuple(file for file in self.files if file.partition[column] in values)

    def rows_by(self, column: str) -> dict[str, int]:
        """How many rows each partition has got."""
        found: Counter[str] = Counter()
        for file in self.files:
            found[str(file.partition[column])] += file.rows
        return {value: rows for value, rows in found.items() if rows}

    def edges(self, column: str) -> list[tuple[Any, Any]]:
        """The least and the greatest value of each file that has some."""
        return [(file.least[column], file.most[column]) for file in self.files if column in file.least]


def file_of(version: int) -> str:
    """Its name in the log."""
    return f"{version:020}.json"


def parsed(text: str) -> Commit:
    """One version."""
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
    told = json.loads(add.get("stats") or "{}")
    least, most = told.get("minValues", {}), told.get("maxValues", {})
    return File(unquote(add["path"]), add["partitionValues"], told["numRecords"], least, most)


def with_batch(texts: Iterable[str], writer: str, batch: int) -> Commit | None:
    """The version in which `writer` brought this batch, from the newest on; None if they end before it."""
    for text in texts:
        commit = parsed(text)
        if commit.batches.get(writer) == batch:
            return commit
    return None
