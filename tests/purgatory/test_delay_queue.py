"""Earliest first, and ties in Java's order."""

import random
from dataclasses import dataclass

import pytest

from broker.purgatory.timing_wheel import DelayQueue


@dataclass(frozen=True)
class Item:
    deadline_ms: int
    name: str = ""


def test_items_leave_by_deadline():
    queue: DelayQueue[Item] = DelayQueue()
    deadlines = random.Random(1).choices(range(50), k=200)
    for deadline in deadlines:
        queue.push(Item(deadline))
    left = []
    while queue.first_deadline is not None:
        first = queue.first_deadline
        left.append(queue.pop().deadline_ms)
        assert left[-1] == first
    assert left == sorted(deadlines)


def test_equal_deadlines_leave_as_a_java_priority_queue_lets_them_leave():
    queue: DelayQueue[Item] = DelayQueue()
    for item in (Item(2, "first"), Item(1, "a"), Item(3, "b"), Item(2, "second"), Item(2, "third")):
        queue.push(item)
    # After 1 is removed, the last item sinks from the top and stops at its equal: "third" overtakes both.
    assert [queue.pop().name for _ in range(5)] == ["a", "third", "second", "first", "b"]


def test_an_empty_queue_has_no_first_deadline():
    queue: DelayQueue[Item] = DelayQueue()
    assert queue.first_deadline is None
    with pytest.raises(IndexError):
        queue.pop()
