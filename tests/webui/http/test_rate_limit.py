"""The console's share of the broker's one thread."""

import pytest
import trio
from trio.testing import MockClock

from webui.http.fair_queue import BURST, LONGEST_WAIT_S, TURNS_PER_S, RateLimit


def taken(pace: RateLimit, count: int) -> list[float | None]:
    return [pace.take() for _ in range(count)]


async def test_a_page_load_is_served_at_once(mock_clock: MockClock) -> None:
    assert taken(RateLimit(), BURST) == [0.0] * BURST


async def test_more_than_a_burst_waits_in_line(mock_clock: MockClock) -> None:
    waits = taken(RateLimit(), BURST + TURNS_PER_S)
    assert waits[BURST] == pytest.approx(1 / TURNS_PER_S) and waits[-1] == pytest.approx(1.0)


async def test_quiet_earns_the_burst_again_and_no_more(mock_clock: MockClock) -> None:
    pace = RateLimit()
    taken(pace, BURST + 1)
    mock_clock.jump(3_600)
    assert taken(pace, BURST) == [0.0] * BURST
    assert pace.take() == pytest.approx(1 / TURNS_PER_S)


async def test_who_would_wait_too_long_gets_no_turn_and_takes_none(mock_clock: MockClock) -> None:
    pace = RateLimit()
    within = BURST + LONGEST_WAIT_S * TURNS_PER_S
    waits = taken(pace, within + 7)
    assert waits[within - 1] == pytest.approx(LONGEST_WAIT_S) and waits[within:] == [None] * 7
    mock_clock.jump(1 / TURNS_PER_S + 1e-6)
    assert pace.take() is not None and trio.current_time() < 1


async def test_a_turn_is_waited_for(autojump_clock: MockClock) -> None:
    pace = RateLimit()
    for _ in range(BURST + TURNS_PER_S):
        assert await pace.turn()
    assert trio.current_time() == pytest.approx(1.0)
    taken(pace, LONGEST_WAIT_S * TURNS_PER_S)
    assert not await pace.turn()
    assert trio.current_time() == pytest.approx(1.0)
