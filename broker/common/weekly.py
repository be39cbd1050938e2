"""Weekly windows in the local time of a zone: Mon-Fri 09:00-17:00 in Europe/Berlin.

Used by broker.common.temporary_limits. Reads no clock; instants are wall-clock milliseconds since the
epoch. A window opens and closes when a clock in its zone shows these times. Where daylight saving ends, a
time that occurs twice is the first of them; where it begins, a time that is left out is the moment of the
change. So a window opens and closes once a day.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MAX_WINDOWS: Final = 16
LONGEST_ZONE: Final = 64
DAY_MIN: Final = 24 * 60
_HORIZON_DAYS: Final = 9
"""Days after today in which a window of a week has begun and ended, also over midnight."""

_WINDOW: Final = re.compile(r"([A-Za-z,-]+) +([0-9]{2}):([0-9]{2}) *- *([0-9]{2}):([0-9]{2})")
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_OF_THIS_MACHINE: Final = frozenset({"localtime", "posixrules", "Factory"})

Interval = tuple[int, int]
"""From the first millisecond to the one after the last."""


class BadWindow(ValueError):  # noqa: N818 - describes the input
    """The text is no window, or the name no zone. The message is for the user."""


class Window(msgspec.Struct, frozen=True):
    """A window of each of `days` (0 is Monday), in minutes of the day. One that ends at or before its start
    ends on the next day; `end_min` is 1 to 1440.
    """

    days: tuple[int, ...]
    start_min: int
    end_min: int

    def __str__(self) -> str:
        start, end = (f"{minute // 60:02}:{minute % 60:02}" for minute in (self.start_min, self.end_min))
        return f"{_days_text(self.days)} {start}-{end}"


def read_window(text: str) -> Window:
    """Parse "Mon-Fri 09:00-17:00" or "Sat,Sun 22:00-06:00". Raises BadWindow."""
    found = _WINDOW.fullmatch(text.strip())
    if found is None:
        raise BadWindow(f"{text!a} is no window: expected days and times, as in Mon-Fri 09:00-17:00")
    hours = [int(each) for each in found.groups()[1:]]
    start, end = hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]
    if hours[1] > 59 or hours[3] > 59 or start >= DAY_MIN or end > DAY_MIN:
        raise BadWindow(f"{text!a}: times are 00:00 to 23:59, and 24:00 at the end")
    if start == end:
        raise BadWindow(f"{text!a} begins and ends at the same time; a whole day is 00:00-24:00")
    return Window(_read_days(found[1], text), start, end or DAY_MIN)


def _read_days(names: str, text: str) -> tuple[int, ...]:
    days: set[int] = set()
    for part in names.split(","):
        first, dash, last = part.partition("-")
        ends = [_DAY_OF.get(name.lower()) for name in ((first, last) if dash else (first, first))]
        begin, end = ends
        if begin is None or end is None:
            raise BadWindow(f"{text!a}: days are {', '.join(DAYS)}, and ranges of them")
        days.update((begin + each) % 7 for each in range((end - begin) % 7 + 1))
    return tuple(sorted(days))


_DAY_OF: Final = {name.lower(): number for number, name in enumerate(DAYS)}


def _days_text(days: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for day in days:
        if parts and parts[-1][-1] == day - 1:
            parts[-1].append(day)
        else:
            parts.append([day])
    texts = (f"{DAYS[part[0]]}-{DAYS[part[-1]]}" if len(part) > 1 else DAYS[part[0]] for part in parts)
    return ",".join(texts)


def is_zone_name(name: str) -> bool:
    """Return whether the text can name a zone; only a database of zones knows whether it does."""
    return (
        len(name) <= LONGEST_ZONE
        and _ZONE.fullmatch(name) is not None
        and name not in _OF_THIS_MACHINE
        and not name.startswith(("posix/", "right/"))
    )


def zone_of(name: str) -> ZoneInfo:
    """Return the zone from the database of this machine, or of the package tzdata. Raises BadWindow."""
    try:
        if is_zone_name(name):
            return ZoneInfo(name)
    except (ValueError, LookupError, OSError):
        pass
    raise BadWindow(f"unknown time zone {name!a}: expected a name such as UTC or Europe/Berlin")


class Weekly(msgspec.Struct, frozen=True):
    """Windows in one zone. The methods raise BadWindow if this machine does not know the zone."""

    windows: tuple[Window, ...]
    zone: str

    def is_open(self, at_ms: int) -> bool:
        return any(start <= at_ms < end for start, end in self._intervals(at_ms))

    def next_change(self, at_ms: int) -> int | None:
        """Return when the windows open or close after `at_ms`; None if they cover the whole week."""
        for start, end in self._intervals(at_ms):
            if at_ms < start:
                return start
            if at_ms < end:
                return None if end >= at_ms + 7 * 86_400_000 else end
        return None

    def _intervals(self, at_ms: int) -> Iterator[Interval]:
        """Return the times around `at_ms` when any window is open, in order and without touching ones."""
        zone = zone_of(self.zone)
        today = datetime.fromtimestamp(at_ms / 1000, zone).date()
        return iter(_merged(_on_days(self.windows, self.zone, today)))


@lru_cache(4_096)
def _on_days(windows: tuple[Window, ...], zone_name: str, today: date) -> tuple[Interval, ...]:
    zone, found = zone_of(zone_name), []
    for ahead in range(-2, _HORIZON_DAYS):
        day = today + timedelta(days=ahead)
        for window in windows:
            if day.weekday() in window.days:
                last = day if window.end_min > window.start_min else day + timedelta(days=1)
                start = _instant(day, window.start_min, zone)
                found.append((start, _instant(last, window.end_min, zone)))
    return tuple(found)


def _merged(intervals: Iterable[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if start >= end:
            continue  # daylight saving began and left it out
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _instant(day: date, minute: int, zone: ZoneInfo) -> int:
    """Return when clocks in `zone` first show this time of the day, or jump over it."""
    local = datetime(day.year, day.month, day.day, tzinfo=zone) + timedelta(minutes=minute)
    there = local.replace(fold=0).astimezone(UTC)
    if there.astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
        return _jump(local.replace(fold=1), there, zone)
    return round(there.timestamp()) * 1000


def _jump(early: datetime, late: datetime, zone: ZoneInfo) -> int:
    """Return the moment of a change of the clocks between these two, to the second."""
    low, high = round(early.timestamp()), round(late.timestamp())
    before = datetime.fromtimestamp(low, zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high * 1000
