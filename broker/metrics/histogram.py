"""Histograms with buckets that grow with the value, each at most an eighth of it wide.

For durations and sizes of every request: recording is `counts[BUCKET_OF[n]] += 1` for `n` below `LINEAR`,
and `counts[bucket_of(n)] += 1` otherwise. Quantiles are computed when read. No units and no clock. (The
scheme is HdrHistogram's, with three bits.)

A quantile is the largest value of its bucket: never below the true one, and less than an eighth above it.
Below 16 it is exact.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import add, sub
from typing import Final

LINEAR: Final = 4096
"""Size of the lookup table: in microseconds, the phases of requests that do not wait."""

RECENT_MS: Final = 300_000
"""The interval of recent quantiles. Kafka's reservoirs also forget within about five minutes."""

SNAPSHOT_EVERY_MS: Final = 60_000

_BITS: Final = 40


def bucket_of(n: int) -> int:
    """Return the bucket of `n` >= 0; one bucket holds everything of more than 40 bits."""
    if n < 16:
        return n
    shift = n.bit_length() - 4
    return (shift << 3) + (n >> shift) if shift <= _BITS - 4 else BUCKETS - 1


def top_of(bucket: int) -> int:
    """Return the largest value of a bucket."""
    if bucket < 16:
        return bucket
    shift = (bucket >> 3) - 1
    return (bucket - (shift << 3) + 1 << shift) - 1


BUCKETS: Final = ((_BITS - 4) << 3) + 16
BUCKET_OF: Final = tuple(map(bucket_of, range(LINEAR)))

Counts = list[int]
"""The number of values in each bucket."""


def no_counts() -> Counts:
    return [0] * BUCKETS


def merged(all_counts: Iterable[Sequence[int]]) -> Counts:
    """Return the sum of several histograms."""
    together = no_counts()
    for counts in all_counts:
        together = list(map(add, together, counts))
    return together


def quantiles(counts: Sequence[int], qs: Iterable[float]) -> list[int] | None:
    """Return the values that a share of each of `qs`, above 0, does not exceed; None if there are no
    values.
    """
    sums = list(accumulate(counts))
    total = sums[-1]
    if not total:
        return None
    return [top_of(bisect_left(sums, q * total)) for q in qs]


class RecentHistogram:
    """The part of growing counts from the last five minutes, or since the previous call if that is longer."""

    __slots__ = ("_snapshots",)

    def __init__(self) -> None:
        self._snapshots: deque[tuple[int, Counts]] = deque()

    def of(self, counts: Counts, now_ms: int) -> Counts:
        """Return the recent part of `counts`, the present totals; stores at most one snapshot a minute."""
        snapshots = self._snapshots
        if not snapshots:
            snapshots.append((now_ms, no_counts()))
        elif now_ms - snapshots[-1][0] >= SNAPSHOT_EVERY_MS:
            snapshots.append((now_ms, counts.copy()))
        while len(snapshots) > 1 and now_ms - snapshots[1][0] >= RECENT_MS:
            snapshots.popleft()
        return list(map(sub, counts, snapshots[0][1]))
