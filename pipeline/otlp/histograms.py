"""Reads and checks the counts, bounds and extremes of many histogram points. For `points`."""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.otlp.reasons import REASONS, first_of
from pipeline.otlp.wire import Buffer, Fields

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
