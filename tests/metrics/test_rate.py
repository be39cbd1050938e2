"""Rate, SimpleRate and Meter against the numbers of Kafka's RateTest and MetricsTest."""

from random import Random

import pytest

from broker.metrics.rate import WINDOW_NS, CounterRate, Meter, Rate, SimpleRate, Window

START = 1_700_000_000_000


@pytest.mark.parametrize("samples", [1, 11])
@pytest.mark.parametrize("window_s", [1, 11])
def test_without_prior_windows_all_but_the_present_count_as_seen(samples, window_s):
    rate = Rate(Window(samples, window_s * 1_000))
    rate.record(50, START)
    elapsed_s = (window_s * 1_000 - 1) / 1_000
    expected = 50 / (elapsed_s + (samples - 1) * window_s)
    assert rate.measure(START + window_s * 1_000 - 1) == pytest.approx(expected, rel=1e-15)


def test_a_steady_client_is_measured_steadily_from_the_second_window_on():
    steps_ms = [0, 99, *[100] * 8, 101]
    rate = Rate(Window(2, 1_000))
    now_ms = START
    for step_ms in steps_ms:
        now_ms += step_ms
        rate.record(1, now_ms)
    for _ in range(5):
        now_ms += 100
        for step_ms in steps_ms:
            now_ms += step_ms
            rate.record(1, now_ms)
            assert 10 <= rate.measure(now_ms) <= 11


def test_six_thousand_three_hundred_bytes_in_ten_and_a_half_seconds_are_600_per_second():
    rate = Rate(Window(11, 1_000))
    for second in range(10):
        rate.record(400, START + second * 1_000)
    now_ms = START + 10_500
    rate.record(2_300, now_ms)
    assert rate.measure(now_ms) == 600
    assert rate.window_size_ms(now_ms) == 10_500


def test_the_first_event_is_spread_over_the_windows_before_it():
    rate = Rate(Window(11, 1_000))
    rate.record(100, START)
    assert rate.measure(START) == 10
    assert rate.window_size_ms(START) == 10_000


def test_a_window_is_at_least_a_millisecond():
    rate = Rate(Window(1, 1_000))
    rate.record(50, START)
    assert rate.window_size_ms(START) == 1
    assert rate.measure(START) == 50_000


def test_measuring_begins_the_window():
    rate = Rate(Window(2, 1_000))
    assert rate.measure(START) == 0
    rate.record(30, START + 1_500)
    assert rate.window_size_ms(START + 1_500) == 1_500
    assert rate.measure(START + 1_500) == 20


def test_a_simple_rate_supposes_no_windows_before_its_first():
    rate = SimpleRate(Window(10, 1_000))
    rate.record(1_000, START)
    expected = [(0, 1_000), (1_000, 1_000), (1_200, 1_000 / 1.2), (1_400, 1_000 / 1.4)]
    for at_ms, value in expected:
        assert rate.measure(START + at_ms) == pytest.approx(value, rel=1e-15), at_ms
    rate.record(1_000, START + 1_400)
    assert rate.measure(START + 1_400) == pytest.approx(2_000 / 1.4, rel=1e-15)
    assert rate.measure(START + 2_500) == pytest.approx(2_000 / 2.5, rel=1e-15)
    rate.record(1_000, START + 2_500)
    assert rate.measure(START + 2_500) == pytest.approx(3_000 / 2.5, rel=1e-15)
    assert rate.measure(START + 9_000) == pytest.approx(3_000 / 9, rel=1e-15)
    rate.record(1_000, START + 9_000)
    assert rate.measure(START + 9_000) == pytest.approx(4_000 / 9, rel=1e-15)
    # The first sample's only event is ten windows old at 10 s; the oldest remaining one began at 1.4 s.
    assert rate.measure(START + 10_500) == pytest.approx((4_000 - 1_000) / 9.1, rel=1e-15)
    rate.record(1_000, START + 10_500)
    assert rate.measure(START + 10_500) == pytest.approx((5_000 - 1_000) / 9.1, rel=1e-15)


def test_a_meter_keeps_the_total_that_the_rate_forgets():
    meter = Meter(Window(2, 1_000), unit_ms=1.0)
    meter.record(250, START)
    assert meter.rate.measure(START) == 0.25
    assert meter.rate.measure(START + 5_000) == 0
    assert meter.total == 250


@pytest.mark.parametrize("kind", [Rate, SimpleRate])
def test_a_look_says_what_measuring_would_and_leaves_no_trace(kind: type[Rate]) -> None:
    """Two of each; one is also read between any two events."""
    chance, now_ms = Random(3), 1_000_000
    seen, unseen = kind(Window(3, 1_000)), kind(Window(3, 1_000))
    for _ in range(3_000):
        now_ms += chance.choice((0, 1, 300, 999, 1_000, 2_999, 3_000, 9_000))
        looked = seen.peek(now_ms)
        assert looked == seen.peek(now_ms)
        if chance.random() < 0.3:
            assert looked == unseen.measure(now_ms) == seen.measure(now_ms)
        else:
            value = chance.randrange(-5, 50)
            seen.record(value, now_ms)
            unseen.record(value, now_ms)


def test_the_first_look_closes_a_window_that_began_at_zero() -> None:
    assert CounterRate(5).update(WINDOW_NS // 2 + 5, (100,)) == (200.0,)


@pytest.mark.parametrize(("after", "rate"), [(-1, 0.0), (0, 30.0), (WINDOW_NS, 15.0)])
def test_a_later_window_lasts_for_a_second_or_until_a_read(after: int, rate: float) -> None:
    growth = CounterRate(0)
    growth.update(1, (0,))
    (shown,) = growth.update(1 + WINDOW_NS + after, (30,))
    assert shown == pytest.approx(rate)


def test_each_total_has_its_own_rate() -> None:
    growth = CounterRate(0)
    growth.update(WINDOW_NS, (10, 100))
    assert growth.update(3 * WINDOW_NS, (14, 100)) == (2.0, 0.0)


def test_a_total_that_falls_did_not_grow() -> None:
    growth = CounterRate(0)
    growth.update(WINDOW_NS, (10,))
    assert growth.update(2 * WINDOW_NS, (4,)) == (0.0,)
    assert growth.update(3 * WINDOW_NS, (5,)) == (1.0,)
