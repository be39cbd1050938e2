"""How much of the broker's one thread the console may take."""

import trio
from trio.testing import MockClock

from webui.pace import BURST, LONGEST_WAIT_S, TURNS_PER_S, Pace


async def test_a_page_load_is_served_at_once(autojump_clock: MockClock) -> None:
    pace = Pace()
    assert all([await pace.turn() for _ in range(BURST)])
    assert trio.current_time() == 0


async def test_a_flood_waits_in_line(autojump_clock: MockClock) -> None:
    pace = Pace()
    for _ in range(BURST + TURNS_PER_S):
        await pace.turn()
    assert abs(trio.current_time() - 1.0) < 1e-6


async def test_quiet_earns_the_burst_again_and_no_more(autojump_clock: MockClock) -> None:
    pace = Pace()
    for _ in range(BURST):
        await pace.turn()
    await trio.sleep(3600)
    before = trio.current_time()
    for _ in range(BURST):
        await pace.turn()
    assert trio.current_time() == before
    await pace.turn()
    assert abs(trio.current_time() - before - 1 / TURNS_PER_S) < 1e-6


async def test_who_would_wait_too_long_is_told_at_once(autojump_clock: MockClock) -> None:
    pace = Pace()
    answers: list[bool] = []

    async def ask() -> None:
        answers.append(await pace.turn())

    crowd = BURST + LONGEST_WAIT_S * TURNS_PER_S
    async with trio.open_nursery() as nursery:
        for _ in range(crowd + 7):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert answers.count(False) == 7 and answers.count(True) == BURST
    assert answers.count(True) == crowd
    assert abs(trio.current_time() - LONGEST_WAIT_S) < 1e-6
