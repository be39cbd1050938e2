"""Schemas that validate REST input and describe it in the OpenAPI document.

Used by webui.rest for bodies, query parameters and the document, and by the tests to validate responses.
A subset of JSON Schema 2020-12: closed objects, arrays, strings, numbers, booleans, alternatives.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec


class Invalid(ValueError):  # noqa: N818 - describes the input
    """Invalid input. `where` is a JSON pointer into the body, or the name of a query parameter."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where or '/'}: {message}")
        self.where = where
        self.message = message


class Schema(Protocol):
    def check(self, value: object, where: str = "") -> Any:
        """Return the value; raises Invalid."""

    def describe(self) -> dict[str, Any]:
        """Return the JSON Schema."""


class Text(msgspec.Struct, frozen=True):
    """A string of Unicode scalar values; lengths are in characters."""

    max_length: int = 1024
    min_length: int = 0
    choices: tuple[str, ...] = ()
    nullable: bool = False
    form: str | None = None

    def check(self, value: object, where: str = "") -> str | None:
        if value is None and self.nullable:
            return None
        if not isinstance(value, str):
            raise Invalid(where, "must be a string" + (" or null" if self.nullable else ""))
        if self.choices and value not in self.choices:
            raise Invalid(where, f"must be one of {', '.join(self.choices)}")
        if not self.min_length <= len(value) <= self.max_length:
            raise Invalid(where, f"must have {self.min_length} to {self.max_length} characters")
        _check_characters(value, where)
        return value

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"type": ["string", "null"] if self.nullable else "string"}
        if self.choices:
            described["enum"] = [*self.choices, *([None] if self.nullable else [])]
            return described
        if self.form:
            described["format"] = self.form
        if self.min_length:
            described["minLength"] = self.min_length
        return described | {"maxLength": self.max_length}


class Number(msgspec.Struct, frozen=True):
    """A finite number. The terms are those of JSON Schema."""

    integer: bool = False
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: float | None = None
    exclusive_maximum: float | None = None
    nullable: bool = False

    def check(self, value: object, where: str = "") -> float | None:
        if value is None and self.nullable:
            return None
        # bool is a subclass of int in Python, but not a number in JSON.
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Invalid(where, "must be a number" + (" or null" if self.nullable else ""))
        if not math.isfinite(value) or (self.integer and value != int(value)):
            raise Invalid(where, "must be an integer" if self.integer else "must be a finite number")
        if self.minimum is not None and value < self.minimum:
            raise Invalid(where, f"must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise Invalid(where, f"must be at most {self.maximum}")
        if self.exclusive_minimum is not None and value <= self.exclusive_minimum:
            raise Invalid(where, f"must be greater than {self.exclusive_minimum}")
        if self.exclusive_maximum is not None and value >= self.exclusive_maximum:
            raise Invalid(where, f"must be less than {self.exclusive_maximum}")
        return int(value) if self.integer else value

    def describe(self) -> dict[str, Any]:
        kind = "integer" if self.integer else "number"
        limits = {
            "minimum": self.minimum,
            "maximum": self.maximum,
            "exclusiveMinimum": self.exclusive_minimum,
            "exclusiveMaximum": self.exclusive_maximum,
        }
        return {"type": [kind, "null"] if self.nullable else kind} | {
            name: limit for name, limit in limits.items() if limit is not None
        }


class Flag(msgspec.Struct, frozen=True):
    only: bool | None = None
    nullable: bool = False

    def check(self, value: object, where: str = "") -> bool | None:
        if value is None and self.nullable:
            return None
        if not isinstance(value, bool):
            raise Invalid(where, "must be true or false")
        if self.only is not None and value is not self.only:
            raise Invalid(where, f"must be {str(self.only).lower()}")
        return value

    def describe(self) -> dict[str, Any]:
        if self.only is not None:
            return {"type": "boolean", "const": self.only}
        return {"type": ["boolean", "null"] if self.nullable else "boolean"}


class Listing(msgspec.Struct, frozen=True):
    """An array. `typed` reads an element of a YAML file, which people write: it returns what JSON has."""

    items: Schema
    min_items: int = 0
    max_items: int = 10_000
    typed: Callable[[Any, str], Any] | None = None

    def check(self, value: object, where: str = "") -> list[Any]:
        if not isinstance(value, list):
            raise Invalid(where, "must be an array")
        self.check_length(len(value), where)
        return [self.items.check(item, f"{where}/{index}") for index, item in enumerate(value)]

    def check_length(self, length: int, where: str) -> None:
        """Raises Invalid."""
        if not self.min_items <= length <= self.max_items:
            raise Invalid(where, f"must have {self.min_items} to {self.max_items} elements")

    def describe(self) -> dict[str, Any]:
        return {
            "type": "array",
            "items": self.items.describe(),
            "minItems": self.min_items,
            "maxItems": self.max_items,
        }


class Record(msgspec.Struct, frozen=True):
    """A closed object. All fields are required except `optional` ones; at least `min_properties` must be
    present. One with a `title` is a component of the OpenAPI document, so that generated clients have a class
    of this name.
    """

    fields: Mapping[str, Schema]
    optional: frozenset[str] = msgspec.field(default_factory=frozenset)
    min_properties: int = 0
    title: str = ""

    def check(self, value: object, where: str = "") -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Invalid(where, "must be an object")
        for name in value:
            self.check_name(name, where)
        self.check_complete(value, where)
        return {name: self.fields[name].check(item, f"{where}/{name}") for name, item in value.items()}

    def check_name(self, name: object, where: str = "") -> None:
        """Raises Invalid for an unknown field."""
        if name not in self.fields:
            raise Invalid(f"{where}/{_pointer(name)}", f"unknown field; allowed: {', '.join(self.fields)}")

    def check_complete(self, value: Mapping[str, object], where: str = "") -> None:
        """Raises Invalid for a missing field, or for too few fields."""
        for name in self.fields:
            if name not in value and name not in self.optional:
                raise Invalid(f"{where}/{_pointer(name)}", "is missing")
        if len(value) < self.min_properties:
            raise Invalid(where, f"must have at least {self.min_properties} of {', '.join(self.fields)}")

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {
            "type": "object",
            "properties": {name: schema.describe() for name, schema in self.fields.items()},
            "additionalProperties": False,
        }
        if required := [name for name in self.fields if name not in self.optional]:
            described["required"] = required
        if self.min_properties:
            described["minProperties"] = self.min_properties
        return described | ({"title": self.title} if self.title else {})


class Names(msgspec.Struct, frozen=True):
    """An open object: any names, with values of one schema."""

    values: Schema

    def check(self, value: object, where: str = "") -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Invalid(where, "must be an object")
        for name in value:
            _check_characters(name, where)
        return {name: self.values.check(item, f"{where}/{_pointer(name)}") for name, item in value.items()}

    def describe(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.values.describe()}


class OneOf(msgspec.Struct, frozen=True):
    """Alternative records with different required fields; the first one that has the fields applies."""

    options: tuple[Record, ...]

    def check(self, value: object, where: str = "") -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Invalid(where, "must be an object")
        for option in self.options:
            if option.fields.keys() - option.optional <= value.keys() <= option.fields.keys():
                return option.check(value, where)
        shapes = " or ".join(
            "{" + ", ".join(name + "?" * (name in option.optional) for name in option.fields) + "}"
            for option in self.options
        )
        raise Invalid(where, f"must be {shapes}")

    def describe(self) -> dict[str, Any]:
        return {"oneOf": [option.describe() for option in self.options]}


class Maybe(msgspec.Struct, frozen=True):
    """A value or null."""

    schema: Schema

    def check(self, value: object, where: str = "") -> Any:
        return None if value is None else self.schema.check(value, where)

    def describe(self) -> dict[str, Any]:
        return {"anyOf": [self.schema.describe(), {"type": "null"}]}


def _check_characters(text: str, where: str) -> None:
    """Raises Invalid for what no message can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid(where, "must not hold a lone surrogate") from None


def _pointer(name: object) -> str:
    """Escape a key for a JSON pointer; truncated, so that an error does not echo a megabyte."""
    return str(name)[:80].replace("~", "~0").replace("/", "~1")


NAME: Final = Text(max_length=32_767)

TIME: Final = Text(form="date-time")

COUNT: Final = Number(integer=True, minimum=0)


MAYBE: Final = Number(nullable=True)
