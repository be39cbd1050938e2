"""The bound on a measured value, and how long to wait when it is broken. (Kafka: Quota,
QuotaViolationException, QuotaUtils)

Called by sensors, by the quota managers and by connection quotas. A broken bound is an expected outcome, so
it is a value and not an exception.
"""

from dataclasses import dataclass
from math import floor, inf, isnan, nan
from typing import Final

LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -(2**63)
INT_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Quota:
    """At most `bound` if `upper`, else at least `bound`; the bound itself is allowed."""

    bound: float
    upper: bool = True

    def acceptable(self, value: float) -> bool:
        return value <= self.bound if self.upper else value >= self.bound


@dataclass(frozen=True, slots=True)
class Violation:
    """What was measured, and the bound that it broke."""

    observed: float
    bound: float


def java_round(value: float) -> int:
    """Java's Math.round: halves go up, where Python's go to the even neighbour.

    Infinities go to the ends of a long, NaN to 0.
    """
    if value >= LONG_MAX:
        return LONG_MAX
    if value <= LONG_MIN:
        return LONG_MIN
    if isnan(value):
        return 0
    whole = floor(value)
    return whole + 1 if value - whole >= 0.5 else whole


def java_divide(dividend: float, divisor: float) -> float:
    """IEEE division, which Python refuses for a zero divisor."""
    if divisor:
        return dividend / divisor
    if dividend == 0 or isnan(dividend):
        return nan
    return inf if dividend > 0 else -inf


def throttle_time_ms(observed: float, bound: float, window_ms: int) -> int:
    """How long nothing may be recorded until `observed`, measured over `window_ms`, is down to `bound`.

    X with O * W / (W + X) = T, so X = (O - T) / T * W. Negative when there is room left.
    (QuotaUtils.throttleTime)
    """
    return java_round(java_divide(observed - bound, bound) * window_ms)


def bounded_throttle_time_ms(observed: float, bound: float, window_ms: int, longest_ms: int) -> int:
    """The same, and never more than `longest_ms`. (QuotaUtils.boundedThrottleTime)"""
    return min(throttle_time_ms(observed, bound, window_ms), longest_ms)
