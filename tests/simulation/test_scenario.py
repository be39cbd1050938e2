"""A client's demand over time."""

import pytest

from broker.simulation.scenario import DAY_US, SECOND_US, STEP_US, Bursts, Constant, Diurnal, Piece, between

HOUR_US = 3_600 * SECOND_US


def test_a_constant_schedule_is_one_piece():
    assert list(Constant().pieces(7)) == [Piece(0, 7, 1.0)]


def test_a_day_has_its_peak_and_its_low_where_it_is_told_to():
    pieces = list(Diurnal(low=0.2, peak_us=14 * HOUR_US).pieces(DAY_US))
    assert len(pieces) == DAY_US // STEP_US
    highest, lowest = max(pieces, key=lambda p: p.factor), min(pieces, key=lambda p: p.factor)
    assert (highest.factor, lowest.factor) == (pytest.approx(1, abs=1e-3), pytest.approx(0.2, abs=1e-3))
    assert highest.start_us in (14 * HOUR_US - STEP_US, 14 * HOUR_US)
    assert lowest.start_us in (2 * HOUR_US - STEP_US, 2 * HOUR_US)


def test_a_day_averages_halfway_between_low_and_peak():
    pieces = list(Diurnal(low=0.4, peak_us=0).pieces(DAY_US))
    assert sum(p.factor for p in pieces) / len(pieces) == pytest.approx(0.7)


def test_a_day_ends_with_the_simulation():
    assert list(Diurnal(0, 0).pieces(STEP_US + 5))[-1].end_us == STEP_US + 5


def test_bursts_come_at_the_beginning_of_each_interval():
    assert list(Bursts(10, 3, 0).pieces(22)) == [Piece(0, 3, 1.0), Piece(10, 13, 1.0), Piece(20, 22, 1.0)]


def test_between_bursts_a_client_may_go_on_lower():
    assert list(Bursts(10, 3, 0.5).pieces(13)) == [Piece(0, 3, 1.0), Piece(3, 10, 0.5), Piece(10, 13, 1.0)]


@pytest.mark.parametrize(
    ("start", "stop", "left"),
    [
        (0, 10, (Piece(0, 10, 1.0),)),
        (3, 7, (Piece(3, 7, 1.0),)),
        (9, 10, (Piece(9, 10, 1.0),)),
        (10, 12, ()),
    ],
)
def test_a_client_is_there_from_its_start_until_its_stop(start, stop, left):
    assert between([Piece(0, 10, 1.0)], start, stop) == left
