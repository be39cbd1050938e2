"""The lag of groups over time: steps, bounds, and which groups are kept."""

import pytest

from broker.common.slices import run_through
from broker.controller.rows.topics import GroupRow
from webui.live.lag_history import LEAST_SAMPLES, MAX_GROUPS, TREND_SAMPLES, LagHistory

STEP = 10_000
NOTHING = {"at_ms": [], "lag": [], "lost": []}


def row(name: str, lag: int | None, lost: int | None = None) -> GroupRow:
    return GroupRow(name, "Stable", "consumer", 1, lag, lost=lost)


def trend(*samples: tuple[int | None, int | None]) -> float | None:
    """Of a group with these lags and lost records, by ten seconds."""
    history = LagHistory()
    for number, (lag, lost) in enumerate(samples):
        history.add([row("a", lag, lost), row("b", 0)], number * STEP)
    return history.with_trend(row("a", 0)).lag_per_s


@pytest.mark.parametrize(
    ("count", "seconds"),
    [
        (LEAST_SAMPLES - 1, None),
        (LEAST_SAMPLES, 20),
        (TREND_SAMPLES - 1, 580),
        (TREND_SAMPLES, 590),
        (TREND_SAMPLES + 1, 590),
    ],
)
def test_a_trend_says_how_much_of_the_past_it_knows(count: int, seconds: int | None) -> None:
    assert filled(count).with_trend(row("a", 0)).lag_trend_s == seconds


def filled(count: int) -> LagHistory:
    history = LagHistory()
    for step in range(count):
        history.add([row("a", step), row("b", 10)], step * STEP)
    return history


@pytest.mark.parametrize(("passed", "due"), [(STEP - 1, False), (STEP, True), (STEP + 1, True)])
def test_a_sample_is_due_every_ten_seconds(passed: int, due: bool) -> None:
    history = LagHistory()
    assert history.is_due(0)
    history.add([], 0)
    assert history.is_due(passed) is due


def test_a_group_and_the_total_have_their_lags() -> None:
    history = filled(4)
    assert history.columns("a", 3_600) == {
        "at_ms": [0, STEP, 2 * STEP, 3 * STEP],
        "lag": [0, 1, 2, 3],
        "lost": [None] * 4,
    }
    assert history.columns("", 3_600)["lag"] == [10, 11, 12, 13]
    assert history.columns("c", 3_600) == NOTHING
    assert LagHistory().columns("", 3_600) == NOTHING


@pytest.mark.parametrize(("seconds", "count"), [(19, 2), (20, 3), (21, 3)])
def test_only_the_wanted_time_is_returned(seconds: int, count: int) -> None:
    assert len(filled(10).columns("a", seconds)["lag"]) == count


@pytest.mark.parametrize("count", [359, 360, 361])
def test_an_hour_is_kept_by_ten_seconds(count: int) -> None:
    found = filled(count).columns("a", 3_600)
    assert len(found["lag"]) == min(count, 360) and found["lag"][-1] == count - 1
    assert found["at_ms"][-1] == (count - 1) * STEP


def test_a_day_is_kept_by_five_minutes() -> None:
    history = filled(8_700)
    found = history.columns("a", 86_400)
    assert len(found["lag"]) == 288
    assert {later - earlier for earlier, later in zip(found["at_ms"], found["at_ms"][1:], strict=False)} == {
        300_000
    }


def test_a_new_group_has_no_lag_before_and_a_deleted_one_no_history() -> None:
    history = LagHistory()
    history.add([row("old", 5), row("none", None)], 0)
    history.add([row("old", 6), row("new", 7)], STEP)
    assert history.columns("new", 3_600)["lag"] == [None, 7]
    assert history.columns("none", 3_600)["lag"] == []
    history.add([row("new", 8)], 2 * STEP)
    assert history.columns("old", 3_600)["lag"] == [] and history.columns("", 3_600)["lag"] == [5, 13, 8]


@pytest.mark.parametrize("count", [MAX_GROUPS - 1, MAX_GROUPS, MAX_GROUPS + 1])
def test_the_groups_with_the_largest_lag_are_kept(count: int) -> None:
    history = LagHistory()
    history.add([row(f"g{number}", number) for number in range(count)], 0)
    kept = [number for number in range(count) if history.columns(f"g{number}", 60)["lag"]]
    assert kept == list(range(max(0, count - MAX_GROUPS), count))
    assert history.columns("", 60)["lag"] == [sum(range(count))]


@pytest.mark.parametrize("count", [LEAST_SAMPLES - 1, LEAST_SAMPLES, LEAST_SAMPLES + 1])
def test_a_trend_needs_some_samples(count: int) -> None:
    found = trend(*((number * 100, 0) for number in range(count)))
    assert found == (None if count < LEAST_SAMPLES else 10.0)


def test_a_group_that_catches_up_has_a_negative_trend() -> None:
    assert trend(*((10_000 - 500 * number, 0) for number in range(9))) == -50.0
    assert trend(*((7, None) for _ in range(9))) == 0.0
    assert trend((None, None), (None, None), (1, 0), (2, 0)) is None


def test_records_that_are_lost_are_no_progress() -> None:
    """The log deletes what the group has not read, and the group goes on behind it: its lag falls by 900 at
    once, without a record read.
    """
    lags = [(1_000, 0), (1_000, 300), (1_000, 900), (100, 0), (100, 0), (100, 0)]
    assert trend(*lags) == 0.0
    told = trend(*((lag, None) for lag, _ in lags))
    assert told is not None and told < 0


def test_only_the_last_ten_minutes_make_a_trend() -> None:
    before = [(number * 1_000, 0) for number in range(100)]
    assert trend(*before, *((5, 0) for _ in range(TREND_SAMPLES))) == 0.0
    assert trend(*before, *((5, 0) for _ in range(TREND_SAMPLES - 1))) != 0.0


def test_lost_records_have_a_history_of_their_own() -> None:
    history = LagHistory()
    history.add([row("a", 10, 4), row("b", 5, None)], 0)
    history.add([row("a", 10, 6), row("c", 5, 1)], STEP)
    assert history.columns("a", 60)["lost"] == [4, 6]
    assert history.columns("c", 60)["lost"] == [None, 1]
    assert history.columns("", 60)["lost"] == [4, 7]


def of_lags(*lags: int | None, group: str = "a") -> LagHistory:
    history = LagHistory()
    for step, lag in enumerate(lags):
        history.add([row(group, lag)], step * STEP)
    return history


@pytest.mark.parametrize(
    ("lags", "behind"),
    [
        # Two minutes are known: a minute before, and the last one.
        ((*range(11),), []),
        ((*range(12),), [("a", 11, 0.1)]),
        # The highest of before is not exceeded by all of now.
        ((0, 0, 0, 0, 0, 7, 7, 8, 8, 8, 8, 8), []),
        ((0, 0, 0, 0, 0, 6, 7, 8, 8, 8, 8, 8), [("a", 8, pytest.approx(41 / 6 / 60))]),
        # One that comes and goes does not grow.
        ((0, 50, 0, 50, 0, 50, 0, 50, 0, 50, 0, 50), []),
        ((*range(100, 88, -1),), []),
        ((5,) * 12, []),
        # Only the last six minutes count.
        ((0,) * 30 + (100,) * 30, [("a", 100, pytest.approx(100 / 300))]),
        ((0,) * 30 + (100,) * 31, []),
        # What is not known does not count.
        ((None,) * 6 + (*range(11),), []),
        ((None,) * 6 + (*range(12),), [("a", 11, 0.1)]),
    ],
)
def test_a_group_falls_behind_whose_lag_grows(
    lags: tuple[int | None, ...], behind: list[tuple[str, int, float]]
) -> None:
    assert run_through(of_lags(*lags).falling_behind()) == behind


def test_the_fastest_is_the_first() -> None:
    history = LagHistory()
    for step in range(12):
        history.add([row("slow", step), row("fast", 10 * step), row("calm", 5)], step * STEP)
    assert [group for group, *_ in run_through(history.falling_behind())] == ["fast", "slow"]
