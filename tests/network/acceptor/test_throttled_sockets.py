"""Throttled sockets leave in the order of their deadlines, in whatever order they were added."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from broker.network.acceptor.connection_gate import ThrottledSocket, ThrottledSockets

PEER = ("10.0.0.1", 40_000)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def throttled_until(end_ms: int, stack: ExitStack) -> ThrottledSocket:
    return ThrottledSocket(stack.enter_context(socket.socket()), PEER, end_ms, bound=5, throttle_ms=100)


def test_the_earliest_leaves_first_and_not_before_its_time(stack: ExitStack) -> None:
    sockets = ThrottledSockets()
    late, early = throttled_until(2_000, stack), throttled_until(1_000, stack)
    sockets.add(late, 9)
    sockets.add(early, 9)
    assert sockets.next_deadline() == 1_000
    assert sockets.pop_due(999) is None
    assert sockets.pop_due(1_000) is early
    assert sockets.pop_due(1_000) is None
    assert sockets.pop_due(2_001) is late
    assert (len(sockets), sockets.next_deadline()) == (0, None)


def test_of_two_with_the_same_end_the_first_to_come_leaves_first(stack: ExitStack) -> None:
    sockets = ThrottledSockets()
    both = [throttled_until(1_000, stack) for _ in range(2)]
    for each in both:
        sockets.add(each, 9)
    assert [sockets.pop_due(1_000) for _ in range(2)] == both


def test_a_full_one_gives_up_its_earliest(stack: ExitStack) -> None:
    sockets = ThrottledSockets()
    first, second, third = (throttled_until(end_ms, stack) for end_ms in (2_000, 1_000, 3_000))
    assert sockets.add(first, 2) == []
    assert sockets.add(second, 2) == []
    assert sockets.add(third, 2) == [second]
    assert len(sockets) == 2


def test_a_lower_bound_pushes_out_the_earliest_of_those_that_are_too_many(stack: ExitStack) -> None:
    sockets = ThrottledSockets()
    first, second, third, fourth = (throttled_until(end_ms, stack) for end_ms in (2_000, 1_000, 3_000, 4_000))
    for each in (first, second, third):
        sockets.add(each, 3)
    assert sockets.add(fourth, 2) == [second, first]
    assert sockets.pop_due(9_000) is third


def test_no_socket_may_be_throttled(stack: ExitStack) -> None:
    sockets = ThrottledSockets()
    throttled = throttled_until(1_000, stack)
    assert sockets.add(throttled, 0) == [throttled]
    assert len(sockets) == 0


def test_closing_it_closes_them(stack: ExitStack) -> None:
    sockets = ThrottledSockets()
    three = [throttled_until(1_000, stack) for _ in range(3)]
    for each in three:
        sockets.add(each, 9)
    sockets.close()
    assert [each.sock.fileno() for each in three] == [-1] * 3
    assert len(sockets) == 0
