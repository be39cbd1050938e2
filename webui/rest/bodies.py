"""Parses and validates a request body strictly, in slices if it is long.

`read` is called by http.app, `parse` by the login. A megabyte of JSON takes 60 ms to parse and longer to
validate, so a long body is never parsed as a whole: `read` reads its top level, and parses and validates
the elements of its lists some at a time. Parsing stops at the first invalid element (of a file, after
`max_refused` of them), or when a list exceeds its maximum.

`parse` rejects: anything but UTF-8, duplicate keys, NaN and Infinity, numbers that a double cannot hold,
integers of more than 20 digits, and deep nesting. Python's scanner is native code and calls the hooks below.
"""

import json
import math
import re
from collections.abc import Iterator
from itertools import pairwise
from json.scanner import make_scanner
from typing import Any, Final, Never

from webui.schema import Invalid, Listing, Record, Schema
from webui.tables.slices import collect

MAX_DIGITS: Final = 20


class NotJson(ValueError):  # noqa: N818 - describes the input
    """Invalid JSON. The message is for the client; `reason` is the same without a subject."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the body is not valid JSON: {reason}")
        self.reason = reason


def parse(body: bytes) -> Any:
    """Parse a body in one piece; rest.bodies splits long ones. Raises NotJson."""
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except NotJson:
        raise
    except UnicodeDecodeError:
        raise NotJson("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise _wrong(error.msg, error.pos) from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None


def _wrong(words: str, at: int) -> NotJson:
    """Return the error for what Python's decoder says, such as "Expecting ',' delimiter"."""
    said = f"{words[0].lower()}{words[1:]}".replace("expecting ", "expected ").removesuffix(" at")
    return NotJson(f"{said} at character {at}")


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
    raise NotJson(f"{name} is not allowed")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_constant
)

AT_ONCE: Final = 4_096
"""Characters per slice with several elements: a quarter of a millisecond."""

ELEMENTS_AT_ONCE: Final = 128
"""Elements per slice: finding the end of even a short element takes a microsecond."""

MAX_SPACE: Final = 65_536
"""Maximum white space between two parts of a body, in characters: a quarter of a millisecond."""

LONGEST_PART: Final = 34_816
"""Maximum length of one list element, or of one field that is not a list, in characters: at most 4 ms. The
names of a quota entity have up to 3,072 characters, the value of a setting up to 32,767.
"""

MAX_BRACKETS: Final = 2_048
"""Maximum number of arrays and objects in one element; each takes longer to parse than a character."""

_USUAL_PART: Final = 1_024
_SPACE: Final = re.compile(rf"[ \t\n\r]{{0,{MAX_SPACE}}}")
_SPACES: Final = " \t\n\r"
_value_at: Final = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]  # as json.decoder does


async def read(body: bytes, schema: Schema) -> Any:
    """Parse and validate a body. Raises NotJson and Invalid."""
    if len(body) <= AT_ONCE or not isinstance(schema, Record):
        return schema.check(parse(body))
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise NotJson("it is not UTF-8") from None
    found: dict[str, Any] = {}
    await collect(Reader(text).fields(schema, found))
    return found


class Reader:
    """A reader of one body. Each of its generators yields after a bounded piece of work.

    `starts` has the position of each element read so far, by the name of its list. Elements that the schema
    refuses are left out, and `refused` has their positions; at most `max_refused`, then the next one raises.
    `element` is the position of the element that is being checked, None between lists.
    """

    __slots__ = ("_at", "_max_refused", "_text", "element", "refused", "starts")

    def __init__(self, text: str, max_refused: int = 0) -> None:
        self._text = text
        self._at = 0
        self._max_refused = max_refused
        self.starts: dict[str, list[int]] = {}
        self.refused: list[tuple[int, Invalid]] = []
        self.element: int | None = None

    @property
    def at(self) -> int:
        """The position, in characters, that was read to; of an error, that of the wrong part."""
        return self._at

    def fields(self, schema: Record, found: dict[str, Any]) -> Iterator[None]:
        """Parse the whole body into `found`. Raises NotJson and Invalid."""
        if self._next() != "{":
            schema.check(self._short_value())
            raise self._wrong("Expecting value")
        self._at += 1
        is_first = True
        while not self._ends("}", is_first):
            is_first = False
            name = self._name()
            schema.check_name(name)
            if name in found:
                raise NotJson("an object has the same key twice")
            field = schema.fields[name]
            if isinstance(field, Listing) and self._next() == "[":
                found[name] = []
                self.starts[name] = []
                yield from self._elements(field, f"/{name}", found[name], self.starts[name])
            else:
                found[name] = field.check(self._short_value(), f"/{name}")
                yield None
        if self._next():
            raise self._wrong("Extra data")
        schema.check_complete(found)

    def _elements(self, schema: Listing, where: str, found: list[Any], starts: list[int]) -> Iterator[None]:
        self._at += 1
        is_first, ended = True, False
        index = 0
        while not ended:
            begin = end = self._at
            here: list[int] = []
            while len(here) < ELEMENTS_AT_ONCE and self._at - begin < AT_ONCE:
                if ended := self._ends("]", is_first):
                    break
                is_first = False
                begin = begin if end > begin else self._at
                here.append(self._at)
                self._at = end = self._end_of_value()
            items = self._parsed(begin, end, here) if here else ()
            for start, item in zip(here, items, strict=True):
                if index == schema.max_items:
                    self.element = None
                    schema.check_length(index + 1, where)
                self.element = start
                try:
                    found.append(schema.items.check(item, f"{where}/{index}"))
                    starts.append(start)
                except Invalid as error:
                    if len(self.refused) == self._max_refused:
                        raise
                    self.refused.append((start, error))
                index += 1
                yield None
        self.element = None
        schema.check_length(index, where)

    def _parsed(self, begin: int, end: int, starts: list[int]) -> Any:
        """Return the elements in this part of the text, which begin at `starts`."""
        try:
            return parse(f"[{self._text[begin:end]}]".encode())
        except NotJson:
            for start, stop in pairwise([*starts, end]):
                self._at = start
                parse(f"[{self._text[start:stop].rstrip(_SPACES + ',')}]".encode())
            raise

    def _ends(self, closing: str, is_first: bool) -> bool:
        """Consume a comma, or `closing`."""
        found = self._next()
        if found == closing:
            self._at += 1
            return True
        if not is_first:
            if found != ",":
                raise self._wrong("Expecting ',' delimiter")
            self._at += 1
            self._next()
        return False

    def _name(self) -> str:
        if self._next() != '"':
            raise self._wrong("Expecting property name enclosed in double quotes")
        begin, self._at = self._at, self._end_of_value()
        name: str = parse(self._text[begin : self._at].encode())
        if self._next() != ":":
            raise self._wrong("Expecting ':' delimiter")
        self._at += 1
        return name

    def _short_value(self) -> Any:
        self._next()
        begin, self._at = self._at, self._end_of_value()
        return parse(self._text[begin : self._at].encode())

    def _end_of_value(self) -> int:
        """Raises NotJson if there is no value, or if it is too long."""
        begin = self._at
        for longest in (_USUAL_PART, LONGEST_PART):
            window = self._text[begin : begin + longest]
            if longest > _USUAL_PART:
                window = _before_too_many(window)
            try:
                _, length = _value_at(window, 0)
            except (StopIteration, ValueError):
                continue
            except RecursionError:
                raise NotJson("it is nested too deeply") from None
            return begin + int(length)
        raise self._wrong(f"Expecting value of at most {LONGEST_PART} characters")

    def _next(self) -> str:
        """Skip white space and return the next character, "" at the end. Raises NotJson for too much white
        space.
        """
        found = _SPACE.match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        following = self._text[self._at : self._at + 1]
        if following and following in _SPACES:
            raise self._wrong(f"Expecting at most {MAX_SPACE} characters of white space")
        return following

    def _wrong(self, words: str) -> NotJson:
        return _wrong(words, self._at)


def _before_too_many(window: str) -> str:
    """Cut the text to roughly MAX_BRACKETS arrays and objects."""
    while window.count("[") + window.count("{") > MAX_BRACKETS:
        window = window[: len(window) // 2]
    return window
