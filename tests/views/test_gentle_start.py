"""A higher limit to begin with, if the wanted one would throttle for long at first."""

import pytest

from broker.controller.rows.quotas import FirstWait
from broker.views.gentle_start import GENTLE_MS, first_wait, round_up


def window_wait_ms(observed: float, bound: float) -> int:
    """As the quotas compute it over ten seconds."""
    return max(round((observed - bound) / bound * 10_000), 0)


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (6.0, FirstWait(0)),
        (5.0, FirstWait(GENTLE_MS)),
        (4.999, FirstWait(2_002, 5.0, 2_000)),
        (0.6, FirstWait(90_000, 5.0, 2_000)),
        (0.0007, FirstWait(85_704_286, 5.0, 2_000)),
    ],
)
def test_a_long_first_throttle_has_a_gentler_limit(bound: float, expected: FirstWait) -> None:
    assert first_wait(lambda limit: window_wait_ms(6.0, limit), bound) == expected


def test_a_debt_is_repaid_faster_at_a_higher_limit() -> None:
    assert first_wait(lambda limit: round(20e6 / limit * 1_000), 1e6) == FirstWait(20_000, 1e7, 2_000)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(1.0, 1.0), (1.01, 1.1), (19_167.0, 20_000.0), (1_916_667.0, 2_000_000.0), (0.123, 0.13), (99.5, 100.0)],
)
def test_limits_are_rounded_up_to_two_digits(limit: float, expected: float) -> None:
    assert round_up(limit) == expected
