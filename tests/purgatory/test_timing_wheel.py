"""The wheel, against the published replays and by its own rules. (Kafka: TimerTaskListTest)"""

import json
import random
from pathlib import Path

import pytest

from broker.purgatory.timing_wheel import TimerTask, TimingWheel

VECTORS = Path(__file__).parents[3] / "shared" / "vectors" / "timing_wheel.jsonl"


def advance_until_empty(wheel: TimingWheel) -> list[tuple[int, list[TimerTask]]]:
    fired = []
    while advance := wheel.advance():
        if advance.fired:
            fired.append((advance.to_ms, advance.fired))
    return fired


@pytest.mark.parametrize(
    ("expiration", "accepted"),
    [(999, False), (1000, False), (1004, False), (1005, True), (1006, True)],
)
def test_an_entry_due_within_the_tick_is_not_accepted(expiration, accepted):
    wheel = TimingWheel(tick_ms=5, wheel_size=20, start_ms=1003)
    assert wheel.add(TimerTask(expiration)) is accepted
    assert wheel.size == accepted


@pytest.mark.parametrize(
    ("expiration", "deadline"),
    [
        (99, 95),
        (100, 100),
        (199, 100),
        (1999, 1900),
        (2000, 2000),
        (3999, 2000),
        (4000, 4000),
        (39_999, 38_000),
    ],
)
def test_the_bucket_is_the_expiration_rounded_down_to_the_tick_of_the_lowest_level_that_reaches_it(
    expiration, deadline
):
    wheel = TimingWheel(tick_ms=5, wheel_size=20, start_ms=0)
    entry = TimerTask(expiration)
    assert wheel.add(entry) and entry.bucket is not None
    assert entry.bucket.deadline_ms == deadline


def test_a_cancelled_entry_is_gone_and_never_accepted_again():
    wheel = TimingWheel(tick_ms=1, wheel_size=20, start_ms=0)
    entry = TimerTask(10)
    assert wheel.add(entry)
    entry.cancel()
    entry.cancel()
    assert wheel.size == 0 and not wheel.add(entry)
    assert wheel.advance() == (10, [], [])


def test_an_entry_added_again_moves_and_is_counted_once():
    # Four of ten tasks move to another list, then the first list is flushed.
    wheel = TimingWheel(tick_ms=1, wheel_size=20, start_ms=0)
    entries = [TimerTask(10) for _ in range(10)]
    assert all(wheel.add(entry) for entry in entries)
    assert wheel.size == 10
    for entry in entries[:4]:
        entry.expiration_ms = 12
        assert wheel.add(entry)
        assert wheel.size == 10
    assert wheel.advance() == (10, entries[4:], [])
    assert wheel.size == 4
    for entry in entries[:4]:
        entry.cancel()
    assert wheel.size == 0


def test_an_entry_moved_to_a_time_already_past_leaves_its_bucket():
    wheel = TimingWheel(tick_ms=1, wheel_size=20, start_ms=100)
    entry = TimerTask(110)
    assert wheel.add(entry)
    entry.expiration_ms = 100
    assert not wheel.add(entry)
    assert wheel.size == 0 and entry.bucket is None


def test_entries_fire_by_time_whatever_the_order_in_which_they_came():
    wheel = TimingWheel(tick_ms=1, wheel_size=3, start_ms=0)
    late, early = TimerTask(500), TimerTask(7)
    assert wheel.add(late) and wheel.add(early)
    assert advance_until_empty(wheel) == [(7, [early]), (500, [late])]


def test_with_a_tick_of_one_millisecond_every_entry_fires_exactly_at_its_expiration():
    chance = random.Random(4)
    wheel = TimingWheel(tick_ms=1, wheel_size=20, start_ms=1_700_000_000_123)
    expirations = [
        1_700_000_000_123 + chance.randrange(1, 10 ** chance.randrange(1, 9)) for _ in range(2_000)
    ]
    for expiration in expirations:
        assert wheel.add(TimerTask(expiration))
    fired = advance_until_empty(wheel)
    assert [at for at, entries in fired for _ in entries] == sorted(expirations)
    assert all(entry.expiration_ms == at for at, entries in fired for entry in entries)
    assert wheel.size == 0


@pytest.mark.skipif(not VECTORS.exists(), reason="the published vectors lie outside the repository")
def test_the_published_replays_agree_step_by_step():
    for line in VECTORS.read_text().splitlines():
        replay = json.loads(line)
        wheel = TimingWheel(replay["tick_ms"], replay["wheel_size"], replay["start_ms"])
        entries: dict[int, TimerTask] = {}
        ids: dict[TimerTask, int] = {}
        for step in replay["steps"]:
            match step["op"]:
                case "add":
                    entry = entries[step["id"]] = TimerTask(step["expiration"])
                    ids[entry] = step["id"]
                    assert wheel.add(entry) is step["accepted"], step
                    deadline = entry.bucket.deadline_ms if entry.bucket else None
                    assert deadline == step.get("bucket_expiration"), step
                case "cancel":
                    entries[step["id"]].cancel()
                case "advance":
                    advance = wheel.advance()
                    if advance is None:
                        assert step["none"], step
                        continue
                    assert advance.to_ms == step["to"], step
                    assert [ids[entry] for entry in advance.fired] == step["fired"], step
                    moved = [
                        [ids[entry], entry.bucket.deadline_ms] for entry in advance.reinserted if entry.bucket
                    ]
                    assert moved == step["reinserted"], step
            assert wheel.size == step["size"], step
