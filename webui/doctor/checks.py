"""What a check of the doctor is, and when a figure is worth a look.

Used by webui.doctor.symptoms. The thresholds are Kafka's rules of thumb, as its operators' guides have them.
Knows no view and no page.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Level(StrEnum):
    GOOD = "good"
    WATCH = "watch"
    URGENT = "urgent"


class Unit(StrEnum):
    """How a figure is to be read; a share runs from 0 to 1."""

    SHARE = "share"
    COUNT = "count"
    PER_S = "per_s"
    MS = "ms"
    BYTES = "bytes"


WORST: Final = {Level.GOOD: 0, Level.WATCH: 1, Level.URGENT: 2}


@dataclass(frozen=True, slots=True)
class Check:
    """One figure of a symptom. `value` None: there is nothing to be measured now; `of` is the most that there
    may be. `says` is what it means at this level, `setting` what it hangs on, and `more` whether twice as
    much of that is worth a try; `page` shows more.
    """

    title: str
    value: float | None
    unit: Unit
    level: Level
    says: str
    of: float | None = None
    setting: str | None = None
    more: bool = False
    page: str | None = None


@dataclass(frozen=True, slots=True)
class Symptom:
    """What somebody sees, and the figures that tell why, in the order in which to look at them."""

    key: str
    title: str
    checks: tuple[Check, ...]

    @property
    def level(self) -> Level:
        return worst([check.level for check in self.checks])


def worst(levels: Sequence[Level]) -> Level:
    return max(levels, key=WORST.__getitem__, default=Level.GOOD)


def idle_level(idle: float) -> Level:
    """60 to 95 % idle is healthy, under 50 to be watched, under 20 urgent."""
    return Level.URGENT if idle < 0.2 else Level.WATCH if idle < 0.5 else Level.GOOD


def use_level(used: float | None) -> Level:
    """Of something that has an end; None: it has none."""
    if used is None:
        return Level.GOOD
    return Level.URGENT if used >= 0.95 else Level.WATCH if used >= 0.7 else Level.GOOD


def above(value: float | None, watch: float, urgent: float) -> Level:
    if value is None or not math.isfinite(value):
        return Level.GOOD
    return Level.URGENT if value >= urgent else Level.WATCH if value >= watch else Level.GOOD


def share(part: float, whole: float | None) -> float | None:
    return part / whole if whole else None
