"""The times of temporary limits: when they apply, what is refused, and the text that is stored."""

import pytest

from broker.common.temporary_limits import (
    BadTimes,
    TemporaryLimit,
    check_times,
    from_times,
    read_temporary,
    read_time,
    weekly_of,
    write_temporary,
    write_time,
)

NOON = read_time("2026-12-01T12:00:00Z")  # a Tuesday
HOUR = 3_600_000


def test_a_limit_applies_from_the_first_millisecond_until_the_last() -> None:
    limit = TemporaryLimit(50.0, NOON, NOON + HOUR)
    assert [limit.is_active(NOON + each) for each in (-1, 0, 1, HOUR - 1, HOUR, HOUR + 1)] == [
        False,
        True,
        True,
        True,
        False,
        False,
    ]
    assert limit.next_change(NOON - 1) == NOON
    assert limit.next_change(NOON) == limit.next_change(NOON + HOUR - 1) == NOON + HOUR
    assert limit.next_change(NOON + HOUR) is None
    assert [limit.has_ended(NOON + each) for each in (-1, 0, HOUR - 1, HOUR)] == [False, False, False, True]


def test_a_limit_without_a_start_applies_at_once() -> None:
    limit = TemporaryLimit(50.0, until_ms=NOON)
    assert limit.is_active(0)
    assert limit.is_active(NOON - 1)
    assert not limit.is_active(NOON)


def test_windows_apply_between_from_and_until() -> None:
    weekly = weekly_of(["Mon-Fri 09:00-17:00"], "UTC")
    limit = TemporaryLimit(50.0, NOON, NOON + 24 * HOUR, weekly)
    assert not limit.is_active(NOON - 1)
    changes, now = [], NOON - 2 * HOUR
    while (change := limit.next_change(now)) is not None:
        assert limit.is_active(change - 1) is not limit.is_active(change)
        changes.append((change - NOON) / HOUR)
        now = change
    assert changes == [0, 5, 21, 24]
    assert limit.has_ended(NOON + 24 * HOUR)


def test_a_limit_whose_last_window_has_closed_has_ended() -> None:
    weekly = weekly_of(["Tue 09:00-17:00"], "UTC")
    limit = TemporaryLimit(50.0, None, NOON + 24 * HOUR, weekly)
    assert not limit.has_ended(NOON + 5 * HOUR - 1)
    assert limit.has_ended(NOON + 5 * HOUR)
    later = TemporaryLimit(50.0, NOON + 6 * HOUR, None, weekly)
    assert later.next_change(NOON) == NOON + (7 * 24 - 3) * HOUR


def test_windows_without_an_end_go_on() -> None:
    limit = TemporaryLimit(50.0, weekly=weekly_of(["Tue 09:00-17:00"], "UTC"))
    assert limit.next_change(NOON) == NOON + 5 * HOUR
    assert limit.next_change(NOON + 5 * HOUR) == NOON + (7 * 24 - 3) * HOUR
    assert not limit.has_ended(NOON + 500_000 * HOUR)


@pytest.mark.parametrize(
    ("times", "field", "problem"),
    [
        ({}, "until", "a temporary limit needs until or windows"),
        ({"from": "2026-12-01T13:00:00Z"}, "until", "a temporary limit needs until or windows"),
        ({"until": "2026-12-01T12:00:00Z"}, "until", "until 2026-12-01T12:00:00Z is in the past"),
        ({"from": "2026-12-01T18:00:00Z", "until": "2026-12-01T18:00:00Z"}, "until", "is not after from"),
        ({"from": "2026-12-01T18:00:00Z", "until": "2026-12-01T13:00:00Z"}, "until", "is not after from"),
        ({"until": "18:00"}, "until", "Invalid isoformat string"),
        ({"until": "2026-12-01T18:00:00"}, "until", "has no offset from UTC"),
        ({"until": "1969-12-01T18:00:00Z"}, "until", "not between 1970 and 9999"),
        ({"windows": []}, "windows", "expected 1 to 16 windows"),
        ({"windows": [f"Mon 00:{each:02}-01:00" for each in range(17)]}, "windows", "expected 1 to 16"),
        ({"windows": ["Mon 09:00-09:00"]}, "windows", "begins and ends at the same time"),
        ({"windows": ["Mon-Sun 00:00-24:00"]}, "windows", "cover the whole week"),
        ({"windows": ["Mon 09:00-10:00"], "zone": "Mars/Olympus"}, "zone", "unknown time zone"),
        ({"until": "2026-12-01T18:00:00Z", "zone": "UTC"}, "zone", "zone applies to windows only"),
        ({"until": "2026-12-01T18:00:00Z", "windows": ["Mon 09:00-17:00"]}, "windows", "no window opens"),
    ],
)
def test_invalid_times_are_refused(times: dict[str, str], field: str, problem: str) -> None:
    with pytest.raises(BadTimes, match=problem) as refused:
        check_times(from_times(1.0, times), NOON)
    assert refused.value.field == field


def test_the_earliest_valid_end() -> None:
    check_times(from_times(1.0, {"until": "2026-12-01T12:00:00.001Z"}), NOON)
    check_times(from_times(1.0, {"windows": [f"Mon 00:{each:02}-01:00" for each in range(16)]}), NOON)


@pytest.mark.parametrize(
    "text",
    [
        '{"value":50000000,"until":"2026-12-01T18:00:00Z"}',
        '{"value":12.5,"from":"2026-12-01T12:00:00.250Z","until":"2026-12-01T18:00:00Z"}',
        '{"value":1,"windows":["Mon-Fri 09:00-17:00","Sat 22:00-06:00"],"zone":"Europe/Berlin"}',
    ],
)
def test_the_stored_text_reads_back(text: str) -> None:
    assert write_temporary(read_temporary(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "1000",
        "{}",
        '{"value":1}',
        '{"value":"1","until":"2026-12-01T18:00:00Z"}',
        '{"value":1,"until":"2026-12-01T18:00:00Z","more":1}',
        '{"value":1,"windows":["Mon 09:00-09:00"],"zone":"UTC"}',
        '{"value":1,"windows":["Mon 09:00-10:00"],"zone":"../UTC"}',
    ],
)
def test_another_text_is_not_read(text: str) -> None:
    with pytest.raises(ValueError):
        read_temporary(text)


def test_a_zone_that_this_machine_lacks_is_read() -> None:
    limit = read_temporary('{"value":1,"windows":["Mon 09:00-10:00"],"zone":"Mars/Olympus"}')
    assert limit.weekly is not None
    assert limit.weekly.zone == "Mars/Olympus"


def test_times_are_written_with_a_fraction_only_if_they_have_one() -> None:
    assert write_time(NOON) == "2026-12-01T12:00:00Z"
    assert write_time(NOON + 5) == "2026-12-01T12:00:00.005Z"
    assert read_time("2026-12-01T13:00:00+01:00") == NOON
