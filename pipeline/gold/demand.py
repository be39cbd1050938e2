"""What one name used in each second of a day, and the minutes in which a limit held it back.

Made by `advice` from rows of `seconds.SECONDS` and `throttling.THROTTLING`, of all of the name's clients
and a cluster's brokers. A client that waits for a throttle sends less than it would: such a minute shows what
the limit allowed, and not what was needed.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from broker.quotas.kinds import QuotaKind
from pipeline.gold.seconds import SECOND, SUMS
from pipeline.times import MINUTES_OF_A_DAY

SECONDS_OF_A_DAY: Final = MINUTES_OF_A_DAY * 60

NANOSECONDS_OF_ONE_PERCENT: Final = 10_000_000


class Key(NamedTuple):
    """Where the use of one quota key is found. `held_by` are the kinds of throttles that count for it;
    `unit` is how much of `used`, times `factor`, is 1 of the key.
    """

    name: str
    kind: QuotaKind
    used: str
    requests: str
    throttle_ms: str
    held_by: frozenset[str]
    factor: int = 1
    unit: int = 1


KEYS: Final = (
    Key(
        "producer_byte_rate",
        QuotaKind.PRODUCE,
        *("produce_bytes", "produce_requests", "produce_throttle_ms"),
        frozenset({QuotaKind.PRODUCE, QuotaKind.BROKER_PRODUCE}),
    ),
    Key(
        "consumer_byte_rate",
        QuotaKind.FETCH,
        *("fetch_bytes", "fetch_requests", "fetch_throttle_ms"),
        frozenset({QuotaKind.FETCH, QuotaKind.BROKER_FETCH, QuotaKind.BROKER_SLOW_FETCH}),
    ),
    Key(
        "request_percentage",
        QuotaKind.REQUEST,
        *("handler_us", "requests", "throttle_ms"),
        # Whatever throttles a client makes it send fewer requests.
        frozenset(QuotaKind),
        1_000,
        NANOSECONDS_OF_ONE_PERCENT,
    ),
)


class Held(NamedTuple):
    """What the limits of the day did to a name. `minutes` marks those of the day in which one held.

    `requests` are throttled requests, `ms` the sum over the minutes of a throttled connection's mean wait,
    and `longest_ms` the longest one. `has_events`: they are known, from events of throttles. `limit` is the
    last limit that held the whole name; None if none did, or only limits on some of its clients.
    """

    minutes: np.ndarray
    has_events: bool
    requests: int
    ms: float
    longest_ms: int
    limit: float | None


class Day:
    """The seconds of one name, and its throttles; for one thread."""

    def __init__(self) -> None:
        self._sums: dict[str, np.ndarray] = {name: np.zeros(SECONDS_OF_A_DAY, np.int64) for name in SUMS}
        self._throttles: list[dict[str, Any]] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows with the columns `at`, the number of the minute in its day, and `seconds`; those without
        `seconds` are throttles.
        """
        lists = rows.column("seconds")
        numbers: np.ndarray = np.repeat(
            rows.column("at").to_numpy(), pc.list_value_length(lists).fill_null(0).to_numpy()
        )
        flat = lists.flatten()
        fields = dict(zip((field.name for field in flat.type), flat.flatten(), strict=True))
        places = numbers * 60 + fields[SECOND].to_numpy(zero_copy_only=False)
        for name, sums in self._sums.items():
            np.add.at(sums, places, fields[name].to_numpy(zero_copy_only=False))
        self._throttles += rows.filter(lists.is_null()).drop_columns("seconds").to_pylist()

    def used(self, key: Key) -> np.ndarray:
        """Return bytes, or nanoseconds of handlers, of each second."""
        return self._sums[key.used] * key.factor

    def requests(self, key: Key) -> np.ndarray:
        return self._sums[key.requests]

    def held(self, key: Key) -> Held:
        rows = [row for row in self._throttles if row["kind"] in key.held_by]
        longest: np.ndarray = np.zeros(MINUTES_OF_A_DAY, np.int64)
        waits, connections = np.zeros(MINUTES_OF_A_DAY), np.zeros(MINUTES_OF_A_DAY)
        limit: float | None = None
        last = -1
        for row in rows:
            at = row["at"]
            longest[at] = max(longest[at], row["longest_ms"])
            waits[at] += row["throttle_ms"]
            connections[at] += max(row["connections"], 1)
            if row["is_whole"] and row["kind"] == key.kind and row["bound"] and at > last:
                limit, last = row["bound"], at
        means = np.minimum(waits / np.maximum(connections, 1), 60_000)
        return Held(
            self._held_minutes(key, longest),
            bool(rows),
            sum(row["throttles"] for row in rows),
            float(means.sum()),
            int(longest.max()),
            limit,
        )

    def _held_minutes(self, key: Key, longest: np.ndarray) -> np.ndarray:
        """Mark the minutes in which a throttle began or into which one lasted."""
        throttled = self._sums[key.throttle_ms]
        seconds = np.flatnonzero(throttled)
        # The sum is over all connections; the longest is known where throttles have events too.
        known = longest[seconds // 60]
        lasted = np.where(known > 0, np.minimum(throttled[seconds], known), throttled[seconds])
        changes: np.ndarray = np.zeros(SECONDS_OF_A_DAY + 1, np.int64)
        np.add.at(changes, seconds, 1)
        np.add.at(changes, np.minimum(seconds + lasted // 1_000 + 1, SECONDS_OF_A_DAY), -1)
        is_held = (np.cumsum(changes)[:-1] > 0).reshape(-1, 60).any(axis=1)
        is_any: np.ndarray = is_held | (longest > 0)
        return is_any
