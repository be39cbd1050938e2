"""Reads a recorded load: the records of the topic `__weir_requests`, one JSON object on a line.

    {"v":1,"time_ms":1763749800000,"source":"client","principal":"alice","client_id":"web-1","api":"Produce",
     "requests":9,"bytes_in":9000,"bytes_out":400,...}

Used by `scenario_file`; docs/events.md documents the format, of which only these fields are needed. A record
covers the second that ends at `time_ms`; the first line's second is the simulation's first. Produce counts
by `bytes_in` and FetchConsumer by `bytes_out`; other APIs, sources and fields are ignored.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from broker.common.strict_yaml import BadFileError
from broker.quotas.kinds import QuotaKind
from broker.simulation.scenario import ClientLoad

VERSIONS: Final = (1, 2)
"""The versions of the format. They differ in the name of a source that is ignored here."""

CLIENT: Final = "client"
APIS: Final = {"Produce": (QuotaKind.PRODUCE, "bytes_in"), "FetchConsumer": (QuotaKind.FETCH, "bytes_out")}
FIELDS: Final = {
    "time_ms": int,
    "principal": str,
    "client_id": str,
    "api": str,
    "requests": int,
    "bytes_in": int,
    "bytes_out": int,
}
MAX_NUMBER: Final = 2**53
"""The maximum of every number: larger integers are not exact in every JSON library."""


def read_recorded(path: Path) -> tuple[ClientLoad, ...]:
    """Return the clients in order of appearance. Raises BadFileError."""
    records: dict[tuple[str, str, str], ClientLoad] = {}
    first_ms = latest_ms = 0
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                where = f"{path.name} line {number}"
                row = _row(line, where)
                if row is None:
                    continue
                time_ms = row["time_ms"]
                if time_ms < latest_ms:
                    raise BadFileError(f"{where}: time_ms {time_ms} is less than the previous {latest_ms}")
                latest_ms = time_ms
                first_ms = first_ms or time_ms
                if row["api"] in APIS and row["requests"]:
                    _add(records, row, (time_ms - first_ms) // 1000)
    except (OSError, UnicodeDecodeError) as error:
        raise BadFileError(f"{path} cannot be read: {error}") from error
    return tuple(records.values())


def _add(records: dict[tuple[str, str, str], ClientLoad], row: Mapping[str, Any], second: int) -> None:
    key = (row["principal"], row["client_id"], row["api"])
    kind, counted = APIS[row["api"]]
    record = records.get(key)
    if record is None:
        record = records[key] = ClientLoad(row["principal"], row["client_id"], kind)
    record.seconds.append(second)
    record.requests.append(row["requests"])
    record.nbytes.append(row[counted])


def _row(line: str, where: str) -> Mapping[str, Any] | None:
    """Return the fields of one client's record; None for records of other sources."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadFileError(f"{where} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise BadFileError(f"{where} is not an object")
    if row.get("v") not in VERSIONS:
        raise BadFileError(f"{where}: v is {row.get('v')!r}, expected 1 or 2")
    if row.get("source") != CLIENT:
        return None
    for name, kind in FIELDS.items():
        value = row.get(name)
        if type(value) is not kind:
            raise BadFileError(
                f"{where}: {name} is {'missing' if value is None else 'not of type ' + kind.__name__}"
            )
        if isinstance(value, int) and not 0 <= value <= MAX_NUMBER:
            raise BadFileError(f"{where}: {name} is {value}, expected 0 to 2^53")
    return row
