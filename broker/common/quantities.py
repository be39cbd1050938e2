"""Byte rates, sizes, durations and other quantities as a person types them: 10 MB, 1.5 MiB/s, 7d, 1 h 30 min.

Used by `weir quotas`, `weir topics`, quota files and the simulation. webui/static/js/quantities.js does the
same for the console's forms; tests/common/quantities.json has the cases of both. Knows nothing of fields and
their bounds; REST has numbers only.

    quantity   spaces number spaces unit [/s | /sec | ps] spaces; /s only of a rate
    number     10, 1.5, .5, or groups of three digits separated by a space, a no-break space or _
    byte       B, kB, MB, GB, TB, PB: 1000; KiB, MiB, GiB, TiB, PiB: 1024; in any case, B may be left out
    duration   ms, s, sec, m, min, h, d, or words from seconds to weeks; several from the largest to the
               smallest; without a unit ms

A point is a decimal point. A comma is always refused, because it is a decimal point only to some.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

MAX_LENGTH: Final = 64
"""Characters of a quantity."""

BEYOND: Final = 2**63
"""Every value is below this one, also after it is rounded to a double."""

_EXACT: Final = 2**53
"""A larger setting has no round value; the largest of its type is no limit."""


class Quantity(StrEnum):
    BYTE_RATE = "byte-rate"
    SIZE = "size"
    DURATION = "duration"
    PERCENT = "percent"
    RATE = "rate"
    COUNT = "count"


class QuantityError(ValueError):
    """The message says what to write instead. `key` is the limit's, of an entry of a quota file, and `place`
    the value's in the entry.
    """

    key: str = ""
    place: str = ""


LIMITS: Final[Mapping[str, Quantity]] = {
    "producer_byte_rate": Quantity.BYTE_RATE,
    "consumer_byte_rate": Quantity.BYTE_RATE,
    "request_percentage": Quantity.PERCENT,
    "controller_mutation_rate": Quantity.RATE,
    "connection_creation_rate": Quantity.RATE,
}
"""What a limit of a quota is."""

EXPECTED: Final[Mapping[Quantity, str]] = {
    Quantity.BYTE_RATE: "enter a number with a unit, such as 10 MB",
    Quantity.SIZE: "enter a number with a unit, such as 10 MB",
    Quantity.DURATION: "enter a duration, such as 5 min",
    Quantity.PERCENT: "enter a percentage, such as 50 %",
    Quantity.RATE: "enter a number, such as 5",
    Quantity.COUNT: "enter a whole number",
}

_PREFIXES: Final = "kmgtp"
_BYTES: Final = (
    {"": 1, "b": 1, "byte": 1, "bytes": 1}
    | {f"{each}{b}": 1000**power for power, each in enumerate(_PREFIXES, 1) for b in ("", "b")}
    | {f"{each}i{b}": 1024**power for power, each in enumerate(_PREFIXES, 1) for b in ("", "b")}
)
_TIMES: Final = {
    "ms": 1,
    "s": 1_000,
    "sec": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_TIME_WORDS: Final = {
    f"{word}{plural}": factor
    for word, factor in (
        ("second", 1_000),
        ("minute", 60_000),
        ("hour", 3_600_000),
        ("day", 86_400_000),
        ("week", 604_800_000),
    )
    for plural in ("", "s")
}
_UNITS: Final[Mapping[Quantity, Mapping[str, int]]] = {
    Quantity.BYTE_RATE: _BYTES,
    Quantity.SIZE: _BYTES,
    Quantity.DURATION: _TIMES | _TIME_WORDS | {"": 1},
    Quantity.PERCENT: {"": 1, "%": 1},
    Quantity.RATE: {"": 1},
    Quantity.COUNT: {"": 1},
}
_NAMED: Final[Mapping[Quantity, str]] = {
    Quantity.BYTE_RATE: "B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB or PiB",
    Quantity.SIZE: "B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB or PiB",
    Quantity.DURATION: "ms, s, min, h or d",
}
_PER_SECOND: Final = (Quantity.BYTE_RATE, Quantity.RATE)

_GAP: Final = "[ \t\u00a0\u202f]*"
_SEPARATOR: Final = "[ \u00a0\u202f_]"
_NUMBER: Final = rf"(?:[0-9]{{1,3}}(?:{_SEPARATOR}[0-9]{{3}})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+"
_QUANTITY: Final = re.compile(
    rf"{_GAP}({_NUMBER}){_GAP}([a-z%]*?){_GAP}(/s(?:ec)?|ps)?{_GAP}", re.ASCII | re.IGNORECASE
)
_PART: Final = re.compile(rf"({_NUMBER}){_GAP}([a-z]*){_GAP}", re.ASCII | re.IGNORECASE)
_UNITLESS: Final = re.compile(r"-?[0-9]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_SIGNED: Final = re.compile(rf"{_GAP}[-+\u2212]{_GAP}[0-9.]")
_WITH_COMMA: Final = re.compile(rf"[0-9](?:[0-9.,]|{_SEPARATOR}(?=[0-9]))*")
_COMMAS: Final = re.compile(r"0*([0-9]+(?:,[0-9]+)+(?:\.[0-9]+)?)")


def read(quantity: Quantity, text: str) -> int | float:
    """Return bytes, bytes per second, milliseconds, percent or the number itself; a whole number except for
    PERCENT and RATE, rounded half up if its unit is not the smallest. Raises QuantityError.
    """
    if len(text) > MAX_LENGTH:
        raise QuantityError(EXPECTED[quantity])
    if "," in text:
        raise QuantityError(_readings(text))
    if _SIGNED.match(text):
        raise QuantityError("enter a number without a sign")
    value = _duration(text) if quantity is Quantity.DURATION else _quantity(quantity, text)
    if float(value) >= BEYOND:
        raise QuantityError("enter a value below 2⁶³")
    return value


def read_limit(key: str, text: str) -> int | float:
    """Return the value of a limit of a quota. Raises QuantityError."""
    value = read(LIMITS.get(key, Quantity.RATE), text)
    if value == 0:
        raise QuantityError("enter a value greater than 0")
    return value


def read_config(key: str, text: str) -> str:
    """Return the value of a setting, whose key ends with its unit: 7d is 604800000 of retention.ms. Numbers
    without a unit, among them -1, and other settings are returned as they are. Raises QuantityError.
    """
    quantity = {"ms": Quantity.DURATION, "bytes": Quantity.SIZE}.get(key.rpartition(".")[2])
    if quantity is None or _UNITLESS.fullmatch(text):
        return text
    return str(read(quantity, text))


def read_limits(entry: Any) -> Any:
    """Return an entry of a quota file with numbers in place of texts such as 10 MB. Raises QuantityError."""
    if not isinstance(entry, dict):
        return entry
    limits: Any = entry.get("limits")
    for key in limits if isinstance(limits, dict) else ():
        _read_value(limits, key, key, f"limits/{key}")
    temporary: Any = entry.get("temporary")
    for key, limit in temporary.items() if isinstance(temporary, dict) else ():
        if isinstance(limit, dict) and "value" in limit:
            _read_value(limit, "value", key, f"temporary/{key}/value")
    return entry


def _read_value(values: dict[str, Any], name: str, key: str, place: str) -> None:
    """Read the text `name` as a value of the limit `key`, in place."""
    text = values[name]
    if key in LIMITS and isinstance(text, str):
        try:
            values[name] = read_limit(key, text)
        except QuantityError as error:
            error.key, error.place = key, place
            raise


def _quantity(quantity: Quantity, text: str) -> int | float:
    found = _QUANTITY.fullmatch(text)
    if found is None or (found[3] and quantity not in _PER_SECOND):
        raise QuantityError(EXPECTED[quantity])
    number, factor = _plain(found[1]), _factor(quantity, found[2])
    if quantity in (Quantity.PERCENT, Quantity.RATE):
        return int(number) if "." not in number else float(number)
    return _whole(number, factor)


def _duration(text: str) -> int:
    """Parse parts from the largest unit to the smallest; only a part of its own may have a fraction."""
    rest = text.strip(" \t\u00a0\u202f")
    parts: list[tuple[str, int]] = []
    while rest:
        found = _PART.match(rest)
        if found is None:
            raise QuantityError(EXPECTED[Quantity.DURATION])
        parts.append((_plain(found[1]), _factor(Quantity.DURATION, found[2])))
        if not found[2] and (len(parts) > 1 or found.end() < len(rest)):
            raise QuantityError(EXPECTED[Quantity.DURATION])
        rest = rest[found.end() :]
    factors = [factor for _, factor in parts]
    is_ordered = all(first > second for first, second in pairwise(factors))
    if not parts or not is_ordered or (len(parts) > 1 and any("." in number for number, _ in parts)):
        raise QuantityError(EXPECTED[Quantity.DURATION])
    return sum(_whole(number, factor) for number, factor in parts)


def _plain(number: str) -> str:
    return re.sub(_SEPARATOR, "", number)


def _factor(quantity: Quantity, unit: str) -> int:
    factor = _UNITS[quantity].get(unit.lower())
    if factor is not None:
        return factor
    named = _NAMED.get(quantity)
    if named is None:
        raise QuantityError(EXPECTED[quantity])
    raise QuantityError(f"unknown unit {unit}: expected {named}")


def _whole(number: str, factor: int) -> int:
    """Multiply exactly, so that no digit depends on how a double rounds."""
    whole, _, fraction = number.partition(".")
    scale: int = 10 ** len(fraction)
    scaled = int(whole + fraction) * factor
    if factor == 1 and scaled % scale:
        raise QuantityError("enter a whole number")
    return (2 * scaled + scale) // (2 * scale)


def _readings(text: str) -> str:
    """Return the message for a number with a comma: what it may mean."""
    found = _WITH_COMMA.search(text)
    number = "" if found is None else _plain(found[0])
    commas = _COMMAS.fullmatch(number)
    if found is None or commas is None:
        return "a comma is not allowed"
    without = number.replace(",", "").lstrip("0")
    without = f"0{without}" if without[:1] in ("", ".") else without
    if number.count(",") > 1 or "." in number:
        return f"{found[0]} has a comma; write {without}"
    first, second = number.split(",")
    point = f"{first.lstrip('0') or '0'}.{second}".rstrip("0").rstrip(".")
    if point == without:
        return f"{found[0]} has a comma; write {without}"
    return f"{found[0]} may mean {without} or {point}; write {without} or {point}"


def write_bytes(value: int) -> str:
    """Return a number of bytes that reads back as the same: 1048576 is 1 MiB, 1000000 is 1 MB."""
    is_binary = value >= 1024 and value % 1024 == 0 and value % 1000 != 0
    base = 1024 if is_binary else 1000
    names = ("B", "KiB", "MiB", "GiB", "TiB", "PiB") if is_binary else ("B", "kB", "MB", "GB", "TB", "PB")
    power = next(power for power in range(len(names) - 1, -1, -1) if value >= base**power or power == 0)
    shown = f"{value / base**power:.3f}".rstrip("0").rstrip(".")
    if power and _whole(shown, base**power) == value:
        return f"{shown} {names[power]}"
    return f"{group(value)} B"


def write_duration(ms: int) -> str:
    """Return a duration that reads back as the same: 604800000 is 7 d, 5400000 is 1.5 h, 90500 is 90.5 s."""
    for unit in ("d", "h", "min", "s"):
        shown = f"{ms / _TIMES[unit]:.2f}".rstrip("0").rstrip(".")
        if ms >= _TIMES[unit] and _whole(shown, _TIMES[unit]) == ms:
            whole, _, fraction = shown.partition(".")
            return f"{group(int(whole))}{f'.{fraction}' if fraction else ''} {unit}"
    return f"{group(ms)} ms"


def group(value: int) -> str:
    """Return a whole number in groups of three digits, as it can be typed."""
    return f"{value:,}".replace(",", " ")


def write_config(key: str, text: str) -> str:
    """Return a setting's value as a person reads it, and can type it: 604800000 of retention.ms is 7 d."""
    if not text.isascii() or not text.isdecimal() or not 1_000 <= int(text) < _EXACT:
        return text
    write = {"ms": write_duration, "bytes": write_bytes}.get(key.rpartition(".")[2])
    return text if write is None else write(int(text))
