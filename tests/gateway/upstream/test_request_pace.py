"""Pace: never more turns in a second than its rate, at exact times."""

import pytest
import trio
from trio.testing import MockClock

from broker.gateway.upstream.pace import Pace


async def times_of(pace: Pace, count: int) -> list[float]:
    """Ask for turns at once; return when each came, in the order of asking."""
    begun, found = trio.current_time(), [0.0] * count

    async def one(number: int) -> None:
        await pace.turn()
        found[number] = trio.current_time() - begun

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(one, number)
    return sorted(found)


@pytest.mark.parametrize(
    ("count", "last"), [(19, 0.0), (20, 0.0), (21, 1.0), (40, 1.0), (41, 2.0)], ids=lambda each: str(each)
)
async def test_turns_beyond_the_rate_wait_for_the_next_second(
    autojump_clock: MockClock, count: int, last: float
) -> None:
    found = await times_of(Pace(20), count)
    assert found == [float(number // 20) for number in range(count)]
    assert found[-1] == last


async def test_no_second_has_more_than_the_rate_wherever_it_begins(autojump_clock: MockClock) -> None:
    pace = Pace(2)
    begun = trio.current_time()
    found = []
    for pause_s in (0.6, 0.0, 0.3, 0.0, 0.0):
        await trio.sleep(pause_s)
        await pace.turn()
        found.append(round(trio.current_time() - begun, 6))
    assert found == [0.6, 0.6, 1.6, 1.6, 2.6]


async def test_a_cancelled_wait_takes_no_turn(autojump_clock: MockClock) -> None:
    pace = Pace(1)
    await pace.turn()
    with trio.move_on_after(0.5):
        await pace.turn()
    begun = trio.current_time()
    await pace.turn()
    assert trio.current_time() - begun == pytest.approx(0.5)
