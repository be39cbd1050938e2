"""Waits of handlers within slow requests, on numbers that the test chooses."""

from broker.network.handling.handler_pool import SlowWaits


def test_waits_in_progress_count_until_now_and_ended_ones_once() -> None:
    waits = SlowWaits()
    assert waits.total_ns(100) == 0
    waits.begin(100)
    waits.begin(150)
    assert (waits.total_ns(200), waits.ended_ns) == (150, 0)
    waits.end(100, 300)
    assert (waits.total_ns(300), waits.ended_ns) == (350, 200)
    waits.end(150, 400)
    assert waits.total_ns(999) == waits.ended_ns == 450
