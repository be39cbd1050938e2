"""Clients' pushed metrics per minute: by hand, and compared with plain Python."""

import random
from collections import defaultdict

from pipeline.gold.client_metrics import client_metrics_per_minute
from pipeline.otlp.points import CUMULATIVE, DELTA
from tests.pipeline.events import rows_of
from tests.pipeline.pushes import (
    attributes,
    counter,
    distribution,
    gauge,
    histogram,
    number,
    payload,
    push,
    silver_rows,
)

DAY_S = 86_400


def made(spark, *pushed, shapes):
    """Pushes of one payload each, a second after noon."""
    rows = silver_rows(spark, [push(at, each, 1) for at, each in enumerate(pushed)])
    return client_metrics_per_minute({shape: rows[shape] for shape in shapes})


def increases(spark, *points, temporality=CUMULATIVE, is_monotonic=True):
    """Return the increase and the last total by minute."""
    packed = payload(counter("c", *points, temporality=temporality, is_monotonic=is_monotonic))
    return rows_of(made(spark, packed, shapes=["sum"]), "minute", "increase", "last", "points")


def test_a_gauge_is_reported_with_its_least_most_mean_and_last_value(spark):
    points = [number(20, 9.0), number(10, 1.0), number(59, 2.0), number(61, 5.0), number(60, 4.0)]
    other = [number(30, 7.0, node="1")]
    columns = ("minute", "attributes", "min", "max", "mean", "last", "points", "unit")
    assert rows_of(made(spark, payload(gauge("g", *points, *other)), shapes=["gauge"]), *columns) == [
        ("12:00", '{"node":"1"}', 7.0, 7.0, 7.0, 7.0, 1, "1"),
        # A point on the minute belongs to the minute that it ends.
        ("12:00", "{}", 1.0, 9.0, 4.0, 4.0, 4, "1"),
        ("12:01", "{}", 5.0, 5.0, 5.0, 5.0, 1, "1"),
    ]


def test_a_figure_that_the_client_does_not_have_is_no_figure(spark):
    points = [number(1, None, flags=1), number(2, 3.0)]
    assert rows_of(made(spark, payload(gauge("g", *points)), shapes=["gauge"]), "min", "points") == [(3.0, 1)]


def test_series_are_distinguished_by_everything_that_names_them(spark):
    packed = payload(gauge("g", number(1, 1.0)))
    pushes = [
        push(0, packed),
        push(1, packed, principal="bob"),
        push(2, packed, client_id=None),
        push(3, packed, client_instance_id="another"),
        push(4, payload(gauge("g", number(1, 1.0)), rack="r")),
        push(5, payload(gauge("h", number(1, 1.0)))),
        push(6, payload(counter("g", number(1, 1.0)))),
        # The same point again, from another broker.
        push(7, packed, node="2"),
        push(8, packed, cluster="x"),
        push(9, payload(histogram("i", distribution(1, [1]))), cluster="x"),
    ]
    rows = silver_rows(spark, pushes)
    found = client_metrics_per_minute(rows)
    assert rows_of(found, "client_id", "principal", "metric", "shape", "resource", "cluster", "points") == [
        ("", "alice", "g", "gauge", "{}", None, 1),
        ("a", "alice", "g", "gauge", '{"rack":"r"}', None, 1),
        ("a", "alice", "g", "gauge", "{}", "x", 1),
        ("a", "alice", "g", "gauge", "{}", None, 1),
        ("a", "alice", "g", "gauge", "{}", None, 1),
        ("a", "alice", "g", "sum", "{}", None, 1),
        ("a", "alice", "h", "gauge", "{}", None, 1),
        ("a", "alice", "i", "histogram", "{}", "x", 1),
        ("a", "bob", "g", "gauge", "{}", None, 1),
    ]


def test_differences_are_added_up_and_not_rated(spark):
    points = [number(10, 5, start=0), number(20, 7, start=10), number(65, 1, start=20)]
    found = increases(spark, *points, temporality=DELTA)
    assert found == [("12:00", 12.0, None, 2), ("12:01", 1.0, None, 1)]


def test_a_difference_that_is_sent_twice_counts_once(spark):
    packed = payload(counter("c", number(10, 5, start=0)))
    assert rows_of(made(spark, packed, packed, shapes=["sum"]), "increase", "points") == [(5.0, 1)]


def test_a_total_is_taken_from_the_one_before_it_and_the_first_counts_from_its_start(spark):
    points = [number(10, 5, start=0), number(20, 7, start=0), number(70, 17, start=0)]
    assert increases(spark, *points) == [("12:00", 7.0, 7.0, 2), ("12:01", 10.0, 17.0, 1)]


def test_a_total_that_started_anew_counts_from_its_new_start(spark):
    points = [number(10, 50, start=0), number(70, 3, start=60), number(130, 60, start=120)]
    assert [row[1] for row in increases(spark, *points)] == [50.0, 3.0, 60.0]


def test_a_total_that_falls_has_started_anew_unless_it_may_fall(spark):
    points = [number(10, 50), number(70, 3), number(130, 4)]
    # Without a start time, the time of the first fifty is unknown.
    assert [row[1] for row in increases(spark, *points)] == [0.0, 3.0, 1.0]
    assert [row[1] for row in increases(spark, *points, is_monotonic=False)] == [0.0, -47.0, 1.0]


def test_an_increase_of_more_than_a_day_before_the_first_value_is_in_no_minute(spark):
    for start, increase in ((-DAY_S, 9.0), (-DAY_S - 0.001, 0.0)):
        assert increases(spark, number(0, 9, start=start)) == [("11:59", increase, 9.0, 1)]


def test_histograms_are_merged_and_totals_taken_apart(spark):
    bounds = [10.0, 20.0]
    deltas = [
        distribution(1, [1, 2, 3], bounds, sum=70.0, min=4.0, max=30.0),
        distribution(2, [1, 0, 0], bounds, sum=5.0, min=5.0, max=5.0),
        distribution(61, count=4),
    ]
    totals = [
        distribution(1, [1, 1, 0], bounds, start=0, sum=20.0, max=15.0),
        distribution(2, [1, 3, 2], bounds, start=0, sum=100.0, max=50.0),
        distribution(62, [2, 3, 2], bounds, start=0, sum=101.0, max=50.0),
        distribution(63, [0, 0, 1], bounds, start=62.5, sum=99.0, max=99.0),
    ]
    packed = payload(histogram("d", *deltas), histogram("t", *totals, temporality=CUMULATIVE))
    columns = ("metric", "minute", "count", "sum", "min", "max", "bounds", "bucket_counts", "points")
    assert rows_of(made(spark, packed, shapes=["histogram"]), *columns) == [
        ("d", "12:00", 7, 75.0, 4.0, 30.0, bounds, [2, 2, 3], 2),
        ("d", "12:01", 4, None, None, None, [], [4], 1),
        # A maximum since the start is not one of the minute, unless the series began in it.
        ("t", "12:00", 6, 100.0, None, 15.0, bounds, [1, 3, 2], 2),
        ("t", "12:01", 2, 100.0, None, 99.0, bounds, [1, 0, 1], 2),
    ]


def test_histograms_of_other_bounds_are_merged_where_they_meet(spark):
    points = [
        distribution(1, [1, 2, 3, 4], [10.0, 20.0, 40.0]),
        distribution(2, [5, 6, 7], [20.0, 30.0]),
        distribution(2, [8, 9], [20.0], attributes=attributes(node=1)),
    ]
    columns = ("attributes", "bounds", "bucket_counts")
    assert rows_of(made(spark, payload(histogram("h", *points)), shapes=["histogram"]), *columns) == [
        ('{"node":"1"}', [20.0], [8, 9]),
        ("{}", [20.0], [8, 20]),
    ]


def test_minutes_are_what_plain_python_finds(spark):
    dice = random.Random(714)
    metrics, expected = [], {}
    for name, temporality, is_monotonic in (
        *((f"d{n}", DELTA, True) for n in range(3)),
        *((f"t{n}", CUMULATIVE, True) for n in range(4)),
        *((f"u{n}", CUMULATIVE, False) for n in range(3)),
    ):
        points = _walk(dice, temporality)
        metrics.append(
            counter(
                name, *(number(*each) for each in points), temporality=temporality, is_monotonic=is_monotonic
            )
        )
        plain = _differences(points) if temporality == DELTA else _taken_apart(points, is_monotonic)
        expected |= {(name, minute): value for minute, value in plain.items()}
    for name in ("g0", "g1"):
        points = _walk(dice, DELTA)
        metrics.append(gauge(name, *(number(*each[:2]) for each in points)))
        expected |= {(name, minute): values for minute, values in _gauged(points).items()}
    dice.shuffle(metrics)
    halves = payload(*metrics[:6]), payload(*metrics[6:])
    found = {
        (row["metric"], row["minute"].minute): row["increase"]
        if row["shape"] == "sum"
        else (row["min"], row["max"], round(row["mean"], 9), row["last"])
        for row in made(spark, *halves, shapes=["gauge", "sum"]).collect()
    }
    assert found == expected


def _walk(dice, temporality):
    """Return points of ten minutes: time, value, start. Some are repeated, some restart or fall."""
    points, total, start = [], 0, 0
    at = 0
    while at < 600:
        at += dice.randrange(1, 40)
        if temporality == CUMULATIVE and dice.random() < 0.15:
            total, start = 0, dice.choice([at, at, start])
        total = total + dice.randrange(0, 50) if temporality == CUMULATIVE else dice.randrange(0, 50)
        points.append((at, total, start))
        start = start if temporality == CUMULATIVE else at
    return points + dice.sample(points, 3)


def _minute(at):
    return (at - 1) // 60


def _differences(points):
    by_minute = defaultdict(float)
    for at, value, _ in set(points):
        by_minute[_minute(at)] += value
    return by_minute


def _taken_apart(points, is_monotonic):
    by_minute = defaultdict(float)
    before = None
    for at, value, start in sorted(set(points)):
        goes_on = before is not None and before[1] == start and not (is_monotonic and value < before[0])
        by_minute[_minute(at)] += value - before[0] if goes_on else value
        before = value, start
    return by_minute


def _gauged(points):
    by_minute = defaultdict(list)
    for at, value, _ in sorted(set(points)):
        by_minute[_minute(at)].append(float(value))
    return {
        minute: (min(values), max(values), round(sum(values) / len(values), 9), values[-1])
        for minute, values in by_minute.items()
    }


def test_merged_histograms_are_what_counting_every_value_finds(spark):
    dice = random.Random(715)
    points, every = [], []
    layouts = [[1.0, 2.0, 5.0, 9.0], [2.0, 9.0], [1.0, 2.0, 9.0, 12.0]]
    for second in range(1, 30):
        bounds = dice.choice(layouts)
        values = [dice.randrange(0, 15) for _ in range(dice.randrange(0, 9))]
        every += values
        edges = [*bounds, float("inf")]
        counts = [0] * len(edges)
        for value in values:
            counts[next(at for at, edge in enumerate(edges) if value <= edge)] += 1
        points.append(distribution(second, counts, bounds, sum=float(sum(values))))
    counts = [
        sum(value <= 2 for value in every),
        sum(2 < value <= 9 for value in every),
        sum(value > 9 for value in every),
    ]
    columns = ("count", "sum", "bounds", "bucket_counts")
    assert rows_of(made(spark, payload(histogram("h", *points)), shapes=["histogram"]), *columns) == [
        (len(every), float(sum(every)), [2.0, 9.0], counts)
    ]
