"""The kinds of configuration values: type on the wire, parser, formatter, allowed range.

Used by every key of broker.config.sections and by dynamic changes in broker.controller. Keys with the same
range share a `ConfigKind`. Follows Kafka's ConfigDef: values are trimmed, numbers are decimal digits.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from sys import float_info
from typing import Any, Final

SHORT_MAX: Final = 2**15 - 1
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -(2**63)

_DIGITS = re.compile(r"-?[0-9]+\Z")
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?\Z")
_LONGEST_DECIMAL: Final = 400
"""Characters; ours. The largest double has 309 digits."""


class ConfigType(IntEnum):
    """DescribeConfigs' ConfigType, as on the wire."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@dataclass(frozen=True, slots=True)
class ConfigKind:
    """`read` parses trimmed text or raises ValueError; `write` is its inverse; `allowed` describes the valid
    values; `bounds` are the minimum and maximum of a whole number, `choices` all valid texts if they are few;
    `separator` is that of a list.
    """

    type: ConfigType
    allowed: str
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str
    bounds: tuple[int, int] | None = None
    choices: tuple[str, ...] = ()
    separator: str = ""


def integer(low: int, high: int = INT_MAX) -> ConfigKind:
    return _whole(ConfigType.INT, low, high)


def short(low: int, high: int = SHORT_MAX) -> ConfigKind:
    return _whole(ConfigType.SHORT, low, high)


def long(low: int, high: int = LONG_MAX) -> ConfigKind:
    return _whole(ConfigType.LONG, low, high)


def _whole(type_: ConfigType, low: int, high: int) -> ConfigKind:
    def read(text: str) -> int:
        # int() accepts "1_000", " 7 " and digits of all scripts; Kafka rejects them.
        if len(text) > 20 or not _DIGITS.match(text):
            raise ValueError("not a whole number")
        value = int(text)
        if not low <= value <= high:
            raise ValueError("out of range")
        return value

    return ConfigKind(type_, whole_from(low, high), read, bounds=(low, high))


def whole_from(low: int, high: int) -> str:
    return f"a whole number from {low} to {high}"


def decimal(low: float, high: float) -> ConfigKind:
    def read(text: str) -> float:
        if len(text) > _LONGEST_DECIMAL or not _DECIMAL.match(text):
            raise ValueError("not a number")
        value = float(text)
        if not low <= value <= high:
            raise ValueError("out of range")
        return value

    allowed = f"a number from {low:g} {'on' if high == float_info.max else f'to {high:g}'}"
    return ConfigKind(ConfigType.DOUBLE, allowed, read, java_double)


def java_double(value: float) -> str:
    """Return the number as Java writes a double: 1.0E7, but 9999999.0 and 0.001."""
    if not value or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *others = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(others) or '0'}E{exponent + len(digits) - 1}"


def _read_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("not a boolean")


BOOLEAN: Final = ConfigKind(
    ConfigType.BOOLEAN,
    "true or false",
    _read_boolean,
    lambda value: str(value).lower(),
    choices=("true", "false"),
)
TEXT: Final = ConfigKind(ConfigType.STRING, "any text", str)
SECRET: Final = ConfigKind(ConfigType.PASSWORD, "any text", str)
CLASS: Final = ConfigKind(ConfigType.CLASS, "any text", str)


def one_of(*choices: str) -> ConfigKind:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError("not one of the choices")
        return text

    return ConfigKind(ConfigType.STRING, f"one of {', '.join(choices)}", read, choices=choices)


SPACES: Final = " \t\n\r\v\f"


def trimmed(text: str) -> str:
    """Return the text without the spaces of ASCII around it, as Kafka does. Others, such as U+00A0, are part
    of a value: without them, a principal would be another one.
    """
    return text.strip(SPACES)


READ_ONCE: Final = 4
"""Values of a list setting whose text is parsed once; ours.

A change parses each value three times: to check it, to plan, and to apply. 32 kB of addresses take 5 ms.
"""


def list_of(
    read_item: Callable[[str], Any],
    allowed: str,
    *,
    write_item: Callable[[Any], str] = str,
    separator: str = ",",
    least: int = 0,
    most: int | None = None,
    type_: ConfigType = ConfigType.LIST,
) -> ConfigKind:
    """Return the kind of separated lists: items are trimmed and in order, without duplicates; a tuple.

    For Kafka some are a STRING: no item can be appended or subtracted.
    """

    @lru_cache(maxsize=READ_ONCE)
    def read(text: str) -> tuple[Any, ...]:
        if most is not None and text.count(separator) >= most:
            raise ValueError("too many items")
        items = [trimmed(item) for item in text.split(separator)] if text else []
        if "" in items or len(items) < least:
            raise ValueError("an item is missing")
        return tuple(dict.fromkeys(map(read_item, items)))

    def write(values: Iterable[Any]) -> str:
        return separator.join(map(write_item, values))

    return ConfigKind(type_, allowed, read, write, separator=separator)


def network(text: str) -> IPv4Network | IPv6Network:
    """Parse an address or a network. Raises ValueError."""
    found = ip_network(text)
    # An IPv4 address that is mapped to IPv6 counts as the IPv4 address, so no address would be in it.
    if isinstance(found, IPv6Network) and found.network_address.ipv4_mapped is not None:
        raise ValueError("mapped to IPv6")
    return found


NETWORKS: Final = list_of(network, "a list of addresses and networks, such as 10.0.0.7,2001:db8::/32")


def choices_of(*choices: str, least: int = 1) -> ConfigKind:
    """Return the kind of lists of at least `least` of the choices."""
    return list_of(one_of(*choices).read, f"a list of {', '.join(choices)}", least=least)
