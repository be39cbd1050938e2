"""Reads the values of a scenario that YAML has no types for: sizes, times, shares and truths.

Used by `scenario_file` with the places of broker.strict_yaml.
"""

import re
from typing import Final

from broker.simulation.scenario import SECOND_US
from broker.strict_yaml import Place

TRUTH: Final = {"true": True, "yes": True, "false": False, "no": False}
SIZES: Final = {"": 1, "B": 1, "kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
TIMES: Final = {
    "us": 1,
    "ms": 1_000,
    "": SECOND_US,
    "s": SECOND_US,
    "m": 60 * SECOND_US,
    "h": 3_600 * SECOND_US,
    "d": 86_400 * SECOND_US,
}
AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)")
CLOCK: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


def truth(place: Place) -> bool:
    text = place.text().lower()
    if text not in TRUTH:
        place.refuse(f"{text}: expected true or false")
    return TRUTH[text]


def share(place: Place) -> float:
    amount = _amount(place, {"": 1})
    if amount > 1:
        place.refuse(f"{place.text()}: expected a number from 0 to 1")
    return amount


def size(place: Place) -> float:
    """Return bytes, written as 16384, 16kB or 1.5MB; more than 0."""
    return _positive(place, _amount(place, SIZES))


def span(place: Place) -> int:
    """Return microseconds, written as 90, 2ms, 15m or 24h; more than 0."""
    return int(_positive(place, _amount(place, TIMES)))


def moment(place: Place) -> int:
    """Return microseconds since midnight, written as 8h or as 08:00."""
    clock = CLOCK.fullmatch(place.text())
    if clock is None:
        return int(_amount(place, TIMES))
    return (int(clock[1]) * 60 + int(clock[2])) * 60 * SECOND_US


def _amount(place: Place, units: dict[str, int]) -> float:
    found = AMOUNT.fullmatch(place.text())
    if found is None or found[2] not in units:
        named = ", ".join(unit for unit in units if unit)
        place.refuse(f"{place.text()}: expected a number{f' with one of the units {named}' if named else ''}")
    return float(found[1]) * units[found[2]]


def _positive(place: Place, amount: float) -> float:
    if amount <= 0:
        place.refuse("must be more than 0")
    return amount
