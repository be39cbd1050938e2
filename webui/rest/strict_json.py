"""Bytes to values, refusing what JSON parsers usually let pass.

Used by rest.bodies and the sign-in. Refuses: anything but UTF-8, duplicate keys, NaN and Infinity, numbers
that a double cannot hold, integers of more than 20 digits, and deep nesting.

msgspec decodes in native code, but keeps the last of two equal keys and reads longer integers. So what it
decoded is encoded again, in native code too: every key that was dropped is a colon less. Where the colons
differ, where there is an escaped colon or a long row of digits, and where msgspec refuses, Python's decoder
with hooks reads the body once more, and accepts or refuses it, in words.
"""

import json
import math
import re
from typing import Any, Final, Never

import msgspec

MOST_DIGITS: Final = 20

_COLON: Final = b":"
_DOUBTFUL: Final = re.compile(rb"\\u003[aA]|[0-9]{20}")


class NotJson(ValueError):  # noqa: N818 - a fact about what was sent
    """The message is for whoever sent it."""


def parse(body: bytes) -> Any:
    """Takes as long as the body is: rest.bodies gives long ones in pieces. Raises NotJson."""
    try:
        value = _decode(body)
        colons = _encode(value).count(_COLON)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return _strictly(body)
    if colons == body.count(_COLON) and not _DOUBTFUL.search(body):
        return value
    return _strictly(body)


def _strictly(body: bytes) -> Any:
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


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_constant
)
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode
