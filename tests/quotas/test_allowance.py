"""The integral of a limit over the last seconds, from few marks."""

import random

import pytest

from broker.quotas.allowance import Allowance


def test_before_its_first_change_the_limit_was_what_it_was() -> None:
    allowance = Allowance(100, 300, spacing_ms=1_000, reach_ms=12_000, now_ms=10_000)
    assert allowance.between(4_000, 10_000) == 600
    assert allowance.between(9_000, 12_000) == 100 + 600
    assert allowance.between(11_000, 12_000) == 300


@pytest.mark.parametrize("every_ms", [5, 999, 1_000, 1_001, 7_000])
def test_it_is_the_integral_within_what_one_spacing_holds(every_ms: int) -> None:
    dice = random.Random(3)
    values = [500.0]
    allowance, now_ms = Allowance(100, 500, spacing_ms=1_000, reach_ms=12_000, now_ms=20_000), 20_000
    times = [20_000]
    for _ in range(60_000 // every_ms):
        now_ms += every_ms
        values.append(dice.uniform(10, 1_000))
        times.append(now_ms)
        allowance.change(values[-1], now_ms)
    assert len(allowance._marks) <= 14
    ends = [*times[1:], now_ms + 50]
    for back_ms in (0, 1, 500, 3_000, 10_999, 12_000):
        begin_ms = now_ms + 50 - back_ms
        exact = sum(
            value * max(end - max(start, begin_ms), 0) / 1_000
            for start, end, value in zip(times, ends, values, strict=True)
        )
        # Within a spacing the limit is averaged.
        assert allowance.between(begin_ms, now_ms + 50) == pytest.approx(exact, abs=1_000 * 1.001 / 2)


def test_marks_that_are_too_old_are_dropped_and_those_in_reach_stay_exact() -> None:
    allowance = Allowance(1, 100, spacing_ms=1_000, reach_ms=3_000, now_ms=0)
    for second in range(1, 20):
        allowance.change(100 + second, second * 1_000)
    assert allowance.between(17_000, 19_000) == 117 + 118
    assert len(allowance._marks) <= 5
