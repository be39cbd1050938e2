"""Tables of a month of invented tenants, for the pictures of the page Insights. Used by demo.pictures.

Real tables need days of load. The columns are those that the tests of the page use.
"""

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from tests.webui.insights.warehouse import at, write

DAYS: Final = 30
STEPS: Final = 4
"""Minutes with use in an hour."""

TENANTS: Final = {"billing": 0.9e6, "orders": 2.4e6, "reports": 0.5e6, "search": 1.6e6, "audit": 0.2e6}
"""Bytes a second at the busiest hour of the first day."""

GROWTH: Final = {"orders": 0.03, "search": -0.01, "billing": 0.01}
"""Of a day's bytes, to the next day."""

SOFTWARE: Final = (
    ("librdkafka", "2.15.0", 21_000),
    ("librdkafka", "2.16.0", 17_000),
    ("apache-kafka-java", "4.1.1", 9_000),
)
"""Names, versions and the p99 of their Produce requests in microseconds."""


def write_tables(root: Path) -> None:
    """Write gold tables of the days before today."""
    draw = random.Random(1)  # noqa: S311 - the same pictures each time, no secrets
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [today - timedelta(days=back) for back in range(DAYS, 0, -1)]
    write(root, "usage_per_minute", list(_usage(days, draw)))
    write(root, "phase_quantiles_per_minute", list(_phases(days, draw)))
    write(root, "quota_advice", list(_advice(days, draw)))
    write(root, "throttling_per_minute", list(_throttling(days, draw)))
    write(root, "quota_utilisation_per_minute", list(_utilisation(days, draw)))
    write(root, "throttle_compliance_per_day", list(_compliance(days, draw)))
    write(root, "latency_by_software_per_day", list(_software(days, draw)))
    write(root, "top_offenders_per_day", list(_offenders(days)))


def _rule(tenant: str) -> str:
    return f'{{"user":"{tenant}"}}'


def _level(tenant: str, number: int, hour: float = 14) -> float:
    """Return the tenant's bytes a second on a day, at an hour of it."""
    busy = 0.55 + 0.45 * math.cos((hour - 14) / 24 * 2 * math.pi)
    return TENANTS[tenant] * (1 + GROWTH.get(tenant, 0)) ** number * busy


def _minutes(days: list[datetime]) -> Iterator[tuple[int, float, tuple[str, str]]]:
    for number, day in enumerate(days):
        for step in range(24 * STEPS):
            hour = step / STEPS
            yield number, hour, at((day + timedelta(hours=hour)).strftime("%Y-%m-%d %H:%M"))


def _usage(days: list[datetime], draw: random.Random) -> Iterator[tuple[Any, ...]]:
    for number, hour, minute in _minutes(days):
        for tenant in TENANTS:
            sent = int(_level(tenant, number, hour) * 60 * draw.uniform(0.8, 1.2))
            requests = sent // 16_000
            yield (*minute, 1, tenant, f"{tenant}-app", sent, sent * 2, requests, 0, 0, requests * 40)


def _phases(days: list[datetime], draw: random.Random) -> Iterator[tuple[Any, ...]]:
    for _, _, minute in _minutes(days):
        for api, base in (("Produce", 300), ("FetchConsumer", 900), ("Metadata", 60)):
            for phase, share in (("total", 1.0), ("local", 0.4), ("queue", 0.2)):
                p50 = int(base * share * draw.uniform(0.9, 1.2))
                yield (*minute, 1, api, phase, 2_000, p50, p50 * 3, p50 * 8, p50 * 20)


def _advice(days: list[datetime], draw: random.Random) -> Iterator[tuple[Any, ...]]:
    for number, day in enumerate(days):
        for tenant in TENANTS:
            needed = _level(tenant, number) * draw.uniform(0.95, 1.05)
            recommended = float(f"{needed * 1.25:.1e}")
            reason = "The smallest limit that hardly throttles, plus a quarter"
            yield (
                *(day.strftime("%Y-%m-%d"), tenant, None, "producer_byte_rate", 1_440),
                *(needed, needed * 1.1, recommended, reason, 0, None, "simulated", 0.001, 0.0005, 300),
            )


def _throttling(days: list[datetime], draw: random.Random) -> Iterator[tuple[Any, ...]]:
    for _, hour, minute in _minutes(days):
        if 10 <= hour < 18:
            for tenant, share in (("orders", 1.0), ("search", 0.4)):
                count = int(20 * share * draw.uniform(0.5, 1.5)) + 1
                yield (
                    *(*minute, 1, "produce", _rule(tenant), tenant, f"{tenant}-app"),
                    *(count, count * 180, 900, 2.2e6, 2e6, 3),
                )


def _utilisation(days: list[datetime], draw: random.Random) -> Iterator[tuple[Any, ...]]:
    for number, hour, minute in _minutes(days[-7:]):
        for tenant, limit in (("orders", 5.5e6), ("search", 2e6), ("billing", 4e6)):
            rate = min(_level(tenant, number + DAYS - 7, hour) * draw.uniform(0.9, 1.1), limit * 1.02)
            key = "producer_byte_rate"
            yield (*minute, 1, key, _rule(tenant), f'["{tenant}"]', rate, limit, 3, rate / limit)


def _compliance(days: list[datetime], draw: random.Random) -> Iterator[tuple[Any, ...]]:
    for day in days:
        for tenant, software, obeys in (("orders", SOFTWARE[2], True), ("search", SOFTWARE[0], False)):
            throttles = draw.randint(200, 400)
            early = 0 if obeys else throttles * 3 // 4
            yield (
                *(day.strftime("%Y-%m-%d"), tenant, f"{tenant}-app", software[0], software[1], 3),
                *(throttles, throttles * 180, throttles - early, early, early / throttles, obeys),
            )


def _software(days: list[datetime], draw: random.Random) -> Iterator[tuple[Any, ...]]:
    for day in days:
        for name, version, p99 in SOFTWARE:
            slow = int(p99 * draw.uniform(0.8, 1.2))
            yield (
                *(day.strftime("%Y-%m-%d"), name, version, "one", "Produce", 4),
                *(90_000, slow // 20, slow // 4, slow, slow * 3),
            )


def _offenders(days: list[datetime]) -> Iterator[tuple[Any, ...]]:
    for number, day in enumerate(days):
        totals = {tenant: int(_level(tenant, number) * 86_400) for tenant in TENANTS}
        ranked = sorted(totals, key=totals.__getitem__, reverse=True)
        for rank, tenant in enumerate(ranked, 1):
            share = totals[tenant] / sum(totals.values())
            figures = (f"{tenant}-app", "produce_bytes", totals[tenant], rank, share)
            yield (day.strftime("%Y-%m-%d"), tenant, *figures)
