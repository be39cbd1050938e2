"""Bytes to values, refusing what JSON parsers usually let pass.

Used by http.app for every body. Refuses: anything but UTF-8, duplicate keys, NaN and Infinity, numbers that
a double cannot hold, integers of more than 20 digits, and deep nesting.
"""

import json
import math
from typing import Any, Never

MOST_DIGITS = 20


class NotJson(ValueError):  # noqa: N818 - a fact about what was sent
    """The message is for whoever sent it."""


def parse(body: bytes) -> Any:
    """Raises NotJson."""
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except NotJson:
        raise
    except UnicodeDecodeError:
        raise NotJson("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise NotJson(f"the body is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise NotJson("the body is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise NotJson("an object has the same key twice")
    return made


def _integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise NotJson("a number is out of range")
    return int(text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotJson("a number is out of range")
    return value


def _constant(name: str) -> Never:
    raise NotJson(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_constant
)
