"""Random pushes, valid and damaged, read by numpy and read by a second program, point by point."""

import random
from datetime import timedelta

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from pipeline.otlp.decode import CONTEXT, MEASURES
from tests.pipeline.decoded import decoded
from tests.pipeline.events import NOON_MS
from tests.pipeline.points_oracle import Points
from tests.pipeline.pushes import ns

EDGES = (0, 1, 127, 128, 300, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1)
FLOATS = (0.0, -0.0, 1.5, 1e-300, float("inf"), float("nan"), -7.25)
TEXTS = ("", "a", "é" * 100, "x" * 127, "x" * 300, "node.id", "service.name", "topic")


def random_push(dice):
    data = MetricsData()
    for _ in range(dice.choice((0, 1, 1, 2, 60))):
        resource = data.resource_metrics.add(schema_url=dice.choice(TEXTS[:3]))
        if dice.random() < 0.8:
            add_attributes(dice, resource.resource.attributes)
        if dice.random() < 0.1:
            resource.resource.attributes.add(key="large").value.string_value = "x" * dice.randrange(
                8_100, 8_200
            )
        for _ in range(dice.choice((0, 1, 1, 2))):
            scope = resource.scope_metrics.add(schema_url=dice.choice(TEXTS[:3]))
            if dice.random() < 0.5:
                scope.scope.name, scope.scope.dropped_attributes_count = dice.choice(TEXTS), dice.randrange(3)
                add_attributes(dice, scope.scope.attributes)
            for _ in range(dice.choice((0, 1, 1, 2, 5))):
                add_metric(dice, scope.metrics.add())
    return data.SerializeToString()


def add_attributes(dice, attributes):
    for _ in range(dice.choice((0, 0, 1, 2, 3))):
        value = attributes.add(key=dice.choice(TEXTS)).value
        match dice.randrange(8):
            case 0:
                value.int_value = dice.choice((0, -1, 7, 2**62))
            case 1:
                value.double_value = dice.choice(FLOATS)
            case 2:
                value.bool_value = dice.random() < 0.5
            case 3:
                value.array_value.values.add(string_value="é")
            case 4:
                value.kvlist_value.values.add(key="k").value.bytes_value = b"\xff"
            case 5:
                pass
            case _:
                value.string_value = dice.choice(TEXTS)


def add_metric(dice, metric):
    metric.name = dice.choice(("", "m", "mé", *[f"metric.{each}" for each in range(30)]))
    metric.description, metric.unit = dice.choice((*TEXTS, "d" * 4_090)), dice.choice(TEXTS[:4])
    kind = dice.choice(
        ("gauge", "sum", "histogram", "gauge", "sum", "exponential_histogram", "summary", None)
    )
    if kind is None:
        return
    data = getattr(metric, kind)
    data.SetInParent()
    if kind in ("sum", "histogram"):
        data.aggregation_temporality = dice.choice((0, 1, 1, 2, 2, 3, -1))
    if kind == "sum":
        data.is_monotonic = dice.random() < 0.5
    for _ in range(dice.choice((0, 1, 1, 1, 3, 200))):
        add_point(dice, kind, data.data_points.add())


def add_point(dice, kind, point):
    hour = 3_600
    seconds = (0, 1, hour, hour + 0.001, -24 * hour, -24 * hour - 0.001)
    point.time_unix_nano = dice.choice(
        (ns(0), ns(1), ns(-5), ns(dice.choice(seconds)), *EDGES[:1], *EDGES[-2:])
    )
    if dice.random() < 0.5:
        point.start_time_unix_nano = dice.choice((999, 1_000, ns(-9), 2**64 - 1))
    add_attributes(dice, point.attributes)
    point.flags = dice.choice((0, 0, 0, 0, 1, 2, 3, 2**32 - 1))
    if kind in ("gauge", "sum"):
        match dice.randrange(5):
            case 0:
                point.as_double = dice.choice(FLOATS)
            case 1:
                point.as_int = dice.choice((0, -1, 2**62 + 1, -(2**63)))
            case 2:
                pass
            case _:
                point.as_double = dice.random()
        if dice.random() < 0.1:
            point.exemplars.add(as_int=7)
    if kind == "histogram":
        buckets = dice.choice(([], [1, 2], [1, 2, 3], [2**63 - 1] * 3, [2**62] * 4, [2**63, 0], [0, 0, 0]))
        point.bucket_counts.extend(buckets)
        point.explicit_bounds.extend(dice.choice(([], [5.0], [1.0, 2.0], [2.0, 1.0], [1.0, float("nan")])))
        point.count = dice.choice((sum(buckets) % 2**64, sum(buckets) % 2**64, *EDGES))
        for name in ("sum", "min", "max"):
            if dice.random() < 0.4:
                setattr(point, name, dice.choice(FLOATS))


def damaged(dice, push):
    """Return the push with bytes changed, inserted or left out, or a part of it repeated."""
    spoiled = bytearray(push)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(spoiled) + 1)
        match dice.randrange(4):
            case 0 if at < len(spoiled):
                spoiled[at] = dice.randrange(256)
            case 1:
                spoiled[at:at] = dice.randbytes(dice.randrange(1, 4))
            case 2:
                del spoiled[at : at + dice.randrange(1, 4)]
            case _:
                # Protobuf merges what is there twice.
                spoiled += push[dice.choice((0, at)) :]
    return bytes(spoiled)


def by_oracle(pushes):
    """Return points and refusals in the form of `by_numpy`."""
    found = Points()
    for row, push in enumerate(pushes):
        found.take(row, push, NOON_MS)
    headings, attributes = list(found.headings), list(found.attributes)
    points = []
    for row, heading, place, number, start_us, time_us, flags, rest in (*found.numbers, *found.distributions):
        value, measures = (None, rest) if isinstance(rest, tuple) else (rest, (None,) * len(MEASURES))
        kind, context, *about = headings[heading]
        common = row, number, kind, *context, *about, attributes[place], start_us, time_us, flags
        points.append((*common, value, *measures))
    return sorted(map(repr, points)), sorted(map(repr, map(tuple, found.refusals)))


def by_numpy(pushes):
    found = decoded(*pushes)
    names = ("MetricName", "MetricDescription", "MetricUnit", "AggregationTemporality", "IsMonotonic")
    points = []
    for row in found.points:
        context = [tuple(row[each]) if isinstance(row[each], list) else row[each] for each in CONTEXT]
        common = (row["offset"], row["point"], row["kind"], *context, *(row[each] for each in names))
        attributes, times = (
            tuple(row["Attributes"]),
            (microseconds(row["StartTimeUnix"]), microseconds(row["TimeUnix"])),
        )
        points.append(
            (*common, attributes, *times, row["Flags"], row["Value"], *(row[each] for each in MEASURES))
        )
    return sorted(map(repr, points)), sorted(map(repr, map(tuple, found.refusals)))


def microseconds(time):
    epoch = time and time.replace(year=1970, month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
    return None if time is None else (time - epoch) // timedelta(microseconds=1)


@pytest.mark.parametrize("seed", range(6))
def test_both_programs_read_the_same_points_and_give_the_same_reasons(seed):
    dice = random.Random(seed)
    pushes = [random_push(dice) for _ in range(dice.choice((1, 3, 70)))]
    assert by_numpy(pushes) == by_oracle(pushes)
    pushes = [damaged(dice, push) for push in pushes]
    assert by_numpy(pushes) == by_oracle(pushes)
