"""Pauses of a cleaner thread: one after so many steps, however the records are divided into batches."""

import pytest

from broker.log.cleaner.cleaning import Cleaning
from broker.log.cleaner.manager import CleanerManager
from broker.log.cleaner.pace import STEP_BYTES, STEPS_AT_ONCE, Pace
from tests.log.cleaner.harness import LIMITS, close_segment, compacted, put
from tests.log.harness import NOW


@pytest.fixture
def rests():
    return []


@pytest.fixture
def pace(rests):
    return Pace(lambda: rests.append(1))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (STEPS_AT_ONCE - 1, 0),
        (STEPS_AT_ONCE, 1),
        (STEPS_AT_ONCE + 1, 1),
        (2 * STEPS_AT_ONCE - 1, 1),
        (2 * STEPS_AT_ONCE, 2),
    ],
)
def test_a_thread_rests_after_so_many_steps(pace, rests, steps, expected):
    for _ in range(steps):
        pace.step()
    assert len(rests) == expected


@pytest.mark.parametrize(
    ("nbytes", "expected"),
    [
        (STEPS_AT_ONCE * STEP_BYTES - 1, 0),
        (STEPS_AT_ONCE * STEP_BYTES, 1),
        (STEPS_AT_ONCE * STEP_BYTES + 1, 1),
    ],
)
def test_copied_bytes_are_steps_too(pace, rests, nbytes, expected):
    pace.copied(nbytes)
    assert len(rests) == expected


def test_a_rest_follows_what_was_copied_and_read_together(pace, rests):
    pace.copied((STEPS_AT_ONCE - 1) * STEP_BYTES)
    assert not rests
    pace.step()
    assert len(rests) == 1


@pytest.mark.parametrize("records_of_a_batch", [1, STEPS_AT_ONCE - 1, STEPS_AT_ONCE])
def test_small_batches_give_as_many_rests_as_large_ones(store, pace, rests, records_of_a_batch):
    log = compacted(store, segment_bytes=1_000_000)
    records = STEPS_AT_ONCE * (STEPS_AT_ONCE - 1)
    for first in range(0, records, records_of_a_batch):
        put(log, *[(f"k{first + at}", "v") for at in range(records_of_a_batch)])
    close_segment(log)
    cleaning = Cleaning(CleanerManager(store).assess(log, NOW), LIMITS, NOW, pace)
    for _ in cleaning.index():
        pass
    # Each record is one step, each batch at most another.
    batches = records // records_of_a_batch
    assert records // STEPS_AT_ONCE <= len(rests) <= (records + batches) // STEPS_AT_ONCE
