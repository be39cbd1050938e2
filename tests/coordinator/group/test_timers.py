"""Timers expire once, at the time they were last set to."""

import random

import pytest

from broker.coordinator.group.timers import MOVED_AT_ONCE, GroupTimer, TimerKind, Timers


def due(timers: Timers, now_ms: int) -> list[str]:
    """Return the due timers, as the coordinator finds them: call by call, until the deadline is later."""
    names = []
    while (deadline := timers.next_deadline()) is not None and deadline <= now_ms:
        if (timer := timers.pop_due(now_ms)) is not None:
            names.append(timer.member_id)
    return names


def timer(name: str) -> GroupTimer:
    return GroupTimer(TimerKind.SESSION, "g", name)


def test_an_alarm_goes_off_at_its_time_and_once():
    timers = Timers()
    timers.set(timer("a"), 100)
    assert due(timers, 99) == []
    assert timers.next_deadline() == 100
    assert due(timers, 100) == ["a"]
    assert due(timers, 200) == [] and timers.next_deadline() is None


def test_alarms_go_off_by_time_whatever_the_order_in_which_they_were_set():
    timers = Timers()
    for name, at in (("late", 300), ("early", 100), ("middle", 200)):
        timers.set(timer(name), at)
    assert due(timers, 1_000) == ["early", "middle", "late"]


def test_one_that_is_put_off_goes_off_later_and_only_then():
    timers, one = Timers(), timer("a")
    timers.set(one, 100)
    for at in (150, 250, 200):
        timers.set(one, at)
    assert timers.next_deadline() == 200
    assert due(timers, 199) == [] and due(timers, 1_000) == ["a"]


def test_one_that_is_brought_forward_goes_off_earlier_and_not_again():
    timers, one = Timers(), timer("a")
    timers.set(one, 100)
    timers.set(one, 50)
    assert due(timers, 50) == ["a"]
    assert due(timers, 100) == []
    timers.set(one, 120)
    assert due(timers, 119) == [] and due(timers, 120) == ["a"]


def test_one_that_is_cancelled_does_not_go_off_and_can_be_set_again():
    timers, one = Timers(), timer("a")
    timers.set(one, 100)
    timers.cancel(one)
    assert timers.next_deadline() is None
    timers.set(one, 200)
    assert due(timers, 199) == [] and due(timers, 200) == ["a"]


def test_a_cancelled_one_may_be_set_to_before_its_old_time():
    timers, one = Timers(), timer("a")
    timers.set(one, 100)
    timers.cancel(one)
    timers.set(one, 100)
    assert due(timers, 100) == ["a"] and due(timers, 500) == []


def test_timers_agree_with_a_searched_list_after_any_operations():
    chance = random.Random(7)
    timers = Timers()
    ones = [timer(str(number)) for number in range(20)]
    expected: dict[str, int] = {}
    now = 0
    for _ in range(5_000):
        one = chance.choice(ones)
        match chance.randrange(4):
            case 0 | 1:
                at = now + chance.randrange(1, 100)
                timers.set(one, at)
                expected[one.member_id] = at
            case 2:
                timers.cancel(one)
                expected.pop(one.member_id, None)
            case _:
                now += chance.randrange(10)
                late = sorted(name for name, at in expected.items() if at <= now)
                assert sorted(due(timers, now)) == late
                for name in late:
                    del expected[name]
        assert timers.next_deadline() == min(expected.values(), default=None)


@pytest.mark.parametrize("count", [MOVED_AT_ONCE - 1, MOVED_AT_ONCE, MOVED_AT_ONCE + 1, 3 * MOVED_AT_ONCE])
def test_of_timers_that_were_put_off_so_many_are_queued_again_at_once(count):
    timers, ones = Timers(), [timer(str(number)) for number in range(count)]
    for one in ones:
        timers.set(one, 100)
    for one in ones:
        timers.set(one, 200)
    left = [count]
    while timers.next_deadline() == 100:
        left.append(sum(one.queued_ms == 100 for one in ones))
        assert left[-2] - left[-1] == MOVED_AT_ONCE
    assert left[-1] <= MOVED_AT_ONCE and timers.next_deadline() == 200
    assert due(timers, 199) == [] and len(due(timers, 200)) == count


def test_no_timer_that_was_put_off_is_due_early():
    timers, ones = Timers(), [timer(str(number)) for number in range(MOVED_AT_ONCE + 1)]
    for one in ones:
        timers.set(one, 100)
        timers.set(one, 200)
    assert timers.pop_due(150) is None and timers.next_deadline() == 200
