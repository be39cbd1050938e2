"""Gold per minute: usage, latency, throttling, storms. Small cases, computed by hand."""

import random
from collections import Counter
from math import ceil

import pytest

from pipeline import silver
from pipeline.formats import CONNECTIONS, MAX_COUNT, REQUESTS, THROTTLES
from pipeline.gold.connections import connection_storms
from pipeline.gold.latency import phase_quantiles_per_minute
from pipeline.gold.throttling import throttle_compliance_per_day, throttling_per_minute
from pipeline.gold.usage import top_offenders_per_day, usage_per_minute
from tests.pipeline.events import connection, day_sums, request, request_before, rows_of, taken, throttle

BIG = 2**62 - 1
"""Twice this is the largest number of 64 bits less one."""

USAGE = (
    "minute",
    "principal",
    "client_id",
    "produce_bytes",
    "fetch_bytes",
    "requests",
    "errors",
    "throttle_ms",
)


def test_usage_is_added_up_by_client_and_minute(spark):
    events = [
        request(1, requests=2, bytes_in=1000, bytes_out=70, throttle_ms=5, errors={"3": 1, "6": 2}),
        request(2, api="FetchConsumer", bytes_in=70, bytes_out=500),
        request(3, api="FetchFollower", bytes_out=25),
        request(4, api="Metadata", bytes_in=9, bytes_out=9),
        request(4, principal="bob", bytes_in=1),
        request(61, bytes_in=8),
    ]
    assert rows_of(usage_per_minute(taken(spark, REQUESTS, events)), *USAGE) == [
        ("12:00", "alice", "a", 1000, 525, 5, 3, 5),
        ("12:00", "bob", "a", 1, 0, 1, 0, 0),
        ("12:01", "alice", "a", 8, 0, 1, 0, 0),
    ]


def test_the_second_that_ends_on_the_minute_belongs_to_the_minute_before(spark):
    events = [request(second, bytes_in=1) for second in (0, 1, 60, 61)]
    found = rows_of(usage_per_minute(taken(spark, REQUESTS, events)), "minute", "produce_bytes")
    assert found == [("11:59", 1), ("12:00", 2), ("12:01", 1)]


def test_usage_is_of_clients_that_have_a_name(spark):
    events = [request(1, source="others", requests=5), request(1, source="cached", requests=7), request(1)]
    assert rows_of(usage_per_minute(taken(spark, REQUESTS, events)), "requests") == [(1,)]


def test_handler_time_of_those_that_were_timed_stands_for_all(spark):
    phases = {"local": [[100, 3], [300, 1]]}
    events = [request(1, requests=40, timed=4, phases=phases), request(2, requests=9, timed=0)]
    # 600 us of four timed requests, of forty in total.
    assert rows_of(usage_per_minute(taken(spark, REQUESTS, events)), "handler_us") == [(6_000,)]


def test_quantiles_are_of_merged_histograms(spark):
    events = [
        request(1, timed=50, phases={"total": [[10, 49], [400, 1]], "remote": [[7, 1]]}),
        request(2, client_id="b", timed=50, phases={"total": [[10, 45], [80, 5]]}),
        request(2, api="Metadata", timed=1, phases={"total": [[3, 1]]}),
        request(3, timed=0, phases={"total": [[9_999, 1]]}),
    ]
    columns = ("api", "phase", "timed", "p50_us", "p95_us", "p99_us", "max_us")
    assert rows_of(phase_quantiles_per_minute(taken(spark, REQUESTS, events)), *columns) == [
        ("Metadata", "total", 1, 3, 3, 3, 3),
        ("Produce", "remote", 1, 7, 7, 7, 7),
        # Ninety-four of a hundred took 10 us, five 80, one 400.
        ("Produce", "total", 100, 10, 80, 80, 400),
    ]


def test_quantiles_are_what_sorting_every_request_finds(spark):
    dice = random.Random(7)
    rows, every = [], []
    for second in range(1, 20):
        counts = Counter(dice.choice((1, 8, 9, 50, 51, 700)) for _ in range(dice.randrange(1, 30)))
        every += counts.elements()
        phases = {"total": [list(pair) for pair in counts.items()]}
        rows.append(request(second, timed=counts.total(), phases=phases))
    every.sort()
    expected = tuple(every[ceil(q * len(every)) - 1] for q in (0.5, 0.95, 0.99))
    found = phase_quantiles_per_minute(taken(spark, REQUESTS, rows))
    assert rows_of(found, "p50_us", "p95_us", "p99_us") == [expected]


@pytest.mark.parametrize(
    ("us", "requests", "handler_us"),
    [
        (MAX_COUNT - 1, 1, MAX_COUNT - 1),
        (MAX_COUNT, 1, MAX_COUNT),
        (MAX_COUNT // 2, 2, MAX_COUNT),
        (MAX_COUNT // 2 + 1, 2, 0),
        (MAX_COUNT, MAX_COUNT, 0),
    ],
)
def test_a_handler_time_that_is_no_count_is_0(spark, us, requests, handler_us):
    events = [
        of(1, timed=1, requests=requests, phases={"local": [[us, 1]]}) for of in (request, request_before)
    ]
    assert rows_of(taken(spark, REQUESTS, events), "handler_us") == [(handler_us,)] * 2


@pytest.mark.parametrize(("us", "handler_us"), [(MAX_COUNT + 2, 0), (2**41, 0), (-1, None)])
def test_an_edge_of_an_earlier_version_may_be_no_count(spark, us, handler_us):
    events = [request_before(1, timed=1, phases={"local": [[us, 1]]})]
    assert rows_of(taken(spark, REQUESTS, events), "handler_us") == [(handler_us,)] * (us > 0)


@pytest.mark.parametrize(("us", "handler_us"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 2), (7, 4)])
def test_a_half_microsecond_of_handlers_is_rounded_to_even(spark, us, handler_us):
    events = [request(1, timed=2, requests=1, phases={"local": [[us, 1]]})]
    assert rows_of(usage_per_minute(taken(spark, REQUESTS, events)), "handler_us") == [(handler_us,)]


def test_a_bucket_that_is_no_pair_is_passed_over(spark):
    odd = {"local": [[5], [], [1, 2, 3], [100, 2]], "total": [[7], [9, 4], None], "queue": [[3]]}
    events = taken(spark, REQUESTS, [request_before(1, requests=2, timed=2, phases=odd)])
    assert rows_of(usage_per_minute(events), "handler_us", "errors") == [(200 + 2, 0)]
    assert rows_of(phase_quantiles_per_minute(events), "phase", "timed", "max_us") == [
        ("local", 2, 100),
        ("total", 4, 9),
    ]


@pytest.mark.parametrize("more", [0, 1, 2])
def test_a_sum_beyond_64_bits_is_null(spark, monkeypatch, more):
    """As of rows that an earlier version wrote, which took larger counts; the other sums are whole."""
    monkeypatch.setattr(silver, "MAX_COUNT", 2**63 - 1)
    total = 2 * BIG + more if more < 2 else None
    histogram = {"local": [[1, BIG]], "total": [[1, BIG]]}
    usual = {"requests": BIG, "bytes_in": BIG, "throttle_ms": BIG, "errors": {"3": BIG}}
    events = [request(at, timed=1, phases=histogram, **usual) for at in (1, 2)]
    few = {"local": [[1, more]], "total": [[1, more]]}
    last = {"requests": more, "bytes_in": more, "throttle_ms": more, "errors": {"3": more}}
    events.append(request(3, timed=1, phases=few, **last))
    used = usage_per_minute(taken(spark, REQUESTS, events))
    columns = ("produce_bytes", "requests", "throttle_ms", "errors", "fetch_bytes")
    assert rows_of(used, *columns) == [(*[total] * 4, 0)]
    of_clients = day_sums(taken(spark, REQUESTS, events), REQUESTS)
    ranked = {row["by"] for row in top_offenders_per_day(of_clients).collect()}
    assert ranked == ({"produce_bytes", "requests", "throttle_ms", "errors"} if more < 2 else set())
    found = phase_quantiles_per_minute(taken(spark, REQUESTS, events))
    assert rows_of(found, "phase", "timed") == [("local", total), ("total", total)]


@pytest.mark.parametrize("more", [0, 1, 2])
def test_a_sum_of_throttles_or_connections_beyond_64_bits_is_null(spark, monkeypatch, more):
    monkeypatch.setattr(silver, "MAX_COUNT", 2**63 - 1)
    total, counts = 2 * BIG + more if more < 2 else None, (BIG, BIG, more)
    throttled = taken(spark, THROTTLES, [throttle(at, count=count) for at, count in enumerate(counts, 1)])
    assert rows_of(throttling_per_minute(throttled), "throttles", "throttle_ms") == [(total, 300)]
    of_connections = day_sums(throttled, THROTTLES)
    assert rows_of(throttle_compliance_per_day(of_connections), "throttles", "throttle_ms") == [(total, 300)]
    attempts = [
        connection(at, event=event, count=count)
        for at, (event, count) in enumerate(zip(("opened", "refused", "opened"), counts, strict=True), 1)
    ]
    storms = connection_storms(taken(spark, CONNECTIONS, attempts))
    assert rows_of(storms, "opened", "refused", "attempts") == [(BIG + more, BIG, total)]


def test_throttles_are_added_up_by_rule_and_client(spark):
    default = {"user": "alice", "client-id": None}
    events = [
        throttle(1, count=2, throttle_ms=300, longest_ms=200, observed=5.0, bound=1.0),
        throttle(2, count=1, throttle_ms=50, longest_ms=50, observed=3.0, bound=2.0, connection="d"),
        throttle(3, entity=default),
        throttle(3, entity=dict(reversed(default.items()))),
        throttle(61),
    ]
    columns = (
        *("minute", "rule", "throttles", "throttle_ms", "longest_ms"),
        *("observed", "bound", "connections"),
    )
    assert rows_of(throttling_per_minute(taken(spark, THROTTLES, events)), *columns) == [
        ("12:00", '{"client-id":null,"user":"alice"}', 2, 200, 100, 2.0, 1.0, 1),
        ("12:00", '{"user":"alice"}', 3, 350, 200, 5.0, 2.0, 2),
        ("12:01", '{"user":"alice"}', 1, 100, 100, 2.0, 1.0, 1),
    ]


def test_a_storm_is_sixty_attempts_of_one_address_in_a_minute(spark):
    events = [
        connection(1, count=59, address="just-below"),
        connection(1, count=60, address="just-there"),
        connection(1, count=1, address="refused"),
        connection(2, count=60, address="refused", event="refused", reason="max.connections.per.ip"),
        connection(2, count=9, address="refused", event="throttled"),
        connection(2, count=99, address="leaving", event="closed"),
        connection(59, count=30, address="two-minutes"),
        connection(61, count=30, address="two-minutes"),
    ]
    columns = ("address", "opened", "refused", "throttled", "attempts")
    assert rows_of(connection_storms(taken(spark, CONNECTIONS, events)), *columns) == [
        ("just-there", 60, 0, 0, 60),
        ("refused", 1, 60, 9, 61),
    ]
