"""Clients that produce by a schedule, under the broker's own quota on a simulated clock, and their day.

A client has one connection and one request in flight. What it could not send in time it sends as soon as it
can. This is not broker.simulation: every request is one, of its own size.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

import pyarrow as pa

from broker.common.clock import BASE_MS
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity
from pipeline.gold.demand import Day
from pipeline.gold.seconds import SUMS

REQUEST_BYTES = 20_000
LATENCY_MS = 2

Schedule = Callable[[int], int]
"""The bytes that a client wants to send in a second."""


def steady(second: int) -> int:
    return 200_000


def bursty(second: int) -> int:
    """Return 600 kB for ten seconds of each minute."""
    return 600_000 if second % 60 < 10 else 0


def saturated(second: int) -> int:
    return 600_000


def mixed(second: int) -> int:
    """Return a steady rate with a burst every third minute and one higher peak an hour."""
    peak = 1_500_000 if second % 3600 < 5 else 0
    return 100_000 + peak + (bursty(second) if second // 60 % 3 == 0 else 0)


KINDS: dict[str, Schedule] = {"steady": steady, "bursty": bursty, "saturated": saturated, "mixed": mixed}


def due_ms(schedule: Schedule, minutes: int) -> Iterator[int]:
    """Yield when each request is due."""
    for second in range(minutes * 60):
        count = schedule(second) // REQUEST_BYTES
        for number in range(count):
            yield second * 1_000 + number * 1_000 // count


@dataclass
class Played:
    """What happened: by second, bytes, requests and throttle times; and each throttle's time and length."""

    minutes: int
    limit: float | None
    requests: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    throttle_ms: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    throttles: list[tuple[int, int]] = field(default_factory=list)

    @property
    def requests_share(self) -> float:
        return len(self.throttles) / sum(self.requests.values())

    @property
    def time_share(self) -> float:
        """The throttled share of the minutes in which the client was active."""
        active = len({second // 60 for second in self.requests})
        return sum(ms for _, ms in self.throttles) / (active * 60_000)

    @property
    def longest_ms(self) -> int:
        return max((ms for _, ms in self.throttles), default=0)

    def day(self) -> Day:
        day = Day()
        day.add(pa.RecordBatch.from_pylist([*self._seconds(), *self._held()], SCHEMA))
        return day

    def _seconds(self) -> Iterator[dict[str, object]]:
        for minute in range(self.minutes):
            seconds = [
                dict.fromkeys(SUMS, 0)
                | {
                    "second": second % 60,
                    "produce_bytes": self.requests[second] * REQUEST_BYTES,
                    "produce_requests": self.requests[second],
                    "produce_throttle_ms": self.throttle_ms[second],
                }
                for second in range(minute * 60, minute * 60 + 60)
                if self.requests.get(second)
            ]
            yield {"at": minute, "seconds": seconds}

    def _held(self) -> Iterator[dict[str, object]]:
        by_minute: dict[int, list[int]] = defaultdict(list)
        for at_ms, ms in self.throttles:
            by_minute[at_ms // 60_000].append(ms)
        for minute, each in by_minute.items():
            yield {
                "at": minute,
                "kind": "produce",
                "throttles": len(each),
                "throttle_ms": sum(each),
                "longest_ms": max(each),
                "connections": 1,
                "bound": self.limit,
                "is_whole": True,
            }


SCHEMA = pa.schema(
    [
        ("at", pa.int32()),
        (
            "seconds",
            pa.list_(pa.struct([("second", pa.int8()), *((name, pa.int64()) for name in SUMS)])),
        ),
        ("kind", pa.string()),
        *((name, pa.int64()) for name in ("throttles", "throttle_ms", "longest_ms", "connections")),
        ("bound", pa.float64()),
        ("is_whole", pa.bool_()),
    ]
)


@cache
def play(schedule: Schedule, limit: float | None, minutes: int = 60) -> Played:
    """Return what happens to a client in the first minutes of a day; None is no limit. Not to be changed."""
    quotas = ClientQuotas()
    if limit is not None:
        quotas.apply(Entity(user="u"), "producer_byte_rate", limit)
    played, free_ms = Played(minutes, limit), 0
    for due in due_ms(schedule, minutes):
        at_ms = max(due, free_ms)
        if at_ms >= minutes * 60_000:
            break
        throttle = quotas.produce.record("u", "c", REQUEST_BYTES, BASE_MS + at_ms)
        played.requests[at_ms // 1_000] += 1
        free_ms = at_ms + LATENCY_MS
        if throttle is not None:
            played.throttle_ms[at_ms // 1_000] += throttle.throttle_ms
            played.throttles.append((at_ms, throttle.throttle_ms))
            free_ms += throttle.throttle_ms
    return played
