"""Records of each topic, some of them invalid, and the contents of a warehouse read without Spark."""

import math
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from deltalake import DeltaTable

from pipeline.formats import CONNECTIONS, QUOTA_CHANGES, REQUESTS, THROTTLES, TRANSACTIONS
from pipeline.otlp.points import CUMULATIVE
from tests.pipeline.events import (
    Row,
    abort,
    connection,
    quota_change,
    record,
    request_before,
    snapshot,
    throttle,
)
from tests.pipeline.pushes import counter, distribution, gauge, histogram, number, payload, push

PHASES: Final = {"local": [[10, 2]], "total": [[30, 2]]}

SNAPSHOT: Final = snapshot(0, 1, "s", ({"user": "alice"}, {"producer_byte_rate": 500.0}, False))

DIGITS: Final = 12
"""Return rounded values, because Spark's order of summing floats is undefined."""

Contents = dict[str, list[str]]


def some_of_everything(requests: int = 89, every_s: int = 1) -> list[Row]:
    """Return requests of three clients, and a few records of every other kind."""
    events = [
        request_before(
            1 + at * every_s, client_id="abc"[at % 3], bytes_in=100 + at % 7, timed=2, phases=PHASES
        )
        for at in range(requests)
    ]
    return [
        *(record(REQUESTS, at, each, each["time_ms"]) for at, each in enumerate(events)),
        record(REQUESTS, requests, b"not json"),
        record(REQUESTS, requests + 1, request_before(0) | {"v": 99}),
        record("__weir_tomorrow", 0, b"?"),
        record(THROTTLES, 0, throttle(1)),
        record(THROTTLES, 1, throttle(62, bound=3.0)),
        record(QUOTA_CHANGES, 0, quota_change(-1, 1, entity={"user": "alice"}, new=500.0)),
        *(record(QUOTA_CHANGES, 1 + at, part) for at, part in enumerate(SNAPSHOT)),
        record(CONNECTIONS, 0, connection(1, count=80)),
        record(CONNECTIONS, 1, connection(2, event="closed", client_id="a", principal="alice")),
        record(CONNECTIONS, 2, connection(2, event="closed", client_id="a", principal="bob")),
        record(TRANSACTIONS, 0, abort(3)),
        push(0, payload(gauge("g", number(1, 1.0), number(61, float("nan"))))),
        push(1, payload(histogram("h", distribution(1, [1])))),
        push(2, b"?"),
        push(3, payload(counter("c", number(181, 9), temporality=CUMULATIVE)), 180),
        # A cumulative value from before the previous one.
        push(4, payload(counter("c", number(61, 5), temporality=CUMULATIVE))),
    ]


def contents(warehouse: str | Path) -> Contents:
    """Return every Delta table's rows in a fixed order."""
    logs = sorted(Path(warehouse).glob("*/*/_delta_log"))
    return {str(log.parent.relative_to(warehouse)): rows_of_table(DeltaTable(log.parent)) for log in logs}


def rows_of_table(delta: DeltaTable) -> list[str]:
    """Return a table's rows in a fixed order."""
    table = delta.to_pyarrow_table()
    columns = sorted(table.column_names)
    rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
    return sorted(repr([_plain(each) for each in row]) for row in rows)


def _plain(value: Any) -> Any:
    match value:
        case float() if math.isfinite(value):
            return float(f"{value:.{DIGITS}g}")
        case list() | tuple():
            return [_plain(each) for each in value]
        case dict():
            return {name: _plain(each) for name, each in value.items()}
    return value
