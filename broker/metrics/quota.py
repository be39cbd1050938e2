"""The throttle time of a violated quota, with Java's arithmetic. (Kafka: QuotaUtils)

Called by the quota managers, by the token bucket and by connection quotas.
"""

from math import floor, inf, isnan, nan
from typing import Final

LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -(2**63)
INT_MAX: Final = 2**31 - 1


def java_round(value: float) -> int:
    """Round like Java's Math.round: halves go up, where Python's go to the even neighbour.

    Infinities become the limits of a long, NaN becomes 0.
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
    """Divide as IEEE 754 does, where Python raises for a zero divisor."""
    if divisor:
        return dividend / divisor
    if dividend == 0 or isnan(dividend):
        return nan
    return inf if dividend > 0 else -inf


def throttle_time_ms(observed: float, bound: float, window_ms: int) -> int:
    """Return the time without recording after which `observed`, measured over `window_ms`, is down to
    `bound`.

    X with O * W / (W + X) = T, so X = (O - T) / T * W. Negative below the bound. (QuotaUtils.throttleTime)
    """
    return java_round(java_divide(observed - bound, bound) * window_ms)


def bounded_throttle_time_ms(observed: float, bound: float, window_ms: int, longest_ms: int) -> int:
    """Return the same, at most `longest_ms`. (QuotaUtils.boundedThrottleTime)"""
    return min(throttle_time_ms(observed, bound, window_ms), longest_ms)
