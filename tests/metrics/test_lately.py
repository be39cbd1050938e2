"""Mean and maximum of the last two windows."""

from broker.metrics.lately import WINDOW_MS, Lately


def test_nothing_measured_is_nothing() -> None:
    assert Lately().look(0) == (0.0, 0)


def test_two_windows_are_told_together_and_older_ones_not_at_all() -> None:
    lately = Lately()
    lately.add(10, WINDOW_MS)
    lately.add(2, 2 * WINDOW_MS)
    assert lately.look(3 * WINDOW_MS - 1) == (6.0, 10)
    assert lately.look(3 * WINDOW_MS) == (2.0, 2)
    assert lately.look(4 * WINDOW_MS) == (0.0, 0)


def test_a_window_in_which_nothing_happened_forgets_too() -> None:
    lately = Lately()
    lately.add(10, 0)
    assert lately.look(2 * WINDOW_MS) == (0.0, 0)
