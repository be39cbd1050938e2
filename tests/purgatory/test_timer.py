"""The timer's expired entries and its next deadline. (Kafka: TimerTest)"""

import pytest

from broker.purgatory.timing_wheel import Timer, TimerTask

NOW = 1_700_000_000_000


@pytest.mark.parametrize(("later", "fired"), [(99, 0), (100, 1), (101, 1)])
def test_an_entry_expires_exactly_at_its_time(later, fired):
    timer = Timer()
    timer.add(TimerTask(NOW + 100), NOW)
    assert len(timer.advance(NOW + later)) == fired
    assert timer.size == 1 - fired


def test_negative_delays_are_due_at_once_and_all_the_others_fire_in_order():
    timer = Timer(tick_ms=1, wheel_size=3)
    for delay in range(-5, 0):
        timer.add(TimerTask(NOW + delay), NOW)
    assert timer.next_deadline() == NOW - 5
    assert [entry.expiration_ms - NOW for entry in timer.advance(NOW)] == [-5, -4, -3, -2, -1]

    delays = [*range(5), *range(10, 100), *range(10, 100), *range(100, 500)]
    for delay in delays:
        timer.add(TimerTask(NOW + delay), NOW)
    assert timer.size == len(delays)
    assert [entry.expiration_ms - NOW for entry in timer.advance(NOW + 2_000)] == sorted(delays)
    assert timer.size == 0 and timer.next_deadline() is None


def test_following_next_deadline_fires_every_entry_at_its_millisecond():
    timer = Timer()
    expirations = [NOW + delay for delay in (1, 19, 20, 21, 399, 400, 8_001, 123_456)]
    for expiration in reversed(expirations):
        timer.add(TimerTask(expiration), NOW)
    fired = []
    while (deadline := timer.next_deadline()) is not None:
        fired += [(deadline, entry.expiration_ms) for entry in timer.advance(deadline)]
    assert fired == [(expiration, expiration) for expiration in expirations]


def test_an_entry_cancelled_after_it_came_due_is_not_handed_back():
    timer = Timer()
    due, later = TimerTask(NOW), TimerTask(NOW + 5)
    timer.add(due, NOW)
    timer.add(later, NOW)
    assert timer.size == 2
    due.cancel()
    later.cancel()
    assert timer.size == 0
    assert timer.advance(NOW + 10) == []


def test_a_quiet_hour_does_not_push_the_next_entry_up_the_levels():
    timer = Timer()
    timer.add(TimerTask(NOW + 10), NOW)
    timer.advance(NOW + 10)
    entry = TimerTask(NOW + 3_600_015)
    timer.add(entry, NOW + 3_600_000)
    assert timer.next_deadline() == NOW + 3_600_015
