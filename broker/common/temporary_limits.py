"""Temporary limits: the value of one quota key from one time until another, or in weekly windows.

A temporary limit lies over the permanent limit of its entity and key, which is kept. Which of the two is in
force depends on the limit and the wall clock only, so each server finds it by itself, after any restart, and
nothing is written when a temporary limit begins or ends. The metadata store one JSON text for each:

    {"value": 50000000, "until": "2026-12-01T18:00:00Z"}
    {"value": 1000000, "windows": ["Mon-Fri 09:00-17:00"], "zone": "Europe/Berlin"}

Planned by broker.controller.client_quotas, in force through broker.controller.quotas_in_force.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from broker.common.weekly import MAX_WINDOWS, BadWindow, Weekly, is_zone_name, read_window, zone_of

LATEST_MS: Final = 253_402_300_799_000
"""The end of the year 9999, the last that datetime knows."""


class BadTimes(ValueError):  # noqa: N818 - describes the input
    """The times of a temporary limit are invalid. `field` names the one at fault; the message is for the
    user.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class TemporaryLimit(msgspec.Struct, frozen=True):
    """Applies from `from_ms` (None: at once) until `until_ms` (None: for ever), and only in the weekly
    windows if there are any. One of `until_ms` and `weekly` is set. The first millisecond counts, the last
    does not.
    """

    value: float
    from_ms: int | None = None
    until_ms: int | None = None
    weekly: Weekly | None = None

    def is_active(self, now_ms: int) -> bool:
        return self._is_between(now_ms) and (self.weekly is None or self.weekly.is_open(now_ms))

    def next_change(self, now_ms: int) -> int | None:
        """Return when the limit begins or ends next; None if it has ended."""
        begin = now_ms if self.from_ms is None else self.from_ms
        if now_ms < begin and self._is_open(begin):
            change: int | None = begin
        elif self.weekly is not None:
            change = self.weekly.next_change(max(now_ms, begin))
        else:
            change = None
        until = self.until_ms
        if until is None or until <= now_ms:
            return None if until is not None else change
        if change is not None and change < until:
            return change
        return until if self.is_active(now_ms) else None

    def has_ended(self, now_ms: int) -> bool:
        """Return whether the limit does not apply any more."""
        return not self.is_active(now_ms) and self.next_change(now_ms) is None

    def _is_open(self, at_ms: int) -> bool:
        return self.weekly is None or self.weekly.is_open(at_ms)

    def _is_between(self, now_ms: int) -> bool:
        return (self.from_ms is None or self.from_ms <= now_ms) and (
            self.until_ms is None or now_ms < self.until_ms
        )


def check_times(limit: TemporaryLimit, now_ms: int) -> None:
    """Raise BadTimes unless the limit applies at some time from now on."""
    if limit.until_ms is None and limit.weekly is None:
        raise BadTimes("until", "a temporary limit needs until or windows")
    if limit.weekly is not None:
        try:
            zone_of(limit.weekly.zone)
        except BadWindow as error:
            raise BadTimes("zone", str(error)) from None
        if limit.weekly.next_change(now_ms) is None:
            raise BadTimes("windows", "the windows cover the whole week: set the limit itself")
    if limit.until_ms is not None:
        if limit.from_ms is not None and limit.until_ms <= limit.from_ms:
            raise BadTimes("until", f"until {write_time(limit.until_ms)} is not after from")
        if limit.until_ms <= now_ms:
            raise BadTimes("until", f"until {write_time(limit.until_ms)} is in the past")
    if limit.has_ended(now_ms):
        raise BadTimes("windows", "no window opens before until")


def weekly_of(windows: Iterable[str], zone: str) -> Weekly:
    """Return the windows that the texts name. Raises BadTimes, but not for a zone that this machine lacks."""
    try:
        read = tuple(dict.fromkeys(map(read_window, windows)))
    except BadWindow as error:
        raise BadTimes("windows", str(error)) from None
    if not 1 <= len(read) <= MAX_WINDOWS:
        raise BadTimes("windows", f"expected 1 to {MAX_WINDOWS} windows")
    if not is_zone_name(zone):
        raise BadTimes("zone", f"unknown time zone {zone!a}: expected a name such as UTC or Europe/Berlin")
    return Weekly(read, zone)


def read_time(text: str) -> int:
    """Parse RFC 3339, with an offset. Raises ValueError."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text!a} has no offset from UTC; expected a time such as 2026-12-01T18:00:00Z")
    at_ms = round(at.timestamp() * 1000)
    if not 0 <= at_ms <= LATEST_MS:
        raise ValueError(f"{text!a} is not between 1970 and 9999")
    return at_ms


def write_time(time_ms: int) -> str:
    text = datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{time_ms % 1000:03}Z" if time_ms % 1000 else f"{text}Z"


def times_of(limit: TemporaryLimit) -> dict[str, Any]:
    """Return from, until, windows and zone as requests, files and the metadata have them, without those that
    are not set.
    """
    times: dict[str, Any] = {}
    if limit.from_ms is not None:
        times["from"] = write_time(limit.from_ms)
    if limit.until_ms is not None:
        times["until"] = write_time(limit.until_ms)
    if limit.weekly is not None:
        times |= {"windows": list(map(str, limit.weekly.windows)), "zone": limit.weekly.zone}
    return times


def from_times(value: float, times: Mapping[str, Any]) -> TemporaryLimit:
    """Return the limit with the times of a request, file or the metadata. Raises BadTimes; `check_times`
    checks them against the clock.
    """
    found: dict[str, int | None] = {"from": None, "until": None}
    for field in found:
        if times.get(field) is not None:
            try:
                found[field] = read_time(times[field])
            except ValueError as error:
                raise BadTimes(field, str(error)) from None
    weekly = None
    if times.get("windows") is not None:
        weekly = weekly_of(times["windows"], times.get("zone") or "UTC")
    elif times.get("zone") is not None:
        raise BadTimes("zone", "zone applies to windows only")
    return TemporaryLimit(value, found["from"], found["until"], weekly)


def write_temporary(limit: TemporaryLimit) -> str:
    value = int(limit.value) if limit.value.is_integer() and abs(limit.value) < 2**63 else limit.value
    return json.dumps({"value": value, **times_of(limit)}, separators=(",", ":"))


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    value: float
    from_: str | None = msgspec.field(name="from", default=None)
    until: str | None = None
    windows: list[str] | None = None
    zone: str | None = None


_STORED: Final = msgspec.json.Decoder(_Stored)


def read_temporary(text: str) -> TemporaryLimit:
    """Raises ValueError. The result depends on the text only: a zone that this machine lacks is no error."""
    found = _STORED.decode(text)
    times = {"from": found.from_, "until": found.until, "windows": found.windows, "zone": found.zone}
    limit = from_times(found.value, times)
    if limit.until_ms is None and limit.weekly is None:
        raise BadTimes("until", "a temporary limit needs until or windows")
    return limit
