"""Generates a day of clients' events as files, like `weir pipeline export`, for benchmarks.pipeline.

Activity is realistic: a few clients send all day and most now and then, more by day than by night. The same
arguments give the same bytes. Depends on the formats of docs/events.md; independent of Spark.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

DAY: Final = datetime(2026, 3, 2, tzinfo=UTC)
DAY_S: Final = 86_400
NODE: Final = b"1"
SHAPES: Final = 4_096
"""The number of different events, apart from client and time."""

FILE_ROWS: Final = 500_000
STORM_S: Final = 120

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
VERSIONS: Final = {"__weir_requests": 3}
LOCAL: Final = 1
HAVE_ALL: Final = (0, LOCAL, 3, 5)
"""The places of the phases that each request has; one that waits also has the third, `remote`."""
APIS: Final = ("Produce", "Produce", "FetchConsumer", "FetchConsumer", "Metadata", "Heartbeat")


def write_day(folder: Path, clients: int, events: int, seconds: int = DAY_S, seed: int = 7) -> int:
    """Write Parquet files of about `events` records in total within `seconds`, ordered by time within a
    topic.

    Returns the number of bytes of their values.
    """
    folder.mkdir(parents=True)
    dice = np.random.default_rng(seed)
    throttled = events // 50
    makers = {
        "__weir_requests": (events - 2 * throttled, _request_tails(dice)),
        "__weir_throttles": (throttled, _throttle_tails(dice)),
        "__weir_connections": (throttled, _connection_tails(dice)),
    }
    total = _write(folder, "__weir_quota_changes", [0], iter([_limits(clients)]))
    for topic, (count, tails) in makers.items():
        starts = list(range(0, count, FILE_ROWS))
        total += _write(folder, topic, starts, _blocks(dice, topic, count, clients, tails, seconds))
    return total


def _blocks(
    dice: np.random.Generator, topic: str, count: int, clients: int, tails: list[str], seconds: int
) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield times (ms) and values of FILE_ROWS records at a time."""
    names = pa.array([_client(topic, each) for each in range(clients)])
    pool = pa.array(tails)
    weight = 1 / (np.arange(clients) + 20)
    shares = np.cumsum(weight / weight.sum())
    times_s = _busy_seconds(count, seconds)
    for start in range(0, count, FILE_ROWS):
        here = times_s[start : start + FILE_ROWS]
        who = np.searchsorted(shares, dice.random(len(here)))
        times = pa.array(here.astype(np.int64) * 1000 + int(DAY.timestamp() * 1000))
        parts = (
            f'{{"v":{VERSIONS.get(topic, 1)},"time_ms":',
            times.cast(pa.string()),
            names.take(pa.array(np.minimum(who, clients - 1))),
            pool.take(pa.array(dice.integers(0, len(tails), len(here)))),
        )
        yield times, pc.binary_join_element_wise(*parts, "")


def _busy_seconds(count: int, within: int) -> np.ndarray:
    """Return the end of the second of each event: three times as many at noon as at midnight."""
    moment = np.arange(within + 1)
    rate = 2 - np.cos(2 * np.pi * moment / DAY_S)
    so_far = np.concatenate([[0], np.cumsum(rate[:-1])])
    seconds: np.ndarray = 1 + np.floor(
        np.interp((np.arange(count) + 0.5) / count, so_far / so_far[-1], moment)
    )
    return seconds


def _client(topic: str, number: int) -> str:
    client, user = f"client-{number:04}", f"user-{number % 97:02}"
    address = f"10.0.{number % 8}.{number % 250}"
    if topic == "__weir_requests":
        return f',"source":"client","principal":"{user}","client_id":"{client}"'
    if topic == "__weir_throttles":
        rule = json.dumps({"user": user}, separators=(",", ":"))
        return (
            f',"entity":{rule},"principal":"{user}","client_id":"{client}","listener":"SASL_SSL"'
            f',"address":"{address}","connection":"127.0.0.1:9092-{address}:{40_000 + number}-{number}"'
        )
    return f',"listener":"SASL_SSL","address":"{address}","principal":"{user}","client_id":"{client}"'


def _request_tails(dice: np.random.Generator) -> list[str]:
    def tail() -> str:
        api = APIS[dice.integers(len(APIS))]
        requests = int(dice.integers(1, 60))
        size = int(dice.integers(60, 90_000)) if api in ("Produce", "FetchConsumer") else 120
        timed = min(requests, 16)
        places = [place for place in range(6) if place in HAVE_ALL or (api == "FetchConsumer" and place == 2)]
        histograms = [(place, _histogram(dice, timed)) for place in places]
        fields = {
            "api": api,
            "requests": requests,
            "bytes_in": size if api == "Produce" else 90 * requests,
            "bytes_out": size if api == "FetchConsumer" else 70 * requests,
            "throttle_ms": int(dice.integers(0, 400)) if dice.random() < 0.02 else 0,
            "errors": {"7": 1} if dice.random() < 0.01 else {},
            "timed": timed,
            "local_us": sum(edge * count for edge, count in dict(histograms)[LOCAL]),
            "buckets": [10 * edge + place for place, pairs in histograms for edge, _ in pairs],
            "counts": [count for _, pairs in histograms for _, count in pairs],
        }
        return "," + json.dumps(fields, separators=(",", ":"))[1:]

    return [tail() for _ in range(SHAPES)]


def _histogram(dice: np.random.Generator, timed: int) -> list[tuple[int, int]]:
    """Return edges and counts of buckets whose edges are an eighth apart, like the broker's."""
    steps = np.minimum(dice.geometric(0.4, timed), 6) + int(dice.integers(20, 50))
    edges, counts = np.unique(np.ceil(1.125**steps).astype(int), return_counts=True)
    return [(int(edge), int(count)) for edge, count in zip(edges, counts, strict=True)]


def _throttle_tails(dice: np.random.Generator) -> list[str]:
    def tail() -> str:
        count, longest = int(dice.integers(1, 9)), int(dice.integers(5, 900))
        fields = {
            "kind": ("produce", "fetch", "request")[dice.integers(3)],
            "observed": round(float(1e6 * (1 + dice.random())), 1),
            "bound": 1e6,
            "count": count,
            "throttle_ms": count * longest,
            "longest_ms": longest,
        }
        return "," + json.dumps(fields, separators=(",", ":"))[1:]

    return [tail() for _ in range(SHAPES)]


def _connection_tails(dice: np.random.Generator) -> list[str]:
    def tail() -> str:
        fields: dict[str, object] = {"event": "opened", "count": int(dice.integers(1, 4))}
        if dice.random() < 0.5:
            moved = {"requests": 900, "bytes_in": 90_000, "bytes_out": 8_000, "lived_ms": 60_000}
            software = {"software_name": "librdkafka", "software_version": "2.11.0"}
            fields = {"event": "closed", "count": 1, **software, **moved}
        return "," + json.dumps(fields, separators=(",", ":"))[1:]

    return [tail() for _ in range(SHAPES)]


def _limits(clients: int) -> tuple[pa.Array, pa.Array]:
    """Return a default limit, one for every user, and one for every tenth client."""
    default: dict[str, str | None] = {"client-id": None}
    entities = [default, *({"user": f"user-{each:02}"} for each in range(97))]
    entities += [{"client-id": f"client-{each:04}"} for each in range(0, clients, 10)]
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
    pairs = [(entity, key) for entity in entities for key in keys]
    time_ms = int(DAY.timestamp() * 1000) + 1000
    values = [
        json.dumps({"v": 1, "time_ms": time_ms, "entity": entity, "key": key, "old": None, "new": 1e6,
                    "actor": "admin", "role": "admin", "address": "10.0.0.1", "door": "rest", "version": at})
        for at, (entity, key) in enumerate(pairs, 1)
    ]  # fmt: skip
    return pa.array([time_ms] * len(pairs), pa.int64()), pa.array(values)


def _write(folder: Path, topic: str, starts: list[int], blocks: Iterator[tuple[pa.Array, pa.Array]]) -> int:
    total = 0
    for start, (times, values) in zip(starts, blocks, strict=True):
        rows = len(times)
        node = pa.array([[{"key": "node", "value": NODE}]], HEADERS).take(pa.array(np.zeros(rows, np.int32)))
        columns = (
            pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([topic])).cast(
                pa.string()
            ),
            pa.array(np.zeros(rows, np.int32)),
            pa.array(np.arange(start, start + rows)),
            times.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC")),
            values.cast(pa.binary()),
            node,
        )
        table = pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)
        pq.write_table(table, folder / f"{topic.strip('_')}-{start:010}.parquet", compression="snappy")
        total += pc.sum(pc.binary_length(table["value"])).as_py()
    return total
