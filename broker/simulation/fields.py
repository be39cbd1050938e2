"""Strict YAML: errors name the line and the field; unknown, duplicate and mistyped values are refused.

Used by `reading` and `limits`. Values are read as written: YAML itself reads 14:00 as the number 840 and
`no` as false.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

from broker.simulation.scenario import SECOND_US

T = TypeVar("T")

NULLS: Final = frozenset({"", "~", "null"})
TRUTH: Final = {"true": True, "yes": True, "false": False, "no": False}
SIZES: Final = {"": 1, "B": 1, "kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
TIMES: Final = {"us": 1, "ms": 1_000, "": SECOND_US, "s": SECOND_US, "m": 60 * SECOND_US}
TIMES_OF_DAY: Final = {**TIMES, "h": 3_600 * SECOND_US, "d": 86_400 * SECOND_US}
AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)")
CLOCK: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


class BadFileError(Exception):
    """The file is invalid; the message names the file, the line and the field."""


@dataclass(frozen=True, slots=True)
class Place:
    """One value of a file: `node` is PyYAML's node, `path` the field's name for people."""

    file: str
    node: Any
    path: str = ""

    def refuse(self, why: str) -> NoReturn:
        line = self.node.start_mark.line + 1
        raise BadFileError(f"{self.file} line {line}: {self.path + ': ' if self.path else ''}{why}")

    def fields(self, *known: str) -> "Fields":
        """Return the value as a mapping with only these names, each at most once."""
        if self.node.id != "mapping":
            self.refuse("expected a mapping of names to values")
        found: dict[str, Place] = {}
        for key, value in self.node.value:
            path = f"{self.path}.{key.value}" if self.path else str(key.value)
            here = Place(self.file, key, path)
            if key.id != "scalar" or (known and key.value not in known):
                here.refuse(f"unknown; expected one of {', '.join(known)}")
            if key.value in found:
                here.refuse("is given twice")
            found[key.value] = Place(self.file, value, path)
        return Fields(self, found)

    def items(self) -> list["Place"]:
        if self.node.id != "sequence":
            self.refuse("expected a list")
        return [Place(self.file, node, f"{self.path}[{index}]") for index, node in enumerate(self.node.value)]

    @property
    def is_scalar(self) -> bool:
        return bool(self.node.id == "scalar")

    @property
    def is_null(self) -> bool:
        """Return whether the value is null and not a text that looks like it."""
        return self.is_scalar and self.node.style is None and self.node.value.lower() in NULLS

    def text(self) -> str:
        if not self.is_scalar or self.is_null:
            self.refuse("expected a text")
        return str(self.node.value)

    def whole(self, least: int, most: int) -> int:
        text = self.text()
        if not text.isdecimal() or not least <= int(text) <= most:
            self.refuse(f"{text}: expected a whole number from {least} to {most}")
        return int(text)

    def truth(self) -> bool:
        text = self.text().lower()
        if text not in TRUTH:
            self.refuse(f"{text}: expected true or false")
        return TRUTH[text]

    def share(self) -> float:
        amount = self._amount({"": 1})
        if amount > 1:
            self.refuse(f"{self.text()}: expected a number from 0 to 1")
        return amount

    def size(self) -> float:
        """Return bytes, written as 16384, 16kB or 1.5MB; more than 0."""
        return self._positive(self._amount(SIZES))

    def span(self) -> int:
        """Return microseconds, written as 90, 2ms, 15m or 24h; more than 0."""
        return int(self._positive(self._amount(TIMES_OF_DAY)))

    def moment(self) -> int:
        """Return microseconds since midnight, written as 8h or as 08:00."""
        clock = CLOCK.fullmatch(self.text())
        if clock is None:
            return int(self._amount(TIMES_OF_DAY))
        return (int(clock[1]) * 60 + int(clock[2])) * 60 * SECOND_US

    def _amount(self, units: dict[str, int]) -> float:
        found = AMOUNT.fullmatch(self.text())
        if found is None or found[2] not in units:
            named = ", ".join(unit for unit in units if unit)
            self.refuse(
                f"{self.text()}: expected a number{f' with one of the units {named}' if named else ''}"
            )
        return float(found[1]) * units[found[2]]

    def _positive(self, amount: float) -> float:
        if amount <= 0:
            self.refuse("must be more than 0")
        return amount


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a mapping, by name."""

    place: Place
    by_name: dict[str, Place]

    def get(self, name: str, read: Callable[[Place], T], default: T) -> T:
        place = self.by_name.get(name)
        return default if place is None else read(place)

    def need(self, name: str) -> Place:
        if name not in self.by_name:
            self.place.refuse(f"{name} is missing")
        return self.by_name[name]


def document(file: str, text: str) -> Place:
    """Return the root of a YAML file. Raises BadFileError."""
    import yaml  # yaml takes a tenth of the start, and only this command needs it

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise BadFileError(f"{file} is not YAML: {' '.join(str(error).split())}") from error
    if node is None:
        raise BadFileError(f"{file} is empty")
    return Place(file, node)
