"""Eviction and expiry of what was idle for longest, a bounded number at a time."""

import pytest

from broker.common.idle import MAX_EXAMINED, expired_in_steps, idlest
from broker.common.slices import SLICE

IDLE_MS = 3_600_000


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_the_idlest_of_so_many_are_found_and_the_next_call_examines_others(over):
    count = MAX_EXAMINED + over
    kept = {name: count - name for name in range(count)}
    examined = []
    found = idlest(kept, lambda last_ms: examined.append(last_ms) or last_ms)
    most = min(count, MAX_EXAMINED)
    assert len(examined) == most
    assert sorted(found) == list(range(most - most // 8, most)), "those last used first"
    for name in found:
        del kept[name]
    assert next(iter(kept)) == (MAX_EXAMINED if over > 0 else 0) and len(kept) == count - most // 8


def test_a_sensor_that_is_used_survives_any_number_of_new_names():
    kept = dict.fromkeys(range(2 * MAX_EXAMINED), 0)
    for now_ms in range(1, 40):
        kept[5] = now_ms
        for name in idlest(kept, lambda last_ms: last_ms):
            del kept[name]
        kept |= {(now_ms, number): now_ms for number in range(MAX_EXAMINED // 8)}
    assert 5 in kept and len(kept) == 2 * MAX_EXAMINED
    assert sum(kept[name] == 0 for name in kept) == 0


@pytest.mark.parametrize("count", [SLICE, SLICE + 1, 3 * SLICE])
def test_expiry_checks_a_few_sensors_between_two_pauses(count):
    kept = {name: name % 2 for name in range(count)}
    checked, dropped, pauses = [], [], []

    def drop(names):
        for name in names:
            del kept[name]
        dropped.extend(names)
        return len(names)

    steps = expired_in_steps(kept, lambda last: checked.append(last) or last, IDLE_MS + 1, IDLE_MS, drop)
    for _ in steps:
        pauses.append(len(checked))
    assert len(dropped) == (count + 1) // 2
    assert pauses == list(range(0, count, SLICE)) and len(checked) == count
    assert all(name % 2 for name in kept)


def test_a_sensor_that_goes_or_is_used_during_expiry_is_left_alone():
    kept = dict.fromkeys(range(2 * SLICE), 0)
    dropped = []
    steps = expired_in_steps(
        kept, lambda last: last, IDLE_MS + 1, IDLE_MS, lambda names: dropped.extend(names) or 0
    )
    next(steps)
    next(steps)
    assert len(dropped) == SLICE
    used, gone = SLICE, SLICE + 1
    kept[used] = 1
    del kept[gone]
    list(steps)
    assert sorted(dropped) == [name for name in range(2 * SLICE) if name not in (used, gone)]
