"""The order and the rate of requests."""

import pytest
import trio
from trio.testing import MockClock

from webui.fair_queue import (
    BURST,
    CHANGES_PER_S,
    FLOOD_TURN_S,
    FLOOD_WAIT_S,
    LONGEST_WAIT_S,
    MAX_AT_ONCE,
    TURNS_PER_S,
    FairQueue,
    RateLimit,
    TurnKind,
)


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


async def test_a_client_that_would_wait_too_long_gets_no_turn_and_takes_none(mock_clock: MockClock) -> None:
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


@pytest.mark.parametrize(("at_once", "wait_s"), [(31, 0.0), (32, 0.0), (33, FLOOD_TURN_S)])
async def test_more_at_once_than_a_browser_asks_for_is_a_flood(
    at_once: int, wait_s: float, mock_clock: MockClock
) -> None:
    lines = FairQueue()
    assert [lines.turn("one") for _ in range(at_once)][-1].wait_s == wait_s


async def test_a_flood_gets_one_turn_a_second_and_no_other_client_notices(mock_clock: MockClock) -> None:
    lines = FairQueue()
    waits = [lines.turn("flood").wait_s for _ in range(MAX_AT_ONCE + 4)]
    assert waits[MAX_AT_ONCE:] == [1.0, 2.0, 3.0, 4.0]
    assert lines.turn("somebody else").wait_s == 0


async def test_a_flood_that_asks_again_at_once_gets_no_more(mock_clock: MockClock) -> None:
    """Send the next request after each response, as `wrk -c 200` does."""
    lines, answered = FairQueue(), 0
    due = [(turn.wait_s, turn) for turn in (lines.turn("flood") for _ in range(200))]
    while (next_due := min(due, key=lambda each: each[0]))[0] <= 20.0:
        due.remove(next_due)
        at, turn = next_due
        mock_clock.jump(at - trio.current_time())
        assert turn.granted
        answered += 1
        turn.done()
        turn = lines.turn("flood")
        due.append((at + turn.wait_s, turn))
    assert answered == MAX_AT_ONCE + 20 / FLOOD_TURN_S


async def test_a_flood_beyond_its_patience_is_refused_and_not_early(mock_clock: MockClock) -> None:
    lines = FairQueue()
    within = MAX_AT_ONCE + round(FLOOD_WAIT_S / FLOOD_TURN_S)
    turns = [lines.turn("flood") for _ in range(within + 1)]
    assert turns[-2].granted and turns[-2].wait_s == FLOOD_WAIT_S
    assert not turns[-1].granted and turns[-1].wait_s == FLOOD_WAIT_S


async def test_a_flood_is_over_when_its_line_is_short_again(mock_clock: MockClock) -> None:
    lines = FairQueue()
    turns = [lines.turn("flood") for _ in range(MAX_AT_ONCE + 42)]
    for turn in turns[:43]:
        turn.done()
    assert lines.turn("flood").wait_s == 0
    assert lines.turn("flood").wait_s > 0


async def test_an_answer_begins_once(mock_clock: MockClock) -> None:
    lines = FairQueue()
    first, *_ = [lines.turn("one") for _ in range(MAX_AT_ONCE)]
    for _ in range(5):
        first.done()
    assert lines.turn("one").wait_s == 0
    assert lines.turn("one").wait_s > 0


async def test_whoever_has_left_is_forgotten(mock_clock: MockClock) -> None:
    lines = FairQueue()
    turns = [lines.turn(f"visitor {number}") for number in range(1_000)]
    assert len(lines) == 1_000
    for turn in turns:
        turn.done()
    assert len(lines) == 0


async def test_a_client_that_gets_no_turn_is_refused_and_not_early(mock_clock: MockClock) -> None:
    lines = FairQueue()
    turns = [lines.turn(f"visitor {number}") for number in range(BURST + LONGEST_WAIT_S * TURNS_PER_S + 1)]
    assert turns[-2].granted
    assert not turns[-1].granted and turns[-1].wait_s == LONGEST_WAIT_S


async def test_changes_have_turns_of_their_own(mock_clock: MockClock) -> None:
    lines = FairQueue()
    for number in range(BURST + TURNS_PER_S):
        lines.turn(f"visitor {number}")
    assert lines.turn("reader").wait_s > 1
    waits = []
    for _ in range(2 * CHANGES_PER_S):
        turn = lines.turn("automation", TurnKind.CHANGE)
        waits.append(turn.wait_s)
        turn.done()
    assert waits[:CHANGES_PER_S] == [0] * CHANGES_PER_S
    assert waits[-1] == pytest.approx(1.0)


async def test_a_flood_of_changes_is_a_flood(mock_clock: MockClock) -> None:
    lines = FairQueue()
    waits = [lines.turn("one", TurnKind.CHANGE).wait_s for _ in range(MAX_AT_ONCE + 1)]
    assert waits == [0] * MAX_AT_ONCE + [FLOOD_TURN_S]
