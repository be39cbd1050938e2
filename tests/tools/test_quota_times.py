"""The times that `weir quotas set` takes, in a zone with daylight saving."""

import time
from collections.abc import Iterator

import click
import pytest

from broker.common.temporary_limits import read_time
from broker.tools.quota_times import temporary_text, times_of, times_text


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


NOON = read_time("2026-12-01T12:00:00.250+01:00")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("18:00", "2026-12-01T17:00:00Z"),
        ("12:01", "2026-12-01T11:01:00Z"),
        ("12:00", "2026-12-02T11:00:00Z"),
        ("00:00", "2026-12-01T23:00:00Z"),
        ("2h", "2026-12-01T13:00:00Z"),
        ("1 h 30 min", "2026-12-01T12:30:00Z"),
        ("7d", "2026-12-08T11:00:00Z"),
        ("2026-12-24", "2026-12-23T23:00:00Z"),
        ("2026-12-24T18:00", "2026-12-24T17:00:00Z"),
        ("2027-07-01 18:00", "2027-07-01T16:00:00Z"),
        ("2026-12-24T18:00Z", "2026-12-24T18:00:00Z"),
        ("2026-12-24T18:00-05:00", "2026-12-24T23:00:00Z"),
    ],
)
def test_until(text: str, moment: str) -> None:
    assert times_of(None, text, (), NOON) == {"until": moment}


def test_a_time_of_the_day_is_right_over_a_change_of_daylight_saving() -> None:
    saturday = read_time("2026-03-28T20:00:00+01:00")
    assert times_of(None, "18:00", (), saturday) == {"until": "2026-03-29T16:00:00Z"}
    assert times_of(None, "20:30", (), saturday) == {"until": "2026-03-28T19:30:00Z"}


def test_an_end_by_the_clock_is_after_the_begin() -> None:
    assert times_of("22:00", "06:00", (), NOON) == {
        "from": "2026-12-01T21:00:00Z",
        "until": "2026-12-02T05:00:00Z",
    }
    assert times_of("2026-12-24", "18:00", (), NOON) == {
        "from": "2026-12-23T23:00:00Z",
        "until": "2026-12-24T17:00:00Z",
    }


@pytest.mark.parametrize("text", ["24:00", "6pm", "120", "", "18", "tomorrow", "2026-13-01", "-2h"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="expected a time such as 18:00, 2h"):
        times_of(None, text, (), NOON)


def test_windows() -> None:
    assert times_of(None, None, ["Mon-Fri 09:00-17:00"], NOON) == {
        "windows": ["Mon-Fri 09:00-17:00"],
        "zone": "UTC",
    }
    two = ["Mon-Fri 09:00-17:00 America/New_York", "Sat 10:00-12:00  America/New_York "]
    assert times_of(None, "2h", two, NOON) == {
        "until": "2026-12-01T13:00:00Z",
        "windows": ["Mon-Fri 09:00-17:00", "Sat 10:00-12:00"],
        "zone": "America/New_York",
    }
    with pytest.raises(click.UsageError, match="all windows need one zone, not Europe/Berlin, UTC"):
        times_of(None, None, ["Mon 09:00-17:00", "Tue 09:00-17:00 Europe/Berlin"], NOON)


def test_a_begin_needs_an_end_and_nothing_is_no_time() -> None:
    with pytest.raises(click.UsageError, match="--from needs --until or --weekly"):
        times_of("18:00", None, (), NOON)
    assert times_of(None, None, (), NOON) == {}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3_661, "1 h 1 min"), (3_600, "1 h"), (183_600, "2 d 3 h")],
)
def test_what_is_left_is_shown_in_its_largest_units(seconds: int, text: str) -> None:
    limit = {"until": "2026-12-01T18:00:00.000Z", "active": True, "seconds_left": seconds}
    expected = f"50 MB/s until 2026-12-01T18:00:00Z, ends in {text}; else 10 MB/s"
    assert temporary_text(limit, "50 MB/s", "10 MB/s") == expected


def test_a_limit_that_begins_later_says_so() -> None:
    limit = {"windows": ["Mon 09:00-10:00"], "zone": "UTC", "active": False, "seconds_left": 60}
    expected = "5 B/s Mon 09:00-10:00 UTC, begins in 1 min; else no limit"
    assert temporary_text(limit, "5 B/s", "no limit") == expected
    assert times_text(limit) == "Mon 09:00-10:00 UTC"
