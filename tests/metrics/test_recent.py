"""Counts per interval of five seconds over the last five minutes."""

import pytest

from broker.metrics.recent import STRETCH_MS, STRETCHES, Recent

BEGIN = 1_700_000_000_000
"""An interval begins here."""


def test_each_stretch_has_what_was_counted_in_it() -> None:
    recent = Recent(2, BEGIN)
    for at_ms, values in [(0, (1, 10)), (4_999, (2, 20)), (5_000, (4, 40)), (15_000, (8, 80))]:
        recent.add(values, BEGIN + at_ms)
    rows = recent.rows(BEGIN + 15_000)
    assert len(rows) == STRETCHES
    assert rows[-4:] == [(3, 30), (4, 40), (0, 0), (8, 80)]
    assert set(rows[:-4]) == {(0, 0)}


@pytest.mark.parametrize(("later", "left"), [(STRETCHES - 1, 7), (STRETCHES, 0), (10 * STRETCHES, 0)])
def test_what_is_older_than_the_ring_is_gone(later: int, left: int) -> None:
    recent = Recent(1, BEGIN)
    recent.add((7,), BEGIN)
    rows = recent.rows(BEGIN + later * STRETCH_MS)
    assert (rows[0], sum(row[0] for row in rows)) == ((left,), left)


@pytest.mark.parametrize(
    ("now_ms", "seen_ms", "rate"),
    [
        (12_000, 60_000, 350 / 12),  # the present interval so far and the two before it
        (14_999, 60_000, 350 / 14.999),
        (15_000, 60_000, 250 / 10),  # the first is expired
        (12_000, 4_000, 350 / 4),  # known for four seconds
        (12_000, 10, 350),  # known for less than a second
    ],
)
def test_a_rate_is_over_the_last_ten_to_fifteen_seconds(now_ms: int, seen_ms: int, rate: float) -> None:
    recent = Recent(1, BEGIN)
    for at_ms, value in [(0, 100), (5_000, 200), (10_000, 50)]:
        recent.add((value,), BEGIN + at_ms)
    assert recent.per_second(seen_ms, BEGIN + now_ms) == [pytest.approx(rate)]


def test_a_clock_that_steps_back_loses_nothing() -> None:
    recent = Recent(1, BEGIN)
    recent.add((1,), BEGIN + 5_000)
    recent.add((2,), BEGIN)
    assert recent.rows(BEGIN)[-1] == (3,)
