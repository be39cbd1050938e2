"""Quantities as people type them. tests/webui/browser/test_units.py has the same cases for the pages."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from broker.common.quantities import (
    Quantity,
    QuantityError,
    group,
    read,
    read_config,
    read_limit,
    read_limits,
    write_bytes,
    write_duration,
)

CASES: Final = json.loads((Path(__file__).parent / "quantities.json").read_text())


def result(kind: str, text: str) -> dict[str, Any]:
    try:
        return {"value": read_config(kind, text) if "." in kind else read(Quantity(kind), text)}
    except QuantityError as error:
        return {"error": str(error)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['quantity']}-{case['text'][:20]!a}")
def test_each_case_of_the_table(case: dict[str, Any]) -> None:
    found = result(case["quantity"], case["text"])
    assert {"quantity": case["quantity"], "text": case["text"], **found} == case
    assert type(found.get("value")) is type(case.get("value"))


def test_the_table_has_every_quantity_read_and_refused() -> None:
    seen = {(case["quantity"], "value" in case) for case in CASES}
    assert {(str(quantity), is_read) for quantity in Quantity for is_read in (True, False)} <= seen


@pytest.mark.parametrize("text", ["0", "0 MB", "0.0004 kB"])
def test_no_limit_is_zero(text: str) -> None:
    with pytest.raises(QuantityError, match="greater than 0"):
        read_limit("producer_byte_rate", text)
    assert read_limit("producer_byte_rate", "0.0005 kB") == 1


def test_texts_of_a_quota_file_become_numbers() -> None:
    entry = {"entity": {"user": "10 MB"}, "limits": {"producer_byte_rate": "10 MB", "request_percentage": 5}}
    assert read_limits(entry) == {
        "entity": {"user": "10 MB"},
        "limits": {"producer_byte_rate": 10_000_000, "request_percentage": 5},
    }
    for other in (None, [], "10 MB", {"limits": None}, {"limits": {"nonsense": "10 MB"}}):
        assert read_limits(other) is other
    with pytest.raises(QuantityError) as caught:
        read_limits({"limits": {"consumer_byte_rate": "1,5"}})
    assert caught.value.key == "consumer_byte_rate"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (1_001, "1.001 kB"),
        (1_024, "1 KiB"),
        (1_024_000, "1.024 MB"),
        (1_048_576, "1 MiB"),
        (1_572_864, "1.5 MiB"),
        (1_234_567, "1 234 567 B"),
        (604_800_000, "604.8 MB"),
        (2**63 - 1024, "9 223 372 036 854 774 784 B"),
    ],
)
def test_written_bytes_read_back_as_the_same(value: int, text: str) -> None:
    assert write_bytes(value) == text
    assert read(Quantity.SIZE, text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (1_001, "1 001 ms"),
        (90_000, "1.5 min"),
        (90_500, "90.5 s"),
        (5_400_000, "1.5 h"),
        (604_800_000, "7 d"),
        (86_400_000_000, "1 000 d"),
        (86_400_001, "86 400 001 ms"),
    ],
)
def test_written_durations_read_back_as_the_same(value: int, text: str) -> None:
    assert write_duration(value) == text
    assert read(Quantity.DURATION, text) == value


def test_digits_are_grouped_as_they_can_be_typed() -> None:
    assert [group(value) for value in (0, 999, 1_000, 1_234_567)] == ["0", "999", "1 000", "1 234 567"]
    assert read(Quantity.COUNT, group(1_234_567)) == 1_234_567
