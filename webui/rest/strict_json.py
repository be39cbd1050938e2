"""A strict JSON parser.

Used by rest.bodies and the sign-in. Rejects: anything but UTF-8, duplicate keys, NaN and Infinity, numbers
that a double cannot hold, integers of more than 20 digits, and deep nesting.

msgspec decodes in native code, but keeps the last of two equal keys and accepts longer integers. So this
module encodes its result again, also in native code: each dropped duplicate key is a missing colon. If the
numbers of colons differ, if there is an escaped colon or a long run of digits, or if msgspec rejects the
body, Python's decoder with hooks parses the body again and accepts it or raises an error with a message.
"""

import json
import math
import re
from typing import Any, Final, Never

import msgspec

MAX_DIGITS: Final = 20

_COLON: Final = b":"
_DOUBTFUL: Final = re.compile(rb"\\u003[aA]|[0-9]{20}")


class NotJson(ValueError):  # noqa: N818 - describes the input
    """Invalid JSON. The message is for the client."""


def parse(body: bytes) -> Any:
    """Parse a body in one piece; rest.bodies splits long ones. Raises NotJson."""
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
    if len(text) > MAX_DIGITS:
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
