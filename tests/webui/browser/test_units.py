"""Formatted values, and parsed input, by the pages' own script."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.webui.browser.conftest import ServedConsole
from tests.webui.fakes import FakeBroker
from webui.pages import StaticFiles

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def call(browser: Any) -> Iterator[Call]:
    """Calls a function of units.js; one page does for all of them."""
    module = StaticFiles().address("js/units.js")
    script = "async ([module, name, given]) => (await import(module))[name](...given)"
    with ServedConsole(FakeBroker()) as served:
        page = browser.new_page()
        page.goto(served.pages + "/")
        yield lambda name, *given: page.evaluate(script, [module, name, list(given)])
        page.close()


def test_sizes_have_three_digits_and_the_family_in_which_they_are_round(call: Call) -> None:
    output = [
        call("bytes", value, binary)
        for value, binary in (
            (0, False), (999, False), (1_000, False), (1_049_000, False), (31_460_000, False),
            (999_500, False), (123_456_789_000, False), (1_048_576, True), (1_536, True), (1023, True),
        )
    ]  # fmt: skip
    assert output == [
        "0 B", "999 B", "1 kB", "1.05 MB", "31.5 MB", "1 MB", "123 GB", "1 MiB", "1.5 KiB", "1\u202f023 B",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "binary"),
    [(1_048_576, True), (1_000_000, False), (1_024, True), (1_024_000, False), (1_023, False)],
)
def test_a_limit_is_binary_where_that_is_rounder(call: Call, value: int, binary: bool) -> None:
    assert call("isBinary", value) is binary


def test_typed_limits_are_read(call: Call) -> None:
    typed = {
        "10 MB": 10_000_000,
        "10mb/s": 10_000_000,
        "1.5MiB": 1_572_864,
        "1,5 MiB/s": 1_572_864,
        "1048576": 1_048_576,
        "1 048 576": 1_048_576,
        "1k": 1_000,
        "1Ki": 1_024,
        "2 GBps": 2_000_000_000,
        ".5 kB": 500,
        "": None,
        "  ": None,
    }
    assert {text: call("readLimit", "producer_byte_rate", text).get("value") for text in typed} == typed


def test_invalid_input_is_reported(call: Call) -> None:
    for text in (
        "0",
        "0 MB",
        "-1",
        "1e6",
        "ten",
        "1 MX",
        "NaN",
        "Infinity",
        "1 MB MB",
        "9300 PB",
        "99999999 TB",
        "%",
    ):
        answer = call("readLimit", "producer_byte_rate", text)
        assert "error" in answer and "value" not in answer, text


def test_percentages_and_counts_are_read_in_their_own_units(call: Call) -> None:
    assert call("readLimit", "request_percentage", "12.5 %") == {"value": 12.5}
    assert call("readLimit", "controller_mutation_rate", "5/s") == {"value": 5}
    assert "error" in call("readLimit", "controller_mutation_rate", "5 MB")
    assert "error" in call("readLimit", "producer_byte_rate", "5 %")


@pytest.mark.parametrize(
    "value", [1, 999, 1_000, 1_024, 1_048_576, 10_000_000, 1_234_567, 12_345_678_901, 1_500_000]
)
def test_written_limits_are_read_back_as_the_same(call: Call, value: int) -> None:
    text = call("writeLimit", "producer_byte_rate", value)
    assert call("readLimit", "producer_byte_rate", text) == {"value": value}


def test_a_rate_is_shown_in_the_unit_of_its_limit(call: Call) -> None:
    assert call("rate", "producer_byte_rate", 1_500_000, 1_048_576) == "1.43 MiB/s"
    assert call("rate", "producer_byte_rate", 1_500_000, 1_000_000) == "1.5 MB/s"
    assert call("rate", "request_percentage", 12.345) == "12.3 %"
    assert call("rawRate", "producer_byte_rate", 1_048_576) == "1\u202f048\u202f576 bytes/s"


def test_durations_have_two_parts_at_most(call: Call) -> None:
    output = [
        call("duration", ms) for ms in (0, 59_999, 60_000, 3_600_000, 5_400_000, 86_400_000, 100_000_000)
    ]
    assert output == ["0 s", "59 s", "1 min", "1 h 0 min", "1 h 30 min", "1 d 0 h", "1 d 3 h"]
