"""Weekly windows, just before, at and just after each change, also over changes of daylight saving."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from broker.common.weekly import BadWindow, Weekly, is_zone_name, read_window, zone_of


def at(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def weekly(text: str, zone: str = "UTC") -> Weekly:
    return Weekly(tuple(map(read_window, text.split("; "))), zone)


def opens_and_closes(windows: Weekly, start: str, end: str) -> list[str]:
    """Return the changes between two times, as times of UTC."""
    found, now, last = [], at(start), at(end)
    was_open = windows.is_open(now)
    while (change := windows.next_change(now)) is not None and change <= last:
        # Just before, at and just after the change.
        assert windows.is_open(change - 1) is was_open
        assert windows.is_open(change) is windows.is_open(change + 1) is not was_open
        was_open, now = not was_open, change
        found.append(datetime.fromtimestamp(change / 1000, UTC).strftime("%a %d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("Mon-Fri 09:00-17:00", "Mon-Fri 09:00-17:00"),
        ("mon-fri  09:00 - 17:00", "Mon-Fri 09:00-17:00"),
        ("Fri,Mon,Wed 00:00-24:00", "Mon,Wed,Fri 00:00-24:00"),
        ("Sat-Mon 22:00-06:00", "Mon,Sat-Sun 22:00-06:00"),
        ("Mon-Tue,Thu-Sat 23:59-00:00", "Mon-Tue,Thu-Sat 23:59-24:00"),
        ("Wed 00:00-00:01", "Wed 00:00-00:01"),
    ],
)
def test_a_window_is_written_in_one_way_and_reads_back(text: str, canonical: str) -> None:
    assert str(read_window(text)) == canonical
    assert read_window(canonical) == read_window(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("09:00-17:00", "expected days and times"),
        ("Mon-Fri 9:00-17:00", "expected days and times"),
        ("Mon-Fry 09:00-17:00", "days are Mon, Tue"),
        ("Mon,,Tue 09:00-17:00", "days are Mon, Tue"),
        ("Mon 09:60-17:00", "times are 00:00 to 23:59"),
        ("Mon 24:00-17:00", "times are 00:00 to 23:59"),
        ("Mon 09:00-24:01", "times are 00:00 to 23:59"),
        ("Mon 09:00-09:00", "begins and ends at the same time"),
        ("Mon 00:00-00:00", "a whole day is 00:00-24:00"),
    ],
)
def test_a_text_that_is_no_window_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadWindow, match=problem):
        read_window(text)


@pytest.mark.parametrize("name", ["Europe/Berln", "localtime", "posix/UTC", "../../etc/passwd", "/UTC", ""])
def test_a_name_that_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(BadWindow, match="unknown time zone"):
        zone_of(name)


def test_a_zone_has_a_bounded_name() -> None:
    assert is_zone_name("America/Argentina/Buenos_Aires")
    assert is_zone_name("Etc/GMT+5")
    assert is_zone_name("a" * 64)
    assert not is_zone_name("a" * 65)


def test_windows_of_a_plain_week() -> None:
    assert opens_and_closes(
        weekly("Mon,Wed 09:00-17:00; Wed 17:00-18:00"), "2026-06-01", "2026-06-08T09:00"
    ) == ["Mon 01 09:00", "Mon 01 17:00", "Wed 03 09:00", "Wed 03 18:00", "Mon 08 09:00"]


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_begins() -> None:
    assert opens_and_closes(weekly("Sun 22:00-06:00"), "2026-06-01", "2026-06-08T06:00") == [
        "Mon 01 06:00",
        "Sun 07 22:00",
        "Mon 08 06:00",
    ]


def test_windows_of_the_whole_week_never_change() -> None:
    assert weekly("Mon-Sun 00:00-24:00").next_change(at("2026-06-01")) is None
    assert weekly("Mon-Sun 12:00-24:00; Mon-Sun 00:00-12:00").next_change(at("2026-06-01")) is None
    assert weekly("Mon-Sun 00:00-23:59").next_change(at("2026-06-01")) == at("2026-06-01T23:59")


BERLIN = "Europe/Berlin"
NEW_YORK = "America/New_York"
DAYTIME = "Sat-Sun 09:00-17:00"


@pytest.mark.parametrize(
    ("zone", "window", "day", "expected"),
    [
        # Berlin goes forward on 29 March at 01:00 UTC (02:00 becomes 03:00), back on 25 October.
        (BERLIN, DAYTIME, "2026-03-28", "Sat 28 08:00, Sat 28 16:00, Sun 29 07:00, Sun 29 15:00"),
        (BERLIN, "Sat 22:00-06:00", "2026-03-28", "Sat 28 21:00, Sun 29 04:00"),
        (BERLIN, "Sun 02:30-03:30", "2026-03-28", "Sun 29 01:00, Sun 29 01:30"),
        (BERLIN, "Sun 01:30-02:30", "2026-03-28", "Sun 29 00:30, Sun 29 01:00"),
        (BERLIN, "Sun 02:10-02:50", "2026-03-28", ""),
        (BERLIN, DAYTIME, "2026-10-24", "Sat 24 07:00, Sat 24 15:00, Sun 25 08:00, Sun 25 16:00"),
        (BERLIN, "Sat 22:00-06:00", "2026-10-24", "Sat 24 20:00, Sun 25 05:00"),
        (BERLIN, "Sun 02:15-02:45", "2026-10-24", "Sun 25 00:15, Sun 25 00:45"),
        (BERLIN, "Sun 01:30-02:30", "2026-10-24", "Sat 24 23:30, Sun 25 00:30"),
        (BERLIN, "Sun 02:30-03:30", "2026-10-24", "Sun 25 00:30, Sun 25 02:30"),
        # New York goes forward on 8 March at 07:00 UTC, back on 1 November at 06:00 UTC.
        (NEW_YORK, DAYTIME, "2026-03-07", "Sat 07 14:00, Sat 07 22:00, Sun 08 13:00, Sun 08 21:00"),
        (NEW_YORK, "Sat 22:00-06:00", "2026-03-07", "Sun 08 03:00, Sun 08 10:00"),
        (NEW_YORK, "Sun 02:30-03:30", "2026-03-07", "Sun 08 07:00, Sun 08 07:30"),
        (NEW_YORK, DAYTIME, "2026-10-31", "Sat 31 13:00, Sat 31 21:00, Sun 01 14:00, Sun 01 22:00"),
        (NEW_YORK, "Sat 22:00-06:00", "2026-10-31", "Sun 01 02:00, Sun 01 11:00"),
        (NEW_YORK, "Sun 01:15-01:45", "2026-10-31", "Sun 01 05:15, Sun 01 05:45"),
    ],
)  # fmt: skip
def test_windows_over_a_change_of_daylight_saving(zone: str, window: str, day: str, expected: str) -> None:
    end = (datetime.fromisoformat(day) + timedelta(days=2, hours=6)).isoformat()
    assert ", ".join(opens_and_closes(weekly(window, zone), day, end)) == expected


def test_a_zone_east_of_utc_has_its_own_days() -> None:
    windows = weekly("Mon 00:00-01:00", "Pacific/Kiritimati")
    local = datetime(2026, 6, 8, tzinfo=timezone(timedelta(hours=14)))
    assert windows.next_change(at("2026-06-02")) == at(local.isoformat())
