"""Reads the points of many pushes into arrays, with a reason for each refused one.
(opentelemetry.proto.metrics.v1.MetricsData)

For `decode`. A push may have valid and invalid points: each is checked separately. All points are read
together by numpy; Python runs once for each different set of attributes. Independent of Spark.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint, NumberDataPoint

from pipeline.otlp.metrics import CUMULATIVE as CUMULATIVE
from pipeline.otlp.metrics import DELTA as DELTA
from pipeline.otlp.metrics import GAUGE, HISTOGRAM, NO_DATA, SUM, Metrics, read_metrics
from pipeline.otlp.reasons import REASONS, Refused, first_of, refused_parts
from pipeline.otlp.repeated import texts_at
from pipeline.otlp.texts import Attributes, attributes_of
from pipeline.otlp.wire import Buffer, Fields, read_fields

MAX_INTEGER: Final = 2**63 - 1
"""The largest integer of a table; OTLP's integers reach 2**64."""


class Measures(NamedTuple):
    """Arrow arrays of equal length: what a histogram has measured, null without a recorded value."""

    count: pa.Array
    sum: pa.Array
    bucket_counts: pa.Array
    explicit_bounds: pa.Array
    min: pa.Array
    max: pa.Array

    def where(self, is_wanted: np.ndarray) -> "Measures":
        wanted = pa.array(is_wanted, pa.bool_())
        return Measures(*(each.filter(wanted) for each in self))


class _Lists(NamedTuple):
    """The packed numbers of all points: `owners` are their points, `offsets` enclose the numbers of each."""

    numbers: np.ndarray
    owners: np.ndarray
    offsets: np.ndarray

    def array(self, kind: type, is_null: np.ndarray) -> pa.Array:
        values, offsets = pa.array(self.numbers.view(kind)), pa.array(self.offsets.astype(np.int32))
        return pa.ListArray.from_arrays(offsets, values, mask=pa.array(is_null, pa.bool_()))

    def sizes(self) -> np.ndarray:
        sizes: np.ndarray = np.diff(self.offsets)
        return sizes

    def any(self, is_so: np.ndarray) -> np.ndarray:
        """Return for each point whether it is so for any of its numbers."""
        found: np.ndarray = np.bincount(self.owners[is_so], minlength=len(self.offsets) - 1) > 0
        return found


def read_measures(
    buffer: Buffer, fields: Fields, count: int, has_value: np.ndarray
) -> tuple[Measures, np.ndarray]:
    """Return the measures of `count` points, and the reasons to refuse them."""
    total = fields.of(0x21).numbers_by(np.arange(count), count)
    floats = [_optional(fields.of(tag), count) for tag in (0x29, 0x59, 0x61)]
    buckets, bounds = (_lists(buffer, fields.of(tag), count) for tag in (0x32, 0x3A))
    infinite = [~np.isfinite(values) for values, _ in floats]
    reason = first_of(
        infinite[0] * REASONS["Sum is not a number"],
        infinite[1] * REASONS["Min is not a number"],
        infinite[2] * REASONS["Max is not a number"],
        ((total > MAX_INTEGER) | buckets.any(buckets.numbers > MAX_INTEGER)) * REASONS["Count is too large"],
        _misfit(buckets, bounds) * REASONS["buckets do not fit their bounds"],
        _is_other_sum(buckets, total) * REASONS["Count is not that of the buckets"],
    )
    is_null = ~has_value
    sums = [pa.array(values, mask=is_null | ~is_there) for values, is_there in floats]
    counts = pa.array(total.view(np.int64), mask=is_null)
    lists = buckets.array(np.int64, is_null), bounds.array(np.float64, is_null)
    return Measures(counts, sums[0], *lists, *sums[1:]), reason


def _optional(fields: Fields, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the values, 0 without the field, and whether it is there."""
    is_there: np.ndarray = np.zeros(count, bool)
    is_there[fields.message] = True
    return fields.numbers_by(np.arange(count), count).view(np.float64), is_there


def _lists(buffer: Buffer, fields: Fields, count: int) -> _Lists:
    sizes: np.ndarray = np.zeros(count, np.int64)
    lengths = (fields.ends - fields.starts) // 8
    sizes[fields.message] = lengths
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    within = np.arange(offsets[-1]) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    numbers = buffer.words[np.repeat(fields.starts, lengths) + 8 * within]
    return _Lists(numbers, np.repeat(fields.message, lengths), offsets)


def _misfit(buckets: _Lists, bounds: _Lists) -> np.ndarray:
    """Return whether there are buckets, and not one more than rising, finite bounds."""
    edges: np.ndarray = bounds.numbers.view(np.float64)
    is_falling: np.ndarray = np.zeros(len(edges), bool)
    is_falling[1:] = ~(edges[:-1] < edges[1:]) & (bounds.owners[:-1] == bounds.owners[1:])
    is_wrong = bounds.any(is_falling | ~np.isfinite(edges))
    has_any = (buckets.sizes() > 0) | (bounds.sizes() > 0)
    misfits: np.ndarray = has_any & (is_wrong | (buckets.sizes() != bounds.sizes() + 1))
    return misfits


def _is_other_sum(buckets: _Lists, total: np.ndarray) -> np.ndarray:
    """Return whether there are buckets whose sum is not the total."""
    half = np.uint64(32)
    # In halves, because the sum may exceed 64 bits.
    low, high = (
        np.concatenate((np.zeros(1, np.uint64), np.cumsum(part, dtype=np.uint64)))
        for part in (buckets.numbers & np.uint64(0xFFFF_FFFF), buckets.numbers >> half)
    )
    first, last = buckets.offsets[:-1], buckets.offsets[1:]
    lows, highs = low[last] - low[first], high[last] - high[first]
    highs += lows >> half
    is_same = (highs == total >> half) & (lows & np.uint64(0xFFFF_FFFF) == total & np.uint64(0xFFFF_FFFF))
    is_other: np.ndarray = (buckets.sizes() > 0) & ~is_same
    return is_other


AHEAD_MS: Final = 3_600_000
LATE_MS: Final = 86_400_000
"""The most that a point may lie ahead of the push's arrival, and behind it, as for all events."""

NO_RECORDED_VALUE: Final = 1
"""DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK: the client has no value."""

MAX_TIME_NS: Final = 2**64 - 1


class Points(NamedTuple):
    """The valid points as arrays of equal length: in the order of their pushes, numbers and then histograms.

    `push` and `metric` are places among the pushes and the metrics; `number` is the place within the push.
    Times are microseconds since 1970, the start 0 if not given. `value` is null for histograms, and without a
    recorded one; `measures` are those of the histograms only. `attributes` are places in
    `different_attributes`.
    """

    push: np.ndarray
    metric: np.ndarray
    number: np.ndarray
    start_us: np.ndarray
    time_us: np.ndarray
    flags: np.ndarray
    value: pa.Array
    attributes: np.ndarray
    different_attributes: list[Attributes]
    measures: Measures


class Read(NamedTuple):
    """The contents of pushes."""

    points: Points
    metrics: Metrics
    refused: Refused


class _Common(NamedTuple):
    """The columns of all points; `attributes` are places in `different_attributes`."""

    start_ns: np.ndarray
    time_ns: np.ndarray
    flags: np.ndarray
    attributes: np.ndarray
    different_attributes: list[Attributes]


def read_points(pushes: Sequence[bytes], arrived_ms: Sequence[int]) -> Read:
    """Read pushes in the form of `unpack.canonical`. Never raises for invalid data of a client."""
    buffer = Buffer(b"".join(pushes))
    ends = np.cumsum(np.fromiter(map(len, pushes), np.int64, len(pushes)))
    starts = ends - np.diff(ends, prepend=0)
    metrics = read_metrics(buffer, starts, ends)
    metric, at, end = _all_points(metrics)
    push = metrics.push[metric]
    counts = np.bincount(push, minlength=len(pushes))
    number = np.arange(len(push)) - (np.cumsum(counts) - counts)[push]
    reason, kind = metrics.reason[metric], metrics.kind[metric]
    is_readable = reason == 0
    numbers = np.flatnonzero(is_readable & ((kind == GAUGE) | (kind == SUM)))
    histograms = np.flatnonzero(is_readable & (kind == HISTOGRAM))
    windows = _windows(arrived_ms)

    fields = read_fields(buffer, at[numbers], end[numbers])
    common = _common(buffer, fields, at[numbers], NumberDataPoint, 0x3A, 0x40)
    value, wrong = _values(fields, len(numbers), common.flags)
    reason[numbers] = first_of(_wrong_times(common.time_ns, push[numbers], windows), wrong)

    of_histograms = read_fields(buffer, at[histograms], end[histograms])
    other = _common(buffer, of_histograms, at[histograms], HistogramDataPoint, 0x4A, 0x50)
    has_value = (other.flags & NO_RECORDED_VALUE) == 0
    measures, wrong = read_measures(buffer, of_histograms, len(histograms), has_value)
    reason[histograms] = first_of(_wrong_times(other.time_ns, push[histograms], windows), wrong * has_value)

    is_valid, is_other = reason[numbers] == 0, reason[histograms] == 0
    rows = np.concatenate((numbers[is_valid], histograms[is_other]))
    others = len(common.different_attributes)

    def joined(one: np.ndarray, another: np.ndarray) -> np.ndarray:
        both: np.ndarray = np.concatenate((one[is_valid], another[is_other]))
        return both

    has_number = joined((common.flags & NO_RECORDED_VALUE) == 0, np.zeros(len(histograms), bool))
    points = Points(
        push[rows],
        metric[rows],
        number[rows],
        joined(common.start_ns, other.start_ns) // 1_000,
        joined(common.time_ns, other.time_ns) // 1_000,
        joined(common.flags, other.flags),
        pa.array(joined(value, np.zeros(len(histograms))), mask=~has_number),
        joined(common.attributes, other.attributes + others),
        common.different_attributes + other.different_attributes,
        measures.where(is_other),
    )
    bad = np.flatnonzero(reason)
    return Read(points, metrics, refused_parts(push[bad], metric[bad], reason[bad], metrics.name))


def _all_points(metrics: Metrics) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return metric, start and end of each point, in order; a metric without data counts as one."""
    points, empty = metrics.points, np.flatnonzero(metrics.kind == NO_DATA)
    if not len(empty):
        return points.message, points.starts, points.ends
    metric = np.concatenate((points.message, empty))
    order = np.argsort(metric, kind="stable")
    starts = np.concatenate((points.starts, metrics.at[empty]))
    ends = np.concatenate((points.ends, metrics.at[empty]))
    return metric[order], starts[order], ends[order]


def _common(
    buffer: Buffer, fields: Fields, at: np.ndarray, message: Any, attributes: int, flags: int
) -> _Common:
    """Read what all points have. The last three are their message type and the tags of two fields."""
    count = len(at)
    every = np.arange(count)
    start_ns, time_ns, found_flags = (fields.of(tag).numbers_by(every, count) for tag in (0x11, 0x19, flags))
    listed = fields.of(attributes)
    starts, ends = at.copy(), at.copy()
    # They follow each other: the first one of a point and the last one enclose all.
    starts[listed.message[::-1]] = listed.at[::-1]
    ends[listed.message] = listed.ends
    sets = texts_at(buffer, starts, ends, pa.binary())
    different = [attributes_of(message.FromString(each).attributes) for each in sets.different.to_pylist()]
    return _Common(start_ns, time_ns, found_flags.astype(np.int64), sets.places, different)


def _values(fields: Fields, count: int, flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of numbers, and the reasons to refuse them."""
    floats, integers = fields.of(0x21), fields.of(0x31)
    value: np.ndarray = np.zeros(count)
    has_value: np.ndarray = np.zeros(count, bool)
    value[floats.message] = floats.numbers.view(np.float64)
    value[integers.message] = integers.numbers.view(np.int64)
    has_value[floats.message] = has_value[integers.message] = True
    is_recorded = (flags & NO_RECORDED_VALUE) == 0
    return value, first_of(
        (is_recorded & ~has_value) * REASONS["no value"],
        (is_recorded & ~np.isfinite(value)) * REASONS["Value is not a number"],
    )


def _windows(arrived_ms: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the earliest and the latest time of each push's points, in nanoseconds."""
    earliest = [min(max((each - LATE_MS) * 1_000_000, 0), MAX_TIME_NS) for each in arrived_ms]
    latest = [min(max((each + AHEAD_MS) * 1_000_000, 0), MAX_TIME_NS) for each in arrived_ms]
    return np.array(earliest, np.uint64), np.array(latest, np.uint64)


def _wrong_times(time_ns: np.ndarray, push: np.ndarray, windows: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    earliest, latest = (each[push] for each in windows)
    return first_of(
        ((time_ns == 0) & (earliest > 0)) * REASONS["no time"],
        (time_ns < earliest) * REASONS["too late"],
        (time_ns > latest) * REASONS["from the future"],
    )
