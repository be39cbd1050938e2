"""Checks of the doctor, the thresholds of their levels, and the growth of the broker's totals.

Used by webui.doctor.symptoms. The thresholds are rules of thumb from guides for Kafka operators.
Independent of views and pages; the caller passes the time.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from broker.controller.rows.fields import HIDDEN, Measured


class Level(StrEnum):
    GOOD = "good"
    WATCH = "watch"
    URGENT = "urgent"


class Unit(StrEnum):
    """The unit of a check's value; a share is between 0 and 1."""

    SHARE = "share"
    COUNT = "count"
    PER_S = "per_s"
    MS = "ms"
    BYTES = "bytes"


WORST: Final = {Level.GOOD: 0, Level.WATCH: 1, Level.URGENT: 2}


class Check(msgspec.Struct, frozen=True):
    """One value of a symptom. `value` is None if there is nothing to measure; `of` is its maximum. `says`
    explains the value at this level, `setting` is the setting that affects it, and `more` suggests doubling
    that setting; `page` is the console page with details.
    """

    title: str
    value: Measured | None
    unit: Unit
    level: Level
    says: str
    of: float | None = None
    setting: Annotated[str | None, HIDDEN] = None
    more: Annotated[bool, HIDDEN] = False
    page: str | None = None


def judged(
    title: str, value: float | None, unit: Unit, level: Level, good: str, otherwise: str, **more: Any
) -> Check:
    """Return a check that says `good` at this level, and else `otherwise`."""
    says = good if level is Level.GOOD else otherwise
    return Check(title, value, unit, level, says, **more)


class Symptom(msgspec.Struct, frozen=True):
    """A problem as a user sees it, with the checks that explain it, in the order in which to read them."""

    key: str
    title: str
    checks: tuple[Check, ...]

    @property
    def level(self) -> Level:
        return worst([check.level for check in self.checks])


def worst(levels: Sequence[Level]) -> Level:
    return max(levels, key=WORST.__getitem__, default=Level.GOOD)


def idle_level(idle: float) -> Level:
    """Return the level of an idle share: below 0.5 is WATCH, below 0.2 URGENT (60 to 95 % is healthy)."""
    return Level.URGENT if idle < 0.2 else Level.WATCH if idle < 0.5 else Level.GOOD


def use_level(used: float | None) -> Level:
    """Return the level of a used share; None means that there is no limit."""
    if used is None:
        return Level.GOOD
    return Level.URGENT if used >= 0.95 else Level.WATCH if used >= 0.7 else Level.GOOD


def above(value: float | None, watch: float, urgent: float) -> Level:
    if value is None or not math.isfinite(value):
        return Level.GOOD
    return Level.URGENT if value >= urgent else Level.WATCH if value >= watch else Level.GOOD


def share(part: float, whole: float | None) -> float | None:
    return part / whole if whole else None


SPAN_MS: Final = 300_000
EVERY_MS: Final = 10_000


class RecentTotals:
    """The growth of named totals over the last `SPAN_MS`, with a resolution of ten seconds."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[tuple[int, Mapping[str, int]]] = deque(maxlen=SPAN_MS // EVERY_MS + 1)

    def is_due(self, now_ms: int) -> bool:
        return not self._samples or now_ms - self._samples[-1][0] >= EVERY_MS

    def add(self, totals: Mapping[str, int], now_ms: int) -> None:
        self._samples.append((now_ms, totals))

    def growth(self, totals: Mapping[str, int], now_ms: int) -> dict[str, int]:
        """Return the growth up to the current `totals`. A total without an older sample grows from 0."""
        then = next((then for at_ms, then in self._samples if now_ms - at_ms <= SPAN_MS), None)
        if then is None:
            return dict.fromkeys(totals, 0)
        return {name: total - then.get(name, 0) for name, total in totals.items()}
