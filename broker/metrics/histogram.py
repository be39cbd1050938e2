"""How values spread: counts in buckets that grow with the value, each at most an eighth of it wide.

For durations and sizes that are recorded with every request: whoever records adds one to
`counts[BUCKET_OF[n]]` where `n` is below `LINEAR`, and to `counts[bucket_of(n)]` elsewhere. Quantiles are
made when somebody looks. Knows no units and no clock. (The scheme is HdrHistogram's, with three bits.)

A quantile is given as the largest value of its bucket: never below the true one, and less than an eighth
above it. Below 16 it is exact.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import add, sub
from typing import Final

LINEAR: Final = 4096
"""Up to here a table knows the bucket. In microseconds, the phases of requests that wait for nothing."""

RECENT_MS: Final = 300_000
"""How far back recent quantiles look. Kafka's reservoirs also forget within about five minutes."""

SNAPSHOT_EVERY_MS: Final = 60_000

_BITS: Final = 40


def bucket_of(n: int) -> int:
    """The bucket of `n` >= 0; one bucket holds everything of more than 40 bits."""
    if n < 16:
        return n
    shift = n.bit_length() - 4
    return (shift << 3) + (n >> shift) if shift <= _BITS - 4 else BUCKETS - 1


def top_of(bucket: int) -> int:
    """The largest value of a bucket."""
    if bucket < 16:
        return bucket
    shift = (bucket >> 3) - 1
    return (bucket - (shift << 3) + 1 << shift) - 1


BUCKETS: Final = ((_BITS - 4) << 3) + 16
BUCKET_OF: Final = tuple(map(bucket_of, range(LINEAR)))

Counts = list[int]
"""How many values fell into each bucket."""


def no_counts() -> Counts:
    return [0] * BUCKETS


def merged(all_counts: Iterable[Sequence[int]]) -> Counts:
    """The counts of several, as if they had been recorded together."""
    together = no_counts()
    for counts in all_counts:
        together = list(map(add, together, counts))
    return together


def quantiles(counts: Sequence[int], qs: Iterable[float]) -> list[int] | None:
    """The values that a share of each of `qs`, above 0, does not exceed; None where nothing was recorded."""
    sums = list(accumulate(counts))
    total = sums[-1]
    if not total:
        return None
    return [top_of(bisect_left(sums, q * total)) for q in qs]


class Recent:
    """The part of growing counts that came within the last five minutes, or since anybody last asked where
    that is longer.
    """

    __slots__ = ("_snapshots",)

    def __init__(self) -> None:
        self._snapshots: deque[tuple[int, Counts]] = deque()

    def of(self, counts: Counts, now_ms: int) -> Counts:
        """`counts` is what there is now; at most one look a minute is remembered, from the second on."""
        snapshots = self._snapshots
        if not snapshots:
            snapshots.append((now_ms, no_counts()))
        elif now_ms - snapshots[-1][0] >= SNAPSHOT_EVERY_MS:
            snapshots.append((now_ms, counts.copy()))
        while len(snapshots) > 1 and now_ms - snapshots[1][0] >= RECENT_MS:
            snapshots.popleft()
        return list(map(sub, counts, snapshots[0][1]))
