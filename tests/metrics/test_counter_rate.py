"""Rates of totals, independent of the number of readers."""

import pytest

from broker.metrics.counter_rate import WINDOW_NS, CounterRate


def test_the_first_look_closes_a_window_that_began_at_zero() -> None:
    assert CounterRate(5).look(WINDOW_NS // 2 + 5, (100,)) == (200.0,)


@pytest.mark.parametrize(("after", "rate"), [(-1, 0.0), (0, 30.0), (WINDOW_NS, 15.0)])
def test_a_later_window_lasts_for_a_second_or_until_somebody_looks(after: int, rate: float) -> None:
    growth = CounterRate(0)
    growth.look(1, (0,))
    (shown,) = growth.look(1 + WINDOW_NS + after, (30,))
    assert shown == pytest.approx(rate)


def test_each_total_has_its_own_rate() -> None:
    growth = CounterRate(0)
    growth.look(WINDOW_NS, (10, 100))
    assert growth.look(3 * WINDOW_NS, (14, 100)) == (2.0, 0.0)


def test_a_total_that_falls_did_not_grow() -> None:
    growth = CounterRate(0)
    growth.look(WINDOW_NS, (10,))
    assert growth.look(2 * WINDOW_NS, (4,)) == (0.0,)
    assert growth.look(3 * WINDOW_NS, (5,)) == (1.0,)
