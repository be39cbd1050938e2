"""Which connections of a drain end when, with exact times."""

from dataclasses import dataclass
from typing import Final

import pytest

from broker.gateway.draining.pacing import LOOKED_AT, Pacing

TIMEOUT_MS: Final = 60_000
BEGUN_MS: Final = 1_000
LATER_MS: Final = 4_000


@dataclass(eq=False)
class Connection:
    number: int
    is_idle: bool = True
    is_closed: bool = False


def connections(count: int) -> list[Connection]:
    return [Connection(number) for number in range(count)]


def pacing(of: list[Connection], timeout_ms: int = TIMEOUT_MS) -> Pacing[Connection]:
    return Pacing(
        of,
        BEGUN_MS,
        timeout_ms,
        LATER_MS,
        is_idle=lambda each: each.is_idle,
        is_closed=lambda each: each.is_closed,
    )


def numbers(found: list[Connection]) -> list[int]:
    return [each.number for each in found]


def test_without_connections_nothing_is_due() -> None:
    found = pacing([])
    assert found.next_ms() is None
    assert found.take(BEGUN_MS) == []
    assert found.take(BEGUN_MS + TIMEOUT_MS) == []


def test_a_single_connection_ends_at_once() -> None:
    found = pacing(connections(1))
    assert found.next_ms() == BEGUN_MS
    assert numbers(found.take(BEGUN_MS)) == [0]
    assert found.next_ms() is None


def test_two_connections_end_half_the_timeout_apart() -> None:
    found = pacing(connections(2))
    assert numbers(found.take(BEGUN_MS)) == [0]
    assert found.next_ms() == BEGUN_MS + 30_000
    assert found.take(BEGUN_MS + 29_999) == []
    assert numbers(found.take(BEGUN_MS + 30_000)) == [1]


def test_five_thousand_connections_end_twelve_milliseconds_apart() -> None:
    found = pacing(connections(5_000))
    ended = 0
    for at_ms in range(BEGUN_MS, BEGUN_MS + TIMEOUT_MS, 12):
        assert found.next_ms() == at_ms
        assert found.take(at_ms - 1) == []
        assert numbers(found.take(at_ms)) == [ended]
        ended += 1
    assert ended == 5_000
    assert found.next_ms() is None


def test_all_turns_that_a_pause_has_delayed_are_taken_at_once() -> None:
    found = pacing(connections(5_000))
    assert len(found.take(BEGUN_MS + 11_999)) == 1_000
    assert found.next_ms() == BEGUN_MS + 12_000
    assert len(found.take(BEGUN_MS + TIMEOUT_MS - 1)) == 4_000


def test_turns_that_are_no_whole_milliseconds_are_not_early() -> None:
    found = pacing(connections(7), 1_000)
    times = []
    while (at_ms := found.next_ms()) is not None:
        times.append(at_ms - BEGUN_MS)
        assert found.take(at_ms - 1) == []
        assert len(found.take(at_ms)) == 1
    assert times == [0, 143, 286, 429, 572, 715, 858]


@pytest.mark.parametrize("count", [1, 2, 5_000])
def test_without_time_all_end_at_once(count: int) -> None:
    assert len(pacing(connections(count), 0).take(BEGUN_MS)) == count


def test_at_the_timeout_all_that_are_left_are_due() -> None:
    of = connections(10)
    found = pacing(of)
    assert numbers(found.take(BEGUN_MS + TIMEOUT_MS)) == list(range(10))
    assert found.take(BEGUN_MS + 2 * TIMEOUT_MS) == []


def test_idle_connections_end_first() -> None:
    of = connections(6)
    of[0].is_idle = of[2].is_idle = False
    assert numbers(pacing(of).take(BEGUN_MS + TIMEOUT_MS)) == [1, 3, 4, 5, 0, 2]


def test_a_connection_that_never_becomes_idle_ends_last_at_its_turn() -> None:
    of = connections(3)
    of[0].is_idle = False
    found = pacing(of)
    assert numbers(found.take(BEGUN_MS)) == [1]
    assert numbers(found.take(BEGUN_MS + 20_000)) == [2]
    assert found.take(BEGUN_MS + 39_999) == []
    assert numbers(found.take(BEGUN_MS + 40_000)) == [0]


def test_one_that_has_become_idle_ends_before_those_that_are_busy() -> None:
    of = connections(3)
    for each in of:
        each.is_idle = False
    found = pacing(of)
    assert numbers(found.take(BEGUN_MS)) == [0]
    of[2].is_idle = True
    assert numbers(found.take(BEGUN_MS + 20_000)) == [2]


@pytest.mark.parametrize("busy", [LOOKED_AT - 1, LOOKED_AT, LOOKED_AT + 1])
def test_an_idle_connection_is_looked_for_behind_so_many(busy: int) -> None:
    of = connections(busy + 1)
    for each in of[:busy]:
        each.is_idle = False
    expected = busy if busy <= LOOKED_AT else LOOKED_AT
    assert numbers(pacing(of).take(BEGUN_MS)) == [expected]
    assert of[expected].is_idle is (busy <= LOOKED_AT)


def test_connections_that_close_by_themselves_take_no_turn() -> None:
    of = connections(4)
    of[0].is_closed = of[2].is_closed = True
    found = pacing(of)
    assert numbers(found.take(BEGUN_MS)) == [1]
    assert found.take(BEGUN_MS + 14_999) == []
    assert numbers(found.take(BEGUN_MS + 15_000)) == [3]
    assert found.next_ms() is None


def test_if_all_have_closed_by_themselves_nothing_is_due() -> None:
    of = connections(3)
    for each in of:
        each.is_closed = True
    found = pacing(of)
    assert found.take(BEGUN_MS) == []
    assert found.next_ms() is None


def test_a_connection_that_comes_later_ends_after_the_others() -> None:
    found = pacing(connections(2))
    assert numbers(found.take(BEGUN_MS)) == [0]
    found.add(Connection(7))
    assert found.next_ms() == BEGUN_MS + 30_000
    assert numbers(found.take(BEGUN_MS + 30_000)) == [1]
    assert found.next_ms() == BEGUN_MS + TIMEOUT_MS
    assert found.take(BEGUN_MS + TIMEOUT_MS - 1) == []
    assert numbers(found.take(BEGUN_MS + TIMEOUT_MS)) == [7]
    assert found.next_ms() is None


def test_those_that_come_later_end_evenly() -> None:
    """However often clients come back that have nowhere else to go, the others keep their turns."""
    found = pacing(connections(2))
    for number in range(10, 14):
        found.add(Connection(number))
    assert numbers(found.take(BEGUN_MS + 30_000)) == [0, 1]
    later_ms = BEGUN_MS + TIMEOUT_MS
    for at_ms, number in zip(range(later_ms, later_ms + LATER_MS, 1_000), range(10, 14), strict=True):
        assert found.next_ms() == at_ms
        assert found.take(at_ms - 1) == []
        assert numbers(found.take(at_ms)) == [number]
    found.add(Connection(20))
    found.add(Connection(21))
    assert found.next_ms() == later_ms + LATER_MS
    assert found.take(later_ms + LATER_MS - 1) == []
    assert numbers(found.take(later_ms + LATER_MS)) == [20, 21]


def test_one_that_comes_later_and_closes_is_forgotten() -> None:
    """A balancer may look whether the port of a node is open, as often as it likes."""
    found = pacing(connections(1))
    later = Connection(7, is_closed=True)
    found.add(later)
    found.remove(later)
    assert numbers(found.take(BEGUN_MS)) == [0]
    found.remove(later)
    assert found.next_ms() is None


def test_a_pause_over_the_end_of_the_timeout_delays_no_turn() -> None:
    found = pacing(connections(2))
    for number in (10, 11):
        found.add(Connection(number))
    assert numbers(found.take(BEGUN_MS + TIMEOUT_MS + LATER_MS // 2)) == [0, 1, 10, 11]
    assert found.next_ms() is None
