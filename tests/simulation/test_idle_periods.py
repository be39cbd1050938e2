"""Periods without throttling, which need no simulation."""

import pytest

from broker.metrics.rate import Window
from broker.simulation.idle_periods import FOREVER, ConnectionDemand, IdlePeriods
from broker.simulation.scenario import SECOND_US, Piece

WINDOW = Window(11, 1_000)
LEAD = 14 * SECOND_US


def demand(rate: float, request: float = 0, start: int = 0, end: int = 100 * SECOND_US) -> ConnectionDemand:
    return ConnectionDemand((Piece(start, end, 1.0),), rate, request)


@pytest.mark.parametrize(("rate", "is_calm"), [(998, True), (999.9, True), (1_000.1, False)])
def test_a_client_that_wants_less_than_the_limit_is_idle(rate, is_calm):
    assert (IdlePeriods([demand(rate)], 1_000, WINDOW).until(0) == FOREVER) is is_calm


def test_all_under_a_limit_count_together():
    assert IdlePeriods([demand(400), demand(400)], 1_000, WINDOW).until(0) == FOREVER
    assert IdlePeriods([demand(400), demand(700)], 1_000, WINDOW).until(0) == 0


@pytest.mark.parametrize(("request_bytes", "is_calm"), [(4_900, True), (5_100, False)])
def test_one_request_of_all_clients_may_come_at_once(request_bytes, is_calm):
    """500 of 1,000 B/s are left, and ten windows always count as seen: 5,000 bytes."""
    assert (IdlePeriods([demand(500, request_bytes)], 1_000, WINDOW).until(0) == FOREVER) is is_calm


def test_a_request_larger_than_the_windows_is_never_idle_while_any_client_is_there():
    assert IdlePeriods([demand(1, 10_001)], 1_000, WINDOW).until(50 * SECOND_US) == 50 * SECOND_US


def test_it_is_played_from_a_lead_before_to_a_lead_after():
    idle = IdlePeriods([demand(2_000, start=40 * SECOND_US, end=50 * SECOND_US)], 1_000, WINDOW)
    assert idle.until(0) == 40 * SECOND_US - LEAD
    assert idle.until(40 * SECOND_US - LEAD) == 40 * SECOND_US - LEAD
    assert idle.until(50 * SECOND_US + LEAD - 1) == 50 * SECOND_US + LEAD - 1
    assert idle.until(50 * SECOND_US + LEAD) == FOREVER


def test_stretches_whose_leads_meet_are_one():
    both = [demand(20_000, start=s * SECOND_US, end=(s + 1) * SECOND_US) for s in (40, 60)]
    assert IdlePeriods(both, 1_000, WINDOW).until(50 * SECOND_US) == 50 * SECOND_US


def test_a_client_that_waits_is_not_idle_until_the_windows_have_passed():
    idle = IdlePeriods([demand(1)], 1_000, WINDOW)
    idle.note_wait(3 * SECOND_US)
    assert idle.until(3 * SECOND_US + LEAD - 1) == 3 * SECOND_US + LEAD - 1
    assert idle.until(3 * SECOND_US + LEAD) == FOREVER


@pytest.mark.parametrize(("request_bytes", "is_calm"), [(490, True), (510, False)])
def test_a_bucket_leaves_space_for_what_it_holds(request_bytes, is_calm):
    idle = IdlePeriods([demand(500, request_bytes)], 1_000, WINDOW, burst_ms=1_000)
    assert (idle.until(0) == FOREVER) is is_calm


@pytest.mark.parametrize(("burst_seconds", "is_calm"), [(4.9, True), (5.1, False)])
def test_a_burst_that_fits_into_the_windows_is_idle(burst_seconds, is_calm):
    """Twice the limit for five seconds fills the ten seconds that count as seen."""
    burst = demand(2_000, start=40 * SECOND_US, end=int((40 + burst_seconds) * SECOND_US))
    assert (IdlePeriods([burst], 1_000, WINDOW).until(0) == FOREVER) is is_calm


@pytest.mark.parametrize(("gap_seconds", "is_calm"), [(12.0, True), (8.9, False)])
def test_bursts_count_together_as_far_as_the_windows_look_back(gap_seconds, is_calm):
    again = int((43 + gap_seconds) * SECOND_US)
    both = [
        demand(2_000, start=40 * SECOND_US, end=43 * SECOND_US),
        demand(50_000, start=again, end=again + SECOND_US // 7),
    ]
    assert (IdlePeriods(both, 1_000, WINDOW).until(0) == FOREVER) is is_calm
