"""Schemas that both check and describe."""

from typing import Any

import pytest

from webui.schema import Flag, Invalid, Listing, Names, Number, OneOf, Record, Schema, Text

SHAPE = Record(
    {"name": Text(max_length=3), "rate": Number(exclusive_minimum=0)}, optional=frozenset({"rate"})
)


def refusal(schema: Schema, value: object) -> str:
    with pytest.raises(Invalid) as caught:
        schema.check(value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("schema", "good"),
    [
        (Text(max_length=3), ["", "abc", "\u2028", "😀"]),
        (Text(nullable=True), [None, "x"]),
        (Text(choices=("a", "b")), ["a", "b"]),
        (Number(), [0, -1, 1.5, 1e308]),
        (Number(integer=True, minimum=0, maximum=3), [0, 3, 3.0]),
        (Number(exclusive_minimum=0, exclusive_maximum=2**63), [1e-9, 2**63 - 1025]),
        (Number(nullable=True), [None]),
        (Flag(), [True, False]),
        (Flag(only=True), [True]),
        (Listing(Text(), min_items=1, max_items=2), [["a"], ["a", "b"]]),
        (SHAPE, [{"name": "abc"}, {"name": "", "rate": 0.5}]),
        (Names(Text(max_length=1)), [{}, {"any name": "a", "\u2028": ""}]),
    ],
)
def test_valid_values_are_returned(schema: Schema, good: list[Any]) -> None:
    assert [schema.check(value) for value in good] == good


@pytest.mark.parametrize(
    ("schema", "bad"),
    [
        (Text(max_length=3), ["abcd", 1, None, True, ["a"], "\ud800"]),
        (Text(min_length=1), [""]),
        (Text(choices=("a",)), ["A", "", None]),
        (Number(), ["1", None, True, False, float("nan"), float("inf"), -float("inf"), [1], {}]),
        (Number(integer=True, minimum=0, maximum=3), [-1, 4, 1.5]),
        (Number(exclusive_minimum=0, exclusive_maximum=2**63), [0, 0.0, -1, 2**63, 2**64]),
        (Flag(), [0, 1, "true", None]),
        (Flag(only=True), [False, 1]),
        (Listing(Text(), min_items=1, max_items=2), [[], ["a", "b", "c"], "ab", {"0": "a"}, [1]]),
        (SHAPE, [{}, {"rate": 1}, {"name": "a", "colour": "b"}, [], None, "name"]),
        (Names(Text(max_length=1)), [{"a": "ab"}, {"\ud800": "a"}, [], None, "name"]),
    ],
)
def test_invalid_values_are_refused(schema: Schema, bad: list[Any]) -> None:
    for value in bad:
        with pytest.raises(Invalid):
            schema.check(value)


def test_an_integer_is_given_back_as_one() -> None:
    assert repr(Number(integer=True).check(3.0)) == "3"


def test_a_refusal_says_where() -> None:
    schema = Record({"entries": Listing(SHAPE)})
    assert refusal(schema, {"entries": [{"name": "a"}, {"name": 7}]}) == "/entries/1/name: must be a string"
    assert refusal(schema, {"entries": [{}]}) == "/entries/0/name: is missing"
    assert refusal(schema, {"a/b~c": 1}) == "/a~1b~0c: unknown field; allowed: entries"
    assert refusal(schema, 1) == "/: must be an object"


def test_a_refusal_does_not_repeat_a_megabyte() -> None:
    assert len(refusal(SHAPE, {"x" * 1_000_000: 1})) < 200


def test_one_of_goes_by_which_fields_are_there() -> None:
    schema = OneOf(
        (Record({"key": Text(), "value": Number()}), Record({"key": Text(), "remove": Flag(only=True)}))
    )
    assert schema.check({"key": "a", "value": 1}) == {"key": "a", "value": 1}
    assert schema.check({"key": "a", "remove": True}) == {"key": "a", "remove": True}
    assert refusal(schema, {"key": "a"}) == "/: must be {key, value} or {key, remove}"
    assert refusal(schema, {"key": "a", "value": 1, "remove": True}).startswith("/: must be")
    assert refusal(schema, {"key": "a", "value": "1"}) == "/value: must be a number"


def test_an_alternative_may_have_optional_fields() -> None:
    value = Record({"key": Text(), "value": Number(), "until": Text()}, optional=frozenset({"until"}))
    schema = OneOf((value, Record({"key": Text(), "remove": Flag(only=True)})))
    for given in ({"key": "a", "value": 1}, {"key": "a", "value": 1, "until": "b"}):
        assert schema.check(given) == given
    expected = "/: must be {key, value, until?} or {key, remove}"
    assert refusal(schema, {"key": "a", "until": "b"}) == expected
    assert refusal(schema, {"key": "a", "remove": True, "until": "b"}) == expected


def test_at_least_so_many_fields() -> None:
    schema = Record(
        {"user": Text(), "client-id": Text()}, optional=frozenset({"user", "client-id"}), min_properties=1
    )
    assert schema.check({"user": "a"}) == {"user": "a"}
    assert refusal(schema, {}) == "/: must have at least 1 of user, client-id"


def test_schemas_describe_themselves_as_json_schema() -> None:
    assert SHAPE.describe() == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 3},
            "rate": {"type": "number", "exclusiveMinimum": 0},
        },
        "additionalProperties": False,
        "required": ["name"],
    }
    assert Text(choices=("a",), nullable=True).describe() == {"type": ["string", "null"], "enum": ["a", None]}
    assert Listing(Number(integer=True, minimum=1, maximum=2), min_items=1, max_items=5).describe() == {
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": 2},
        "minItems": 1,
        "maxItems": 5,
    }
    assert Flag(only=True).describe() == {"type": "boolean", "const": True}
