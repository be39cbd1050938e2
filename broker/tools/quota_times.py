"""The times of a temporary limit on the command line: `--until 18:00`, `--until 2h`, `--weekly ...`.

Used by `weir quotas`. A time without an offset is one of this machine's zone. Reads no clock.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import click

from broker.common.quantities import Quantity, QuantityError, read
from broker.common.temporary_limits import read_time, write_time
from broker.tools.escaping import printable

_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_ZONE: Final = re.compile(r"(.*[0-9]) +([^ 0-9][^ ]*)")


def times_of(begin: str | None, end: str | None, weekly: Sequence[str], now_ms: int) -> dict[str, Any]:
    """Return from, until, windows and zone as the REST API expects them; {} without any. Raises
    click.UsageError.
    """
    times: dict[str, Any] = {}
    if begin is not None:
        begin_ms = _moment("--from", begin, now_ms)
        times["from"] = write_time(begin_ms)
        if end is not None and _CLOCK.fullmatch(end):
            now_ms = max(now_ms, begin_ms)
    if end is not None:
        times["until"] = write_time(_moment("--until", end, now_ms))
    if weekly:
        times |= _windows(weekly)
    if times and end is None and not weekly:
        raise click.UsageError("--from needs --until or --weekly")
    return times


def _moment(option: str, text: str, now_ms: int) -> int:
    """Read 18:00 (the next one), a duration from now, or a date with or without a time. Return a whole
    second.
    """
    now = datetime.fromtimestamp(now_ms // 1000)
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        today = now.replace(hour=int(clock[1]), minute=int(clock[2]), second=0)
        return _ms(today if today > now else today + timedelta(days=1))
    try:
        return _ms(datetime.fromisoformat(text))
    except ValueError:
        pass
    try:
        if not text.strip().isdecimal():
            return now_ms // 1000 * 1000 + int(read(Quantity.DURATION, text))
    except QuantityError:
        pass
    expected = "a time such as 18:00, 2h, 2026-12-01T18:00 or 2026-12-01T18:00Z"
    raise click.UsageError(f"{option} {printable(text)}: expected {expected}")


def _ms(at: datetime) -> int:
    return round(at.timestamp()) * 1000


def _windows(weekly: Sequence[str]) -> dict[str, Any]:
    windows, zones = [], set()
    for text in weekly:
        found = _ZONE.fullmatch(text.strip())
        windows.append(text.strip() if found is None else found[1])
        zones.add("UTC" if found is None else found[2])
    if len(zones) > 1:
        raise click.UsageError(f"--weekly: all windows need one zone, not {', '.join(sorted(zones))}")
    return {"windows": windows, "zone": zones.pop()}


def times_text(limit: Mapping[str, Any]) -> str:
    """Return the times of an answer: `until 2026-12-01T18:00:00Z`, `Mon-Fri 09:00-17:00 UTC`."""
    parts = [f"{', '.join(limit['windows'])} {limit['zone']}"] if "windows" in limit else []
    parts += [f"{name} {write_time(read_time(limit[name]))}" for name in ("from", "until") if name in limit]
    return " ".join(parts)


def temporary_text(limit: Mapping[str, Any], value: str, permanent: str) -> str:
    """Return `50 MB/s until 2026-12-01T18:00:00Z, ends in 2 h; else 10 MB/s`."""
    left, text = limit["seconds_left"], f"{value} {times_text(limit)}"
    if left is not None:
        text += f", {'ends' if limit['active'] else 'begins'} in {_left_text(left)}"
    return f"{text}; else {permanent}"


def _left_text(seconds: int) -> str:
    """Return the two largest units: 2 h 5 min, 3 d 4 h, 59 s."""
    days, hours, minutes = seconds // 86_400, seconds // 3_600 % 24, seconds // 60 % 60
    units = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds % 60, "s")]
    while len(units) > 1 and not units[0][0]:
        units.pop(0)
    return " ".join(f"{count} {unit}" for count, unit in units[:2] if count) or "0 s"
