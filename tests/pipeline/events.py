"""Records in the broker's format, and frames of them."""

import json
from datetime import UTC, datetime
from typing import Any, Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pyspark.sql import DataFrame, SparkSession

from pipeline import silver
from pipeline.formats import PHASES, QUOTA_CHANGES
from pipeline.gold import clients
from pipeline.sources import RAW

NOON_MS: Final = 1_763_726_400_000
"""2025-11-21 12:00:00 UTC."""

DAY: Final = "2025-11-21"

Row = tuple[str, int, int, datetime, bytes | None, list[tuple[str, bytes]]]


def record(
    topic: str,
    offset: int,
    value: dict[str, Any] | bytes | None,
    time_ms: int = NOON_MS,
    node: str = "1",
    cluster: str | None = None,
) -> Row:
    # As a broker writes it.
    data = json.dumps(value, separators=(",", ":")).encode() if isinstance(value, dict) else value
    headers = [("node", node.encode())]
    if cluster is not None:
        headers.append(("cluster", cluster.encode()))
    return topic, 0, offset, datetime.fromtimestamp(time_ms / 1000, UTC), data, headers


def event(second: float, **fields: Any) -> dict[str, Any]:
    """Return the fields of every event; `second` counts from noon."""
    return {"v": 1, "time_ms": NOON_MS + int(second * 1000), **fields}


def request(
    second: float, *, phases: dict[str, list[list[int]]] | None = None, **fields: Any
) -> dict[str, Any]:
    """Return a request; `phases` are pairs of an edge and a count."""
    event = request_before(second, **fields) | {"v": 3}
    pairs = {name: (phases or {}).get(name, []) for name in PHASES}
    flat = {
        "local_us": sum(us * count for us, count in pairs["local"]),
        "buckets": [10 * us + place for place, each in enumerate(pairs.values()) for us, _ in each],
        "counts": [count for each in pairs.values() for _, count in each],
    }
    event.pop("phases")
    return flat | event | fields


def request_before(second: float, **fields: Any) -> dict[str, Any]:
    """Return a request in the first version of its format."""
    usual = {
        "source": "client",
        "principal": "alice",
        "client_id": "a",
        "api": "Produce",
        "requests": 1,
        "bytes_in": 0,
        "bytes_out": 0,
        "throttle_ms": 0,
        "errors": {},
        "timed": 0,
        "phases": {},
    }
    return event(second, **(usual | fields))


def throttle(second: float, **fields: Any) -> dict[str, Any]:
    usual = {
        "kind": "produce",
        "entity": {"user": "alice"},
        "principal": "alice",
        "client_id": "a",
        "connection": "c",
        "listener": "PLAINTEXT",
        "address": "10.0.0.1",
        "observed": 2.0,
        "bound": 1.0,
        "count": 1,
        "throttle_ms": 100,
        "longest_ms": 100,
    }
    return event(second, **(usual | fields))


def connection(second: float, **fields: Any) -> dict[str, Any]:
    usual = {"event": "opened", "listener": "PLAINTEXT", "address": "10.0.0.1", "count": 1}
    return event(second, **(usual | fields))


def quota_change(second: float, version: int, **fields: Any) -> dict[str, Any]:
    usual = {"key": "producer_byte_rate", "old": None, "actor": "op", "role": "admin", "door": "rest"}
    return event(second, version=version, **(usual | fields))


def shadow_mark(second: float, version: int, *, shadow: bool, **fields: Any) -> dict[str, Any]:
    usual = {"event": "shadow", "actor": "op", "role": "admin", "origin": "rest", "shadow": shadow}
    return event(second, version=version, **(usual | fields)) | {"v": 2}


def abort(second: float, **fields: Any) -> dict[str, Any]:
    """Return a transaction that the broker aborted."""
    usual = {
        "event": "aborted",
        "reason": "timed_out",
        "transactional_id": "t",
        "producer_id": 7,
        "producer_epoch": 1,
        "principal": "alice",
        "client_id": "a",
        "address": "10.0.0.1",
        "timeout_ms": 60_000,
        "started_ms": NOON_MS,
        "open_ms": 60_100,
        "partitions": {"orders": [0, 3]},
        "partition_count": 2,
    }
    return event(second, **(usual | fields))


Rule = tuple[dict[str, str | None], dict[str, float], bool]
"""One part of a snapshot: an entity, its limits, and its shadow mode."""


def snapshot(second: float, version: int, name: str, *rules: Rule) -> list[dict[str, Any]]:
    """Return all parts of a snapshot, in order."""
    usual = {"event": "snapshot", "snapshot": name, "parts": 1 + len(rules), "version": version}
    head = event(second, part=0, **usual) | {"v": 2}
    return [head] + [
        head | {"part": part, "entity": entity, "limits": limits, "shadow": is_shadow}
        for part, (entity, limits, is_shadow) in enumerate(rules, 1)
    ]


def raw(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame(rows, RAW)


def taken(spark: SparkSession, topic: str, events: list[dict[str, Any]]) -> DataFrame:
    """Return the silver rows of these events of `topic`, in its first table."""
    return _tables(spark, topic, events)[0]


def day_sums(silver_rows: DataFrame, topic: str) -> DataFrame:
    """Return the sums of clients per day that are made of all these rows of the topic's table."""
    for forward in clients.ALL:
        for source, rows_of in forward.sources.items():
            if source == silver.TABLES[topic]:
                return forward.add_up(rows_of(silver_rows))
    raise ValueError(f"{topic} has no sums, expected one of the sources in pipeline.gold.clients")


def taken_quotas(spark: SparkSession, events: list[dict[str, Any]]) -> tuple[DataFrame, DataFrame]:
    """Return the rows of silver.quota_changes and those of silver.quota_snapshots."""
    changes, parts = _tables(spark, QUOTA_CHANGES, events)
    return changes, parts


def _tables(spark: SparkSession, topic: str, events: list[dict[str, Any]]) -> list[DataFrame]:
    rows = [record(topic, at, each, each["time_ms"]) for at, each in enumerate(events)]
    accepted = silver.valid_rows(silver.parse_events(raw(spark, rows), topic))
    return [frame for _, frame in silver.by_table(topic, accepted)]


def rows_of(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Return sorted rows, with times as text."""
    found = [tuple(_plain(row[name]) for name in columns) for row in frame.select(*columns).collect()]
    return sorted(found, key=repr)


def _plain(value: Any) -> Any:
    return value.strftime("%H:%M") if isinstance(value, datetime) else value
