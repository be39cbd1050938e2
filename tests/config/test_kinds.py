"""Allowed values of each kind: each bound just below, at and just above."""

import sys

import pytest

from broker.config.kinds import (
    BOOLEAN,
    INT_MAX,
    LONG_MAX,
    ConfigKind,
    choices_of,
    decimal,
    integer,
    java_double,
    list_of,
    long,
    one_of,
)


@pytest.mark.parametrize(
    ("kind", "low", "high"), [(integer(14), 14, INT_MAX), (long(-1), -1, LONG_MAX), (integer(1, 64), 1, 64)]
)
def test_whole_numbers_hold_their_bounds(kind: ConfigKind, low: int, high: int) -> None:
    assert [kind.read(str(each)) for each in (low, low + 1, high - 1, high)] == [low, low + 1, high - 1, high]
    for outside in (low - 1, high + 1):
        with pytest.raises(ValueError):
            kind.read(str(outside))


@pytest.mark.parametrize(
    "text", ["", "1_000", "1.0", "+1", "0x10", "1e3", "٣", "1 000", "nan", "--1", "9" * 400]
)
def test_only_decimal_digits_are_a_whole_number(text: str) -> None:
    with pytest.raises(ValueError):
        integer(0).read(text)


def test_decimals_hold_their_bounds_and_take_no_infinities() -> None:
    kind = decimal(0.5, 2.0)
    assert [kind.read(text) for text in ("0.5", "1", "2.0", "5e-1")] == [0.5, 1.0, 2.0, 0.5]
    for text in ("0.49", "2.01", "nan", "inf", "1e999", "1,0", ""):
        with pytest.raises(ValueError):
            kind.read(text)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("FALSE", False), ("True", True)])
def test_booleans_ignore_case(text: str, value: bool) -> None:
    assert BOOLEAN.read(text) is value


@pytest.mark.parametrize("text", ["", "yes", "1", "t"])
def test_other_words_are_no_booleans(text: str) -> None:
    with pytest.raises(ValueError):
        BOOLEAN.read(text)


def test_a_choice_is_exact() -> None:
    kind = one_of("CreateTime", "LogAppendTime")
    assert kind.read("CreateTime") == "CreateTime"
    with pytest.raises(ValueError):
        kind.read("createtime")


def test_lists_are_trimmed_in_order_and_without_duplicates() -> None:
    kind = list_of(str, "a list")
    assert kind.read("b , a,b") == ("b", "a")
    assert kind.read("") == ()
    assert kind.write(("b", "a")) == "b,a"


@pytest.mark.parametrize("text", [",", "a,", "a,,b", " ,a"])
def test_a_list_has_no_empty_items(text: str) -> None:
    with pytest.raises(ValueError):
        list_of(str, "a list").read(text)


def test_a_list_of_choices_needs_one() -> None:
    kind = choices_of("delete", "compact")
    assert kind.read("compact,delete") == ("compact", "delete")
    for text in ("", "delete,purge"):
        with pytest.raises(ValueError):
            kind.read(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (0.5, "0.5"),
        (0.001, "0.001"),
        (0.000999, "9.99E-4"),
        (9_999_999.0, "9999999.0"),
        (10_000_000.0, "1.0E7"),
        (-12_345_678.5, "-1.23456785E7"),
        (sys.float_info.max, "1.7976931348623157E308"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text
    assert float(text) == value
