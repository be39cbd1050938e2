"""Retention does not delete records at once after the wall clock jumps forward."""

import pytest

from broker.log.clock_steps import LARGEST_MS, ClockSteps
from broker.log.partition import PartitionLog
from broker.log.store import LogStore
from tests.log.harness import NOW, append, fill, sized

WAIT_MS = 300_000
YEAR_MS = 365 * LARGEST_MS


def steps() -> ClockSteps:
    """A ClockSteps after a first call at monotonic time 0."""
    made = ClockSteps()
    assert made.is_trusted(NOW, 0, WAIT_MS)
    return made


@pytest.mark.parametrize(
    ("step_ms", "is_trusted"), [(LARGEST_MS - 1, True), (LARGEST_MS, True), (LARGEST_MS + 1, False)]
)
def test_a_step_forward_of_more_than_a_day_is_not_believed(step_ms: int, is_trusted: bool) -> None:
    assert steps().is_trusted(NOW + 1_000 + step_ms, 1_000, WAIT_MS) is is_trusted


def test_time_that_passes_is_no_step_however_long_it_is() -> None:
    assert steps().is_trusted(NOW + YEAR_MS, YEAR_MS, WAIT_MS)


@pytest.mark.parametrize(
    ("later_ms", "is_trusted"), [(WAIT_MS - 1, False), (WAIT_MS, True), (WAIT_MS + 1, True)]
)
def test_the_wait_is_one_check_interval_from_the_look_that_saw_the_step(
    later_ms: int, is_trusted: bool
) -> None:
    clock = steps()
    assert not clock.is_trusted(NOW + YEAR_MS + 1_000, 1_000, WAIT_MS)
    assert clock.is_trusted(NOW + YEAR_MS + 1_000 + later_ms, 1_000 + later_ms, WAIT_MS) is is_trusted


@pytest.mark.parametrize(
    ("back_ms", "is_trusted"), [(LARGEST_MS, False), (LARGEST_MS + 1, True), (YEAR_MS, True)]
)
def test_a_clock_that_is_set_back_ends_the_wait(back_ms: int, is_trusted: bool) -> None:
    clock = steps()
    assert not clock.is_trusted(NOW + YEAR_MS + 1_000, 1_000, WAIT_MS)
    assert clock.is_trusted(NOW + YEAR_MS + 11_000 - back_ms, 11_000, WAIT_MS) is is_trusted


def test_a_second_step_begins_the_wait_anew() -> None:
    clock = steps()
    assert not clock.is_trusted(NOW + YEAR_MS, 0, WAIT_MS)
    assert not clock.is_trusted(NOW + 2 * YEAR_MS + 200_000, 200_000, WAIT_MS)
    assert not clock.is_trusted(NOW + 2 * YEAR_MS + 499_999, 499_999, WAIT_MS)
    assert clock.is_trusted(NOW + 2 * YEAR_MS + 500_000, 500_000, WAIT_MS)


def test_a_step_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = steps()
    for later_ms in (0, 60_000, 120_000):
        clock.is_trusted(NOW + YEAR_MS + later_ms, later_ms, WAIT_MS)
    told = [each.__dict__ for each in caplog.records]
    assert [(each["message"], each["step_ms"], each["wait_ms"]) for each in told] == [
        ("wall clock jumped forward: retention paused", YEAR_MS, WAIT_MS)
    ]


def old_and_new(store: LogStore, log: PartitionLog) -> None:
    """Two segments, and a topic that keeps records for a day."""
    fill(log, 3)
    log.roll()
    append(log, sized(100, timestamp=NOW + 1_000))
    store.retention(NOW, 0)
    assert len(log.segments) == 2


def test_a_year_for_ten_seconds_deletes_nothing(store: LogStore, log: PartitionLog) -> None:
    old_and_new(store, log)
    store.retention(NOW + 60_000 + YEAR_MS, 60_000)
    store.retention(NOW + 120_000, 120_000)
    store.retention(NOW + 60_000 + WAIT_MS, 60_000 + WAIT_MS)
    assert len(log.segments) == 2 and log.log_start_offset == 0


@pytest.mark.parametrize(("later_ms", "segments"), [(WAIT_MS - 1, 2), (WAIT_MS, 1)])
def test_a_clock_that_stays_a_year_ahead_deletes_after_one_check_interval(
    store: LogStore, log: PartitionLog, later_ms: int, segments: int
) -> None:
    assert store.config.retention_check_interval_ms == WAIT_MS
    old_and_new(store, log)
    store.retention(NOW + YEAR_MS + 60_000, 60_000)
    assert len(log.segments) == 2
    store.retention(NOW + YEAR_MS + 60_000 + later_ms, 60_000 + later_ms)
    assert len(log.segments) == segments
