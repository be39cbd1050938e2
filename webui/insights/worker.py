"""The process that reads the warehouse: one question per line on standard input, answers on standard output.

webui.insights.reader starts it as `python -m webui.insights.worker WAREHOUSE`; it ends with its input. An
answer is a line of JSON, followed by a body of `size` bytes: the JSON for the REST client, which the broker
passes on without parsing. Independent of trio and of the broker.
"""

import json
import math
import os
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webui.insights.location import is_remote, of_table, storage_options
from webui.insights.tables import KINDS, OPTIONAL, OPTIONAL_OF, TABLES, TEXTS
from webui.tables.cursor import write_cursor

if TYPE_CHECKING:
    from deltalake import DeltaTable

MAX_MEMORY: Final = 2 << 30
MAX_BODY: Final = 2 << 20
"""Maximum size of a body; the page ends here, with `next`, even if it has fewer rows than requested."""

GAPS: Final = 20
"""Number of a table's last versions from which the write interval is derived."""

ENGINE: Final = {"datafusion.execution.target_partitions": "1"}
JSON_COLUMNS: Final = ("rule", "sharer")
"""The pipeline writes entities as JSON."""

Answer = tuple[dict[str, Any], bytes]


class Unreadable(Exception):  # noqa: N818 - describes a table
    """An unreadable table. `state` is `none`, `foreign`, `gone` or `damaged`."""

    def __init__(self, state: str, message: str) -> None:
        super().__init__(message)
        self.state = state


class Warehouse:
    """The open tables. They stay open, so that the next question reads only new log entries."""

    def __init__(self, root: Path | str) -> None:
        self.root = str(root)
        self._options = storage_options(self.root, os.environ)
        self._open: dict[str, DeltaTable] = {}

    def table(self, name: str, version: int | None = None) -> "DeltaTable":
        """Return the newest version of a table, or `version`. Raises Unreadable."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        folder = of_table(self.root, f"gold/{name}")
        if not is_remote(self.root) and not (Path(folder) / "_delta_log").is_dir():
            self._open.pop(name, None)
            raise Unreadable("none", f"There is no table {name} yet.")
        try:
            if version is not None:
                found = DeltaTable(folder, version=version, storage_options=self._options)
            elif name in self._open:
                found = self._open[name]
                found.update_incremental()
            else:
                found = DeltaTable(folder, storage_options=self._options)
        except TableNotFoundError as error:
            raise Unreadable("none", f"There is no table {name} yet.") from error
        except (DeltaError, OSError, ValueError) as error:
            self._open.pop(name, None)
            if version is not None:
                raise Unreadable("gone", f"Version {version} of {name} no longer exists.") from error
            raise Unreadable("damaged", f"The log of the table {name} cannot be read.") from error
        if version is None:
            self._open[name] = found
        check_columns(name, found)
        return found

    def forget(self, name: str) -> None:
        self._open.pop(name, None)


def check_columns(name: str, table: "DeltaTable") -> None:
    """Raises Unreadable for a table that the pipeline did not write."""
    columns_present = {each.name: _kind(each.type) for each in table.schema().fields}
    for column, kind in TABLES[name].items():
        if column not in columns_present:
            raise Unreadable("foreign", f"The table {name} has no column {column}: another program wrote it.")
        if columns_present[column] != kind:
            raise Unreadable("foreign", f"The column {column} of {name} is not a {kind}.")


def missing_columns(name: str, table: "DeltaTable") -> dict[str, str]:
    """Return the optional columns that a table of an earlier version lacks, with their SQL types."""
    columns_present = {each.name for each in table.schema().fields}
    wanted = {**OPTIONAL, **OPTIONAL_OF.get(name, {})}
    return {column: kind for column, kind in wanted.items() if column not in columns_present}


def _kind(type_: Any) -> str | None:
    if hasattr(type_, "element_type"):
        return TEXTS if KINDS.get(getattr(type_.element_type, "type", "")) == "text" else None
    return KINDS.get(getattr(type_, "type", ""))


def rows_of(warehouse: Warehouse, question: Mapping[str, Any]) -> Answer:
    """Answer a question: table, sql, offset, limit, version (None: the newest), head (added to the body),
    cursor_digest (for the cursor of the next page; None for an answer in one piece), known (the caller's
    cached [id, version], or None).
    """
    from deltalake import QueryBuilder

    name, offset, limit = question["table"], question["offset"], question["limit"]
    table = warehouse.table(name, question["version"])
    stamp = [table.metadata().id, table.version()]
    if question["known"] == stamp:
        return {"outcome": "same"}, b""
    sql = f"{question['sql']} LIMIT {limit + 1} OFFSET {offset}"
    if missing := missing_columns(name, table):
        nulls = ", ".join(f'CAST(NULL AS {kind}) AS "{column}"' for column, kind in missing.items())
        sql = f"WITH t AS (SELECT *, {nulls} FROM older) {sql}"  # noqa: S608 - our own names
    engine = QueryBuilder(ENGINE).register("older" if missing else "t", table)
    try:
        found = engine.execute(sql).read_all()
        items = [_plain(row.as_py()) for batch in found.to_batches() for row in batch.to_struct_array()]
    except Exception as error:
        # The engine has no specific exception type. If files were removed, the log shows it by now.
        warehouse.forget(name)
        message = f"A file of the table {name} is missing or cannot be read."
        raise Unreadable("gone" if question["version"] is not None else "damaged", message) from error
    kept = _limit_size(items[:limit])
    digest = question["cursor_digest"]
    place = [stamp[1], offset + len(kept)]
    more = write_cursor(digest, place) if digest is not None and len(kept) < len(items) else None
    head = question["head"] | {"version": stamp[1], "written_at": _written(table), "items": kept}
    body = _json(head | ({} if digest is None else {"next": more}))
    return {"outcome": "rows", "stamp": stamp, "size": len(body)}, body


def _limit_size(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    size = 0
    for count, item in enumerate(items):
        size += len(_json(item))
        if size > MAX_BODY and count:
            return items[:count]
    return items


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row for JSON."""
    made = {}
    for name, value in row.items():
        if name == "at" or name.endswith("_at"):
            made[name] = None if value is None else utc(value // 1_000)
        elif name in JSON_COLUMNS:
            made[name] = json.loads(value)
        else:
            made[name] = _plain_value(value)
    return made


def _plain_value(value: Any) -> Any:
    """Convert a value for JSON; a number that JSON does not have becomes null."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case date():
            return value.isoformat()
        case list():
            return [_plain_value(each) for each in value]
        case _:
            return value


def look(warehouse: Warehouse, _question: Mapping[str, Any]) -> Answer:
    """Return the states of all tables, from their logs alone."""
    from deltalake.exceptions import DeltaError

    states = []
    for name in TABLES:
        row: dict[str, Any] = dict.fromkeys(
            (
                "version",
                "rows",
                "files",
                "bytes",
                "newest_at",
                "newest_day",
                "written_at",
                "gap_ms",
                "problem",
            )
        )
        try:
            row |= {"state": "there"} | _described(warehouse.table(name))
        except Unreadable as error:
            row |= {"state": error.state, "problem": str(error) if error.state != "none" else None}
        except (DeltaError, OSError, ValueError, RuntimeError):
            warehouse.forget(name)
            row |= {"state": "damaged", "problem": f"The log of the table {name} cannot be read."}
        states.append({"name": name} | row)
    body = _json(states)
    return {"outcome": "tables", "size": len(body)}, body


def _described(table: "DeltaTable") -> dict[str, Any]:
    columns = table.get_add_actions(flatten=True)
    columns_present = set(columns.schema.names)

    def values(name: str) -> Iterator[Any]:
        if name in columns_present:
            yield from (each.as_py() for each in columns.column(name) if each.is_valid)

    times = [each["timestamp"] for each in table.history(GAPS) if "timestamp" in each]
    newest = max(values("max.minute"), default=None)
    day = max(values("partition.date"), default=None)
    return {
        "version": table.version(),
        "rows": sum(values("num_records")),
        "files": sum(1 for _ in values("size_bytes")),
        "bytes": sum(values("size_bytes")),
        "newest_at": None if newest is None else utc(int(newest.timestamp() * 1_000)),
        "newest_day": None if day is None else str(day),
        "written_at": utc(times[0]) if times else None,
        "gap_ms": max((late - early for late, early in pairwise(times)), default=None),
    }


def _written(table: "DeltaTable") -> str | None:
    """Return when the version was written, if the log has its timestamp, which writers may omit."""
    version = table.version()
    times = (each.get("timestamp") for each in table.history(1) if each.get("version") == version)
    return next((utc(ms) for ms in times if ms is not None), None)


def utc(epoch_ms: int) -> str:
    moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


QUESTION_KINDS: Final[Mapping[str, Callable[[Warehouse, Mapping[str, Any]], Answer]]] = {
    "rows": rows_of,
    "look": look,
}


def answer(warehouse: Warehouse, question: Mapping[str, Any]) -> Answer:
    try:
        return QUESTION_KINDS[question["ask"]](warehouse, question)
    except Unreadable as error:
        return {"outcome": error.state, "message": str(error)}, b""
    except ImportError:
        return {"outcome": "missing"}, b""


def main() -> None:
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
    warehouse = Warehouse(sys.argv[1])
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        head, body = answer(warehouse, json.loads(line))
        out.write(_json(head) + b"\n" + body)
        out.flush()


if __name__ == "__main__":
    main()
