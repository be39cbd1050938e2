"""Small gold tables as the pipeline writes them, without Spark."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

deltalake: Any = pytest.importorskip("deltalake", reason="deltalake is not installed: make .venv/dev")

SCHEMAS = {
    "usage_per_minute": "date DATE, minute TIMESTAMP, node INT, principal STRING, client_id STRING, "
    "produce_bytes BIGINT, fetch_bytes BIGINT, requests BIGINT, errors BIGINT, throttle_ms BIGINT, "
    "handler_us BIGINT, cluster STRING",
    "phase_quantiles_per_minute": "date DATE, minute TIMESTAMP, node INT, api STRING, phase STRING, "
    "timed BIGINT, p50_us BIGINT, p95_us BIGINT, p99_us BIGINT, max_us BIGINT, bucket_us BIGINTS, "
    "bucket_counts BIGINTS, cluster STRING",
    "latency_by_software_per_day": "date DATE, software_name STRING, software_version STRING, "
    "attribution STRING, api STRING, clients BIGINT, timed BIGINT, p50_us BIGINT, p95_us BIGINT, "
    "p99_us BIGINT, max_us BIGINT, bucket_us BIGINTS, bucket_counts BIGINTS, cluster STRING",
    "throttling_per_minute": "date DATE, minute TIMESTAMP, node INT, kind STRING, rule STRING, "
    "principal STRING, client_id STRING, throttles BIGINT, throttle_ms BIGINT, longest_ms BIGINT, "
    "observed DOUBLE, bound DOUBLE, connections BIGINT, cluster STRING",
    "quota_utilisation_per_minute": "date DATE, minute TIMESTAMP, node INT, key STRING, rule STRING, "
    "sharer STRING, rate DOUBLE, limit DOUBLE, clients BIGINT, utilisation DOUBLE, cluster STRING",
    "connection_storms": "date DATE, minute TIMESTAMP, node INT, listener STRING, address STRING, "
    "opened BIGINT, refused BIGINT, throttled BIGINT, attempts BIGINT, cluster STRING",
    "shared_client_ids_per_day": "date DATE, client_id STRING, principals STRINGS, addresses STRINGS, "
    "connections BIGINT, is_shared_by_principals BOOLEAN, cluster STRING",
    "top_offenders_per_day": "date DATE, principal STRING, client_id STRING, by STRING, total BIGINT, "
    "rank INT, share DOUBLE, cluster STRING",
    "throttle_compliance_per_day": "date DATE, principal STRING, client_id STRING, software_name STRING, "
    "software_version STRING, connections BIGINT, throttles BIGINT, throttle_ms BIGINT, waited BIGINT, "
    "sent_early BIGINT, early_share DOUBLE, obeys BOOLEAN, cluster STRING",
    "client_metrics_per_minute": "date DATE, minute TIMESTAMP, client_instance_id STRING, client_id STRING, "
    "principal STRING, metric STRING, shape STRING, points BIGINT, min DOUBLE, max DOUBLE, mean DOUBLE, "
    "increase DOUBLE, count BIGINT, sum DOUBLE, cluster STRING",
    "lost_records": "date DATE, time TIMESTAMP, cluster STRING, topic STRING, partition INT, first BIGINT, "
    "last BIGINT, records BIGINT",
    "quota_advice": "date DATE, user STRING, client_id STRING, key STRING, minutes BIGINT, needed DOUBLE, "
    "peak DOUBLE, recommended DOUBLE, reason STRING, censored_minutes BIGINT, held_limit DOUBLE, "
    "basis STRING, throttled_requests_share DOUBLE, throttled_time_share DOUBLE, longest_wait_ms BIGINT, "
    "cluster STRING",
}
"""Columns of pipeline.gold, in Spark's types; the cluster last, as most rows have none."""

ARROW = {
    "DATE": "Date32",
    "TIMESTAMP": 'Timestamp(Microsecond, Some("UTC"))',
    "INT": "Int32",
    "BIGINT": "Int64",
    "DOUBLE": "Float64",
    "STRING": "Utf8",
    "BOOLEAN": "Boolean",
    "BIGINTS": "List(Int64)",
}


def write(root: Path, name: str, rows: Sequence[Sequence[Any]], schema: str | None = None) -> None:
    """Appends rows as one version; the columns of `schema` (SCHEMAS' unless given) in order. Columns that a
    row lacks at its end are null.
    """
    columns = [tuple(each.split()) for each in (schema or SCHEMAS[name]).split(", ")]
    rows = [(*row, *[None] * (len(columns) - len(row))) for row in rows]
    selected = ", ".join(
        f'{_cast(f"column{at}", kind)} AS "{column}"' for at, (column, kind) in enumerate(columns, 1)
    )
    values = ", ".join(f"({', '.join(map(_value, row))})" for row in rows)
    made = deltalake.QueryBuilder().execute(f"SELECT {selected} FROM (VALUES {values})").read_all()
    deltalake.write_deltalake(str(root / "gold" / name), made, partition_by=["date"], mode="append")


def _cast(column: str, kind: str) -> str:
    return column if kind == "STRINGS" else f"arrow_cast({column}, '{ARROW[kind]}')"


def _value(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case list():
            return f"make_array({', '.join(map(_value, value))})"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case _:
            return str(value)


def at(text: str) -> tuple[str, str]:
    """Day and minute, of "2026-01-02 03:04"."""
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return text[:10], moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def usage(minute: str, user: str, client_id: str, *figures: int) -> tuple[Any, ...]:
    """Bytes in and out, requests, errors, throttle ms, handler µs."""
    return (*at(minute), 1, user, client_id, *(*figures, 0, 0, 0, 0, 0, 0)[:6])


def event(second: int, day: str, **more: Any) -> dict[str, Any]:
    """Of `__weir_requests`, so many seconds after midnight of the day."""
    at_ms = round(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1_000) + second * 1_000
    return {
        "v": 1,
        "time_ms": at_ms,
        "source": "client",
        "principal": "alice",
        "client_id": "a",
        "api": "Produce",
        "requests": 1,
        "bytes_in": 1_000,
        "bytes_out": 0,
        **more,
    }


def record(
    root: Path,
    day: str,
    values: Sequence[dict[str, Any] | bytes],
    node: str = "1",
    first: int = 0,
    cluster: str | None = None,
) -> None:
    """Appends events to bronze, as one version recorded on `day`; offsets from `first` on."""
    rows = ", ".join(
        f"({first + number}, '{(value if isinstance(value, bytes) else json.dumps(value).encode()).hex()}')"
        for number, value in enumerate(values)
    )
    sql = (
        "SELECT '__weir_requests' AS topic, arrow_cast(0, 'Int32') AS partition, column1 AS \"offset\", "
        f"decode(column2, 'hex') AS value, {_headers(node, cluster)} AS headers, DATE '{day}' AS date "
        f"FROM (VALUES {rows})"
    )
    made = deltalake.QueryBuilder().execute(sql).read_all()
    folder = str(root / "bronze/events")
    deltalake.write_deltalake(folder, made, partition_by=["date", "topic"], mode="append")


def put_aside(root: Path, day: str, *offsets: int, cluster: str | None = None) -> None:
    """In quarantine."""
    rows = ", ".join(f"({offset})" for offset in offsets)
    sql = (
        "SELECT '__weir_requests' AS topic, arrow_cast(0, 'Int32') AS partition, column1 AS \"offset\", "
        f"'no time' AS reason, {_headers('1', cluster)} AS headers, DATE '{day}' AS date "
        f"FROM (VALUES {rows})"
    )
    made = deltalake.QueryBuilder().execute(sql).read_all()
    folder = str(root / "silver/quarantine")
    deltalake.write_deltalake(folder, made, partition_by=["date"], mode="append")


def _headers(node: str, cluster: str | None) -> str:
    texts = {"node": node} | ({} if cluster is None else {"cluster": cluster})
    each = (f"named_struct('key', '{key}', 'value', {_bytes(text)})" for key, text in texts.items())
    return f"make_array({', '.join(each)})"


def _bytes(text: str) -> str:
    return f"decode('{text.encode().hex()}', 'hex')"
