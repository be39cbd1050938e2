"""Java's rounding, and the throttle formula of Kafka's QuotaUtilsTest."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.metrics.rate import (
    LONG_MAX,
    LONG_MIN,
    Rate,
    Window,
    bounded_throttle_time_ms,
    java_divide,
    java_round,
    throttle_time_ms,
)


def window_ms(samples: int) -> int:
    """A new rate over windows of a second divides by this time."""
    return Rate(Window(samples, 1_000)).window_size_ms(0)


@pytest.mark.parametrize("samples", [10, 11])
def test_at_the_bound_there_is_nothing_to_wait_for(samples):
    assert throttle_time_ms(16.5, 16.5, window_ms(samples)) == 0


def test_below_the_bound_the_wait_is_negative():
    assert throttle_time_ms(16.5, 20.4, window_ms(10)) == -1_721


def test_twice_the_bound_over_two_seconds_waits_two_seconds():
    assert throttle_time_ms(100, 50, window_ms(3)) == 2_000


@pytest.mark.parametrize(
    ("observed", "samples", "wait_ms"),
    [pytest.param(55, 2, 100, id="2 samples"), pytest.param(100, 10, 500, id="10 samples")],
)
def test_a_bounded_wait_is_the_smaller_of_the_two(observed, samples, wait_ms):
    assert bounded_throttle_time_ms(observed, 50, window_ms(samples), 500) == wait_ms


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        *[(0.5, 1), (1.5, 2), (2.5, 3), (-0.5, 0), (-1.5, -1), (-2.5, -2)],
        *[(0.49999999999999994, 0), (0.4999, 0), (-0.5001, -1), (2.0, 2), (2.0**52 + 1, 2**52 + 1)],
        *[(inf, LONG_MAX), (-inf, LONG_MIN), (nan, 0), (1e300, LONG_MAX), (2.0**63, LONG_MAX)],
    ],
)
def test_halves_go_up_and_what_a_long_cannot_hold_goes_to_its_ends(value, rounded):
    assert java_round(value) == rounded


@given(st.floats(min_value=-1e15, max_value=1e15))
def test_rounding_never_moves_by_more_than_a_half(value):
    assert -0.5 <= value - java_round(value) < 0.5 or abs(value) > 2**51


def test_a_bound_of_zero_is_an_endless_wait_that_one_window_cuts():
    assert throttle_time_ms(1, 0, 1_000) == LONG_MAX
    assert throttle_time_ms(0, 0, 1_000) == 0
    assert bounded_throttle_time_ms(1, 0, 1_000, 1_000) == 1_000


def test_division_by_zero_is_ieee():
    assert java_divide(1, 0) == inf
    assert java_divide(-1, 0) == -inf
    assert java_divide(0, 0) != java_divide(0, 0)
    assert java_divide(3, 2) == 1.5
