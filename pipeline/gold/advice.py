"""Recommended quotas: the smallest limit that a day's seconds keep to in simulation, plus headroom.

The broker's own quota code says what each limit would have throttled (`limit_search`). Minutes in which a
limit held are no measure of the demand (`demand`): where they matter, there is no number above that limit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from broker.common.principal import ANONYMOUS
from broker.simulation.trial import Bounds
from pipeline.gold.demand import KEYS, Day, Held, Key
from pipeline.gold.limit_search import LimitSearch
from pipeline.tables import CLUSTER, DATE, Table
from pipeline.times import MINUTE, minute_of_day

TABLE: Final = Table("gold/quota_advice", (DATE, CLUSTER, "user", "client_id", "key"))

UNTIL: Final = "until"
"""The column with the last minute that the advice of a day takes into account."""

SIMULATED: Final = "simulated"
MEASURED: Final = "measured"
"""Where the shares of a row come from, its `basis`."""


CLEARLY: Final = 1.1
"""A client under a limit cannot use this much of it without a throttle."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A limit may throttle `throttled_requests` as a share of a client's requests, and none of them for
    longer than `longest_wait_ms`; `headroom` is a factor on top.

    A client with fewer than `least_minutes` active minutes gets no advice. If a limit held in more than
    `most_censored` of them, or in all but fewer than `least_minutes`, the demand is unknown.
    """

    throttled_requests: float = 0.01
    longest_wait_ms: int = 1_000
    headroom: float = 1.25
    least_minutes: int = 30
    most_censored: float = 0.5


class Advice(NamedTuple):
    """A row of the table without its names.

    `recommended` and `needed` are None if the demand is unknown. The shares and the longest wait are those of
    the recommended limit, simulated, or those of the limits that held on the day, measured; None if there are
    no events of these throttles.
    """

    key: str
    minutes: int
    censored_minutes: int
    censored_share: float
    needed: float | None
    peak: float
    held_limit: float | None
    recommended: float | None
    basis: str
    throttled_requests_share: float | None
    throttled_time_share: float | None
    longest_wait_ms: int | None
    reason: str


_Shares = tuple[float, float, int]
"""The throttled shares of requests and of time, and the longest wait in milliseconds."""

_NAMES: Final = (CLUSTER, "user", "client_id")

_TYPES: Final = {
    **dict.fromkeys((*_NAMES, "key", "basis", "reason"), "string"),
    **dict.fromkeys(("minutes", "censored_minutes", "longest_wait_ms"), "long"),
}
_COLUMNS: Final = {name: _TYPES.get(name, "double") for name in (*_NAMES, *Advice._fields)}
_ARROW: Final = {"string": pa.string(), "long": pa.int64(), "double": pa.float64()}
_ROWS: Final = pa.schema([(name, _ARROW[kind]) for name, kind in _COLUMNS.items()])


def quota_advice(
    seconds: DataFrame, throttling: DataFrame | None, day: Column, policy: Policy = Policy()
) -> DataFrame:
    """Return advice from a day of `seconds.SECONDS` and `throttling.THROTTLING`, if there is any; `day`
    is its date.

    Advice is for a user where clients authenticate, else for a client id: for all of its clients and a
    cluster's brokers together. A task has one such name at a time, in memory of a fixed size.
    """
    rows = _named(seconds, F.col("seconds"))
    if throttling is not None:
        rows = rows.unionByName(_named(throttling, *_throttles()), allowMissingColumns=True)
    advised = rows.groupBy(*_NAMES).applyInArrow(
        _of_names(policy), ", ".join(f"`{name}` {kind}" for name, kind in _COLUMNS.items())
    )
    return advised.select(day.alias(DATE), "*")


def _named(rows: DataFrame, *columns: Column) -> DataFrame:
    """Return rows with the names that advice is for, and the number of their minute."""
    is_user = F.col("principal") != ANONYMOUS
    return rows.where(F.col("principal").isNotNull() & F.col("client_id").isNotNull()).select(
        CLUSTER,
        F.when(is_user, F.col("principal")).alias("user"),
        F.when(~is_user, F.col("client_id")).alias("client_id"),
        minute_of_day(F.col(MINUTE)).alias("at"),
        *columns,
    )


def _throttles() -> tuple[Column, ...]:
    of_name = F.when(F.col("principal") != ANONYMOUS, "user").otherwise("client-id")
    is_whole = F.map_keys(F.from_json("rule", "map<string,string>")) == F.array(of_name)
    return (
        *(F.col(name) for name in ("kind", "throttles", "throttle_ms", "connections", "bound")),
        F.coalesce("longest_ms", "throttle_ms").alias("longest_ms"),
        # Whether the rule limits all that the advice is for.
        F.coalesce(is_whole, F.lit(False)).alias("is_whole"),
    )


def _of_names(policy: Policy) -> Any:
    """Return the function that advises one name, for applyInArrow."""

    def advise_name(
        names: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        day = Day()
        for rows in batches:
            day.add(rows)
        named = dict(zip(_NAMES, (name.as_py() for name in names), strict=True))
        found = [each for key in KEYS if (each := advise(day, key, policy)) is not None]
        yield pa.RecordBatch.from_pylist([named | each._asdict() for each in found], _ROWS)

    return advise_name


def advise(day: Day, key: Key, policy: Policy) -> Advice | None:
    """Return the advice for one key; None if the name was hardly active."""
    used, requests = day.used(key), day.requests(key)
    active = ((used > 0) & (requests > 0)).reshape(-1, 60).any(axis=1)
    if active.sum() < policy.least_minutes:
        return None
    held = day.held(key)
    whole = LimitSearch(key, used, requests)
    free = whole
    if (active & held.minutes).any():
        is_free: np.ndarray = np.repeat(~held.minutes, 60)
        free = LimitSearch(key, used * is_free, requests * is_free)
    return _Decision(key, policy, active, held, whole, free).advice()


class _Decision:
    """What follows from a name's day: `whole` has all of its seconds, `free` those in which no limit held.

    The free minutes count for themselves only if they show a need that is clearly above the limit: then it
    did not hold all day. Otherwise the client keeps within it in these minutes, and the others show that it
    needs more; advice from such minutes would add the headroom every day.
    """

    def __init__(
        self,
        key: Key,
        policy: Policy,
        active: np.ndarray,
        held: Held,
        whole: LimitSearch,
        free: LimitSearch,
    ) -> None:
        self._key = key
        self._policy = policy
        self._held = held
        self._whole = whole
        self._free = free
        self._bounds = Bounds(policy.throttled_requests * free.total, policy.longest_wait_ms)
        self._minutes = int(active.sum())
        self._censored = int((active & held.minutes).sum())

    def advice(self) -> Advice:
        policy, held = self._policy, self._held
        if not self._censored or self._is_need_shown():
            return self._simulated(self._free.smallest(self._bounds))
        if not held.has_events:
            return self._measured(None, None)
        share = min(held.requests / max(self._whole.total, 1), 1.0)
        of_time = min(held.ms / (60_000 * self._minutes), 1.0)
        is_little = share <= policy.throttled_requests and held.longest_ms <= policy.longest_wait_ms
        return self._measured((share, of_time, held.longest_ms), held.limit if is_little else None)

    def _is_need_shown(self) -> bool:
        """Return whether the free minutes are enough, and show a need above the limit."""
        policy, limit = self._policy, self._held.limit
        if not self._held.has_events:
            return False
        free_minutes = self._minutes - self._censored
        if free_minutes < policy.least_minutes or self._censored > policy.most_censored * self._minutes:
            return False
        return limit is None or not self._free.outcome(limit * CLEARLY, self._bounds).is_within

    def _simulated(self, needed: float) -> Advice:
        policy = self._policy
        recommended = rounded_up(needed * policy.headroom)
        outcome = self._free.outcome(recommended)
        of_time = outcome.ms / (60_000 * (self._minutes - self._censored))
        shares = min(outcome.requests / self._free.total, 1.0), min(of_time, 1.0), outcome.longest_ms
        left_out = ""
        if self._censored:
            left_out = f" {self._censored:,} other minutes do not count, because a limit held in them."
        reason = (
            f"On this day a limit of {self._words(needed)} would have throttled at most "
            f"{policy.throttled_requests:.0%} of the requests, each for at most "
            f"{policy.longest_wait_ms / 1_000:g} s; {self._words(self._free.peak)} was the highest use of "
            f"ten seconds in {self._minutes - self._censored:,} active minutes.{left_out} With "
            f"{policy.headroom - 1:.0%} headroom the limit is {self._words(recommended)}. In simulation it "
            f"throttles {_in_words(shares)}."
        )
        return self._row(needed, self._free.peak, recommended, SIMULATED, shares, reason)

    def _measured(self, shares: _Shares | None, recommended: float | None) -> Advice:
        limit, did = self._held.limit, "No event says by which limit."
        if shares is not None:
            which = "It" if limit is None else f"The limit of {self._words(limit)}"
            did = f"{which} throttled {_in_words(shares)}."
        then = "Raise the limit in steps, and look again after a day."
        if recommended is not None:
            then = "That is little: the limit can stay."
        reason = (
            f"A limit held in {self._censored:,} of {self._minutes:,} active minutes, so the need is not "
            f"known: it is at least {self._words(self._whole.peak)}, the highest use of ten seconds. "
            f"{did} {then}"
        )
        return self._row(None, self._whole.peak, recommended, MEASURED, shares, reason)

    def _row(
        self,
        needed: float | None,
        peak: float,
        recommended: float | None,
        basis: str,
        shares: _Shares | None,
        reason: str,
    ) -> Advice:
        of_requests, of_time, longest_ms = (None, None, None) if shares is None else shares
        return Advice(
            self._key.name,
            self._minutes,
            self._censored,
            self._censored / self._minutes,
            needed,
            peak,
            self._held.limit,
            recommended,
            basis,
            of_requests,
            of_time,
            longest_ms,
            reason,
        )

    def _words(self, value: float) -> str:
        """Return a value with its unit: bytes per second, or percent of a thread."""
        if self._key.unit > 1:
            return f"{value:.2f}% of a thread"
        for size, unit in ((1e6, "MB/s"), (1e3, "kB/s")):
            if value >= size:
                return f"{value / size:.1f} {unit}"
        return f"{value:.0f} B/s"


def _in_words(shares: _Shares) -> str:
    of_requests, of_time, longest_ms = shares
    return f"{of_requests:.1%} of the requests, for {of_time:.1%} of the time and at most {longest_ms:,} ms"


def rounded_up(value: float) -> float:
    """Round up to two digits, so that a recommendation does not look like a measurement."""
    unit = 10.0 ** (floor(log10(value)) - 1)
    return round(ceil(round(value / unit, 6)) * unit, 6)
