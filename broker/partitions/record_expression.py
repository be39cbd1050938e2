"""Conditions on records as a person writes them, such as `$.total > 100 and not $.customer.country == "CH"`.

Parsed by webui.rest.records, evaluated by `record_reader`. Pure, and independent of logs.

    condition  = all {"or" all}          all = one {"and" one}
    one        = "not" one | "(" condition ")" | operand [operator operand]
    operator   = "==" | "!=" | "<" | "<=" | ">" | ">=" | "contains" | "startswith"
    operand    = path | "key" | "value" | "partition" | "offset" | "timestamp" | JSON string, number, true,
                 false or null
    path       = "$" {"." name | "[" number "]" | "[" JSON string "]" | "[*]"}

As in other languages, "=" is "==", "&&" is "and", "||" is "or" and "!" is "not". A string may be in single
quotes, and a word in capitals.

A path is one of the value as JSON. `[*]` is each element of an array or each value of an object: a comparison
holds if it holds for one of them. A path alone holds if there is something, also null. `<` and its like
compare two numbers or two strings, and hold for nothing else.
"""

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

MAX_LENGTH: Final = 1_024
"""Characters of a condition; ours."""

MAX_PARTS: Final = 64
"""Comparisons, negations and parentheses of a condition; ours."""

MAX_STEPS: Final = 32
"""Steps of a path; ours."""

MAX_VALUES: Final = 1_000
"""Values that one path finds in a record; ours."""

MAX_JSON: Final = 65_536
"""Bytes of a value that are parsed, in less than a millisecond; ours. A longer value has no JSON."""

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<path>\$(?:\.[A-Za-z_][\w-]*|\[(?:\d{1,9}|\*|"(?:[^"\\]|\\.)*")\])*)
      | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)
      | (?P<operator>==|!=|<=|>=|&&|\|\||<|>|=|!)
      | (?P<bracket>[()])
      | (?P<word>[A-Za-z]+)
    )""",
    re.VERBOSE,
)
_QUOTED_PART: Final = re.compile(r'\\.|"')
_STEP: Final = re.compile(r'\.([A-Za-z_][\w-]*)|\[(?:(\d+)|(\*)|("(?:[^"\\]|\\.)*"))\]')
_SAME: Final = {"=": "==", "&&": "and", "||": "or", "!": "not"}
_COMPARISONS: Final = "== != < <= > >= contains startswith"
_SPELLED: Final = frozenset({"and", "or", "not", "contains", "startswith"})
_WORDS: Final = {"true": True, "false": False, "null": None}
_FIELDS: Final = ("key", "value", "partition", "offset", "timestamp")
_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EVERY: Final = object()
_decode: Final = msgspec.json.Decoder().decode


class ConditionError(ValueError):
    """The text is no condition; says what is wrong, and where."""


class Sought(msgspec.Struct):
    """A record as conditions see it. `key` and `value` are None for null, and where they are longer than
    MAX_JSON.
    """

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    _json: Any = msgspec.UNSET

    def field(self, name: str) -> Any:
        found = getattr(self, name)
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else found

    def values(self, path: tuple[Any, ...]) -> list[Any]:
        """Return what a path finds in the value."""
        if self._json is msgspec.UNSET:
            try:
                self._json = (_decode(self.value or b""),)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._json = ()
        found = list(self._json)
        for step in path:
            found = [each for value in found for each in _stepped(value, step)][:MAX_VALUES]
        return found


def _stepped(value: Any, step: Any) -> Iterator[Any]:
    if step is _EVERY:
        if isinstance(value, list | dict):
            yield from value.values() if isinstance(value, dict) else value
    elif isinstance(step, int):
        if isinstance(value, list) and step < len(value):
            yield value[step]
    elif isinstance(value, dict) and step in value:
        yield value[step]


Holds = Callable[[Sought], bool]
_Values = Callable[[Sought], list[Any]]


class Condition:
    """`text` is what was parsed."""

    __slots__ = ("holds", "text")

    def __init__(self, text: str) -> None:
        """Raises ConditionError."""
        self.text = text
        self.holds: Holds = _Parser(text).whole()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise ConditionError(f"has more than {MAX_LENGTH} characters")
        self._text = text
        self._parts = 0
        self._end = self._at = 0
        self._kind: str | None = None
        self._token = ""
        self._next()

    def whole(self) -> Holds:
        found = self._condition()
        if self._kind == "word":
            raise ConditionError(
                f"has an unknown word {self._token[:40]} at character {self._at + 1}:"
                f" compare with {_COMPARISONS}, combine with and, or"
            )
        if self._kind is not None:
            raise self._unexpected()
        return found

    def _next(self) -> None:
        rest = self._text[self._end :]
        if not rest.strip():
            self._kind, self._token, self._at = None, "", len(self._text)
            return
        found = _TOKEN.match(rest)
        if found is None or found.lastgroup is None:
            at = self._end + len(rest) - len(rest.lstrip())
            raise ConditionError(f"is not understood from character {at + 1} on")
        self._kind, self._token = found.lastgroup, found[found.lastgroup]
        if self._kind == "operator":
            self._token = _SAME.get(self._token, self._token)
        elif self._kind == "word" and self._token.lower() in _SPELLED:
            self._token = self._token.lower()
        self._at = self._end + found.start(found.lastgroup)
        self._end += found.end()

    def _unexpected(self) -> ConditionError:
        if self._kind is None:
            return ConditionError("ends too early")
        return ConditionError(f"has an unexpected {self._token[:40]} at character {self._at + 1}")

    def _takes(self, *tokens: str) -> str | None:
        token = self._token
        if self._kind in ("word", "operator", "bracket") and token in tokens:
            self._next()
            return token
        return None

    def _counted(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise ConditionError(f"has more than {MAX_PARTS} parts")

    def _condition(self) -> Holds:
        parts = [self._all()]
        while self._takes("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else lambda record: any(each(record) for each in parts)

    def _all(self) -> Holds:
        parts = [self._one()]
        while self._takes("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda record: all(each(record) for each in parts)

    def _one(self) -> Holds:
        self._counted()
        if self._takes("not"):
            inner = self._one()
            return lambda record: not inner(record)
        if self._takes("("):
            inner = self._condition()
            if not self._takes(")"):
                raise self._unexpected()
            return inner
        is_path = self._kind == "path"
        left = self._operand()
        symbol = self._takes("==", "!=", *_ORDERS, "contains", "startswith")
        if symbol is None:
            if not is_path:
                raise ConditionError('compares nothing: write a comparison, such as key == "a"')
            return lambda record: bool(left(record))
        right = self._operand()
        compare = _comparison(symbol)
        return lambda record: any(compare(one, other) for one in left(record) for other in right(record))

    def _operand(self) -> _Values:
        kind, token = self._kind, self._token
        if kind == "path":
            path = _path(token)
            self._next()
            return lambda record: record.values(path)
        if kind in ("string", "number"):
            try:
                constant = [_decode(_in_double_quotes(token))]
            except msgspec.DecodeError:
                raise ConditionError(
                    f"has the wrong {kind} {token[:40]} at character {self._at + 1}"
                ) from None
        elif kind == "word" and token in _FIELDS:
            self._next()
            return lambda record: [record.field(token)]
        elif kind == "word" and token in _WORDS:
            constant = [_WORDS[token]]
        elif kind == "word":
            word = token[:40]
            raise ConditionError(
                f"has an unknown word {word} at character {self._at + 1}: write $.{word} for a field of the"
                f' value\'s JSON, or "{word}" for a text'
            )
        else:
            raise self._unexpected()
        self._next()
        return lambda _record: constant


def _in_double_quotes(token: str) -> str:
    """Return a string in single quotes as JSON has it, and anything else as it is."""
    if token[0] != "'":
        return token
    same = {'"': '\\"', "\\'": "'"}
    text = _QUOTED_PART.sub(lambda found: same.get(found[0], found[0]), token[1:-1])
    return f'"{text}"'


def _path(token: str) -> tuple[Any, ...]:
    steps: list[Any] = []
    for name, number, every, quoted in _STEP.findall(token):
        steps.append(name or (int(number) if number else _EVERY if every else _quoted(quoted)))
    if len(steps) > MAX_STEPS:
        raise ConditionError(f"has a path of more than {MAX_STEPS} steps")
    return tuple(steps)


def _quoted(text: str) -> str:
    try:
        return str(_decode(text))
    except msgspec.DecodeError:
        raise ConditionError(f"has the wrong string {text[:40]}") from None


def _comparison(symbol: str) -> Callable[[Any, Any], bool]:
    if symbol == "==":
        return _equal
    if symbol == "!=":
        return lambda one, other: not _equal(one, other)
    if symbol == "contains":
        return _contains
    if symbol == "startswith":
        return lambda one, other: isinstance(one, str) and isinstance(other, str) and one.startswith(other)
    order = _ORDERS[symbol]
    return lambda one, other: _are_ordered(one, other) and order(one, other)


def _equal(one: Any, other: Any) -> bool:
    """As JSON compares: true is not 1."""
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _contains(one: Any, other: Any) -> bool:
    if isinstance(one, str):
        return isinstance(other, str) and other in one
    return isinstance(one, list) and any(_equal(each, other) for each in one)


def _are_ordered(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str)
    numbers = (int, float)
    return (
        isinstance(one, numbers)
        and isinstance(other, numbers)
        and not isinstance(one, bool)
        and not isinstance(other, bool)
    )
