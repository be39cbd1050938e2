"""Alarms go off once, at the time they were last set to."""

import random

from broker.groups.alarms import Alarm, Alarms, Kind


def due(alarms: Alarms, now_ms: int) -> list[str]:
    names = []
    while (alarm := alarms.pop_due(now_ms)) is not None:
        names.append(alarm.member_id)
    return names


def alarm(name: str) -> Alarm:
    return Alarm(Kind.SESSION, "g", name)


def test_an_alarm_goes_off_at_its_time_and_once():
    alarms = Alarms()
    alarms.set(alarm("a"), 100)
    assert due(alarms, 99) == []
    assert alarms.next_deadline() == 100
    assert due(alarms, 100) == ["a"]
    assert due(alarms, 200) == [] and alarms.next_deadline() is None


def test_alarms_go_off_by_time_whatever_the_order_in_which_they_were_set():
    alarms = Alarms()
    for name, at in (("late", 300), ("early", 100), ("middle", 200)):
        alarms.set(alarm(name), at)
    assert due(alarms, 1_000) == ["early", "middle", "late"]


def test_one_that_is_put_off_goes_off_later_and_only_then():
    alarms, one = Alarms(), alarm("a")
    alarms.set(one, 100)
    for at in (150, 250, 200):
        alarms.set(one, at)
    assert alarms.next_deadline() == 200
    assert due(alarms, 199) == [] and due(alarms, 1_000) == ["a"]


def test_one_that_is_brought_forward_goes_off_earlier_and_not_again():
    alarms, one = Alarms(), alarm("a")
    alarms.set(one, 100)
    alarms.set(one, 50)
    assert due(alarms, 50) == ["a"]
    assert due(alarms, 100) == []
    alarms.set(one, 120)
    assert due(alarms, 119) == [] and due(alarms, 120) == ["a"]


def test_one_that_is_cancelled_does_not_go_off_and_can_be_set_again():
    alarms, one = Alarms(), alarm("a")
    alarms.set(one, 100)
    alarms.cancel(one)
    assert alarms.next_deadline() is None
    alarms.set(one, 200)
    assert due(alarms, 199) == [] and due(alarms, 200) == ["a"]


def test_a_cancelled_one_may_be_set_to_before_its_old_time():
    alarms, one = Alarms(), alarm("a")
    alarms.set(one, 100)
    alarms.cancel(one)
    alarms.set(one, 100)
    assert due(alarms, 100) == ["a"] and due(alarms, 500) == []


def test_whatever_is_done_alarms_agree_with_a_list_that_is_searched():
    chance = random.Random(7)
    alarms = Alarms()
    ones = [alarm(str(number)) for number in range(20)]
    expected: dict[str, int] = {}
    now = 0
    for _ in range(5_000):
        one = chance.choice(ones)
        match chance.randrange(4):
            case 0 | 1:
                at = now + chance.randrange(1, 100)
                alarms.set(one, at)
                expected[one.member_id] = at
            case 2:
                alarms.cancel(one)
                expected.pop(one.member_id, None)
            case _:
                now += chance.randrange(10)
                late = sorted(name for name, at in expected.items() if at <= now)
                assert sorted(due(alarms, now)) == late
                for name in late:
                    del expected[name]
        assert alarms.next_deadline() == min(expected.values(), default=None)
