"""Conditions on records: what they find, what is wrong with others, and their bounds."""

import re

import pytest

from broker.partitions.record_expression import (
    MAX_JSON,
    MAX_LENGTH,
    MAX_PARTS,
    MAX_STEPS,
    Condition,
    ConditionError,
    Sought,
)

ORDER = b"""{"id": 7, "total": 120.5, "paid": true, "note": null,
    "customer": {"country": "CH", "e-mail": "a@b"},
    "items": [{"sku": "x", "n": 1}, {"sku": "y", "n": 20}], "tags": ["new", "big"], "odd key": 1}"""


def sought(value: bytes | None = ORDER, key: bytes | None = b"alice") -> Sought:
    return Sought(3, 41, 1_700_000_000_000, key, value)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("$.total > 100", True),
        ("$.total >= 120.5", True),
        ("$.total > 120.5", False),
        ("$.total < 120.5", False),
        ("$.total <= 120.5", True),
        ("$.id == 7", True),
        ("$.id == 7.0", True),
        ("$.id != 7", False),
        ('$.id == "7"', False),
        ("$.paid == true", True),
        ("$.paid == 1", False),
        ("$.id == true", False),
        ("$.note", True),
        ("$.note == null", True),
        ("$.missing", False),
        ("$.missing == null", False),
        ("not $.missing", True),
        ('$.customer.country == "CH"', True),
        ('$.customer.e-mail contains "@"', True),
        ('$["odd key"] == 1', True),
        ("$.items[1].n == 20", True),
        ("$.items[2].n", False),
        ("$.items[*].n > 10", True),
        ("$.items[*].n > 20", False),
        ('$.tags contains "big"', True),
        ('$.tags[*] startswith "b"', True),
        ('$.tags contains "bi"', False),
        ('$.customer[*] == "CH"', True),
        ('key == "alice"', True),
        ('key startswith "al" and partition == 3 and offset < 42', True),
        ("timestamp > 1700000000000", False),
        ('value contains "total"', True),
        ("$.id == 7 and ($.paid == false or $.total > 100)", True),
        ("$.id == 8 or $.id == 9 and $.paid == true", False),
        ("not not $.id == 7", True),
        ('$.id < "8"', False),
        ("$.note < 1", False),
        ("$.paid < 2", False),
        ("100 < $.total", True),
        ("$.id = 7", True),
        ("$.id = 8", False),
        ("$.id == 7 && $.paid == true", True),
        ("$.id == 8 || $.paid == true", True),
        ("!($.id == 8) && !$.missing", True),
        ("!$.id", False),
        ("$.customer.country == 'CH'", True),
        ("$.id == 7 AND NOT $.total < 100 OR $.missing", True),
        ("key STARTSWITH 'al'", True),
        (r"""'it\'s "a" \\ b' == "it's \"a\" \\ b" """, True),
        ("'' == \"\"", True),
    ],
)
def test_a_condition_holds_or_not(text: str, holds: bool) -> None:
    assert Condition(text).holds(sought()) is holds


@pytest.mark.parametrize("value", [None, b"", b"no JSON", b"\xff", b"[" * 5_000, b"12", b'"text"'])
def test_a_path_finds_nothing_in_what_is_no_json_object(value: bytes | None) -> None:
    assert not Condition("$.id").holds(sought(value))
    assert not Condition("$.id == 7 or $.id != 7").holds(sought(value))
    assert Condition("not $.id").holds(sought(value))


def test_null_is_a_key_and_a_value() -> None:
    assert Condition("key == null and value == null").holds(sought(None, None))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "ends too early"),
        ("$.a ==", "ends too early"),
        ("($.a", "ends too early"),
        ("$.a)", "unexpected ) at character 4"),
        ("$.a == nothing", "unknown word nothing at character 8: write $.nothing for a field of the value"),
        ("total > 5", "unknown word total at character 1: write $.total for a field"),
        ('$.a like "x"', "unknown word like at character 5: compare with == != < <= > >= contains"),
        ("$.a ~ 1", "not understood from character 5 on"),
        ("$.a == 'x", "not understood from character 8 on"),
        ("$.a == 'x\"", "not understood from character 8 on"),
        ("key", "compares nothing"),
        ("$.a $.b", "unexpected $.b at character 5"),
        ('$.a == "\\x"', "wrong string"),
        ("$..a", "not understood from character 2 on"),
    ],
)
def test_what_is_wrong_is_said(text: str, words: str) -> None:
    with pytest.raises(ConditionError, match=re.escape(words)):
        Condition(text)


@pytest.mark.parametrize(("over", "refused"), [(-1, False), (0, False), (1, True)])
def test_length_parts_and_steps_have_a_limit(over: int, refused: bool) -> None:
    long = "$.a == " + '"' + "x" * (MAX_LENGTH - 9 + over) + '"'
    assert len(long) == MAX_LENGTH + over
    for text in (long, " or ".join(["$.a"] * (MAX_PARTS + over)), "$" + "[0]" * (MAX_STEPS + over)):
        if refused:
            with pytest.raises(ConditionError, match="more than"):
                Condition(text)
        else:
            Condition(text)


def test_conditions_are_equal_by_their_text() -> None:
    assert Condition("$.a") == Condition("$.a") != Condition("$.b")
    assert MAX_JSON == 65_536
