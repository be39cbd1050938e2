"""Formatted values, and parsed input, by the pages' own script."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.common.test_quantities import CASES
from tests.webui.browser.conftest import ServedConsole
from tests.webui.fakes import FakeBroker
from webui.pages import StaticFiles

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def call(browser: Any) -> Iterator[Call]:
    """Calls a function of a script of the pages; one page does for all of them."""
    script = "async ([module, name, given]) => (await import(module))[name](...given)"
    files = StaticFiles()
    with ServedConsole(FakeBroker()) as served:
        page = browser.new_page()
        page.goto(served.pages + "/")
        yield lambda name, *given, of="js/units.js": page.evaluate(
            script, [files.address(of), name, list(given)]
        )
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


def test_the_script_reads_as_the_command_line_does(call: Call) -> None:
    """The table is that of tests/common/test_quantities.py."""
    different = {}
    for case in CASES:
        name = "readConfig" if "." in case["quantity"] else "readQuantity"
        found = call(name, case["quantity"], case["text"], of="js/quantities.js")
        wanted = {key: case[key] for key in ("value", "error") if key in case}
        for each in (found, wanted):
            if isinstance(each.get("value"), int):
                each["value"] = float(each["value"])  # a script's number is a double
        if found != wanted:
            different[case["text"]] = found
    assert not different


def test_no_limit_is_an_empty_field_and_zero_is_refused(call: Call) -> None:
    assert [call("readLimit", "producer_byte_rate", text) for text in ("", "  ")] == [{"value": None}] * 2
    error = {"error": "Enter a value greater than 0, or leave the field empty for no limit."}
    assert [call("readLimit", "producer_byte_rate", text) for text in ("0", "0 MB", "0.0004 kB")] == [
        error
    ] * 3
    assert call("readLimit", "producer_byte_rate", "0.0005 kB") == {"value": 1}


def test_a_comma_is_refused_with_both_readings(call: Call) -> None:
    assert call("readLimit", "producer_byte_rate", "10,000 kB") == {
        "error": "10,000 may mean 10000 or 10; write 10000 or 10."
    }
    assert call("readWhole", "1,000") == {"error": "1,000 may mean 1000 or 1; write 1000 or 1."}
    assert call("readDuration", "1,5 h") == {"error": "1,5 may mean 15 or 1.5; write 15 or 1.5."}


@pytest.mark.parametrize("text", ["0", "1.5", "ten", "-1"])
def test_whole_numbers_have_a_least(call: Call, text: str) -> None:
    assert call("readWhole", text) == {"error": "Enter a whole number of at least 1."}
    assert [call("readWhole", given) for given in ("1", "1 000", "")] == [
        {"value": 1}, {"value": 1000}, {"value": None},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"), (999, "999 ms"), (1_000, "1 s"), (90_000, "1.5 min"), (90_500, "90.5 s"),
        (1_001, "1\u202f001 ms"), (300_000, "5 min"), (3_600_000, "1 h"), (5_400_000, "1.5 h"),
        (604_800_000, "7 d"), (86_400_000_000, "1\u202f000 d"),
    ],
)  # fmt: skip
def test_shown_durations_are_read_back_as_the_same(call: Call, ms: int, text: str) -> None:
    assert call("everyText", ms) == text
    assert call("readDuration", text) == {"value": ms}


def test_what_the_pages_show_of_a_limit_is_read_back(call: Call) -> None:
    for value in (1, 999, 1_000, 1_048_576, 10_000_000, 5 * 10**15, 3 * 2**50):
        shown = call("rate", "producer_byte_rate", value)
        assert call("readLimit", "producer_byte_rate", shown) == {"value": value}, shown
        raw = call("rawRate", "producer_byte_rate", value)
        assert call("readLimit", "producer_byte_rate", raw) == {"value": value}, raw


def test_values_of_settings_are_shown_in_words(call: Call) -> None:
    for name, value, text in (
        ("retention.ms", "604800000", "7 d"),
        ("retention.ms", "-1", "no limit"),
        ("remote.copy.lag.ms", "-1", "-1"),
        ("retention.ms", "0", "0"),
        ("segment.bytes", "1048576", "1 MiB"),
        ("log.retention.hours", "168", "168 hours"),
        ("log.roll.hours", "1", "1 hour"),
        ("max.message.records", "262144", "262\u202f144"),
        ("num.io.threads", "8", "8"),
        ("flush.messages", str(2**63 - 1), "no limit"),
        ("listeners", "PLAINTEXT://:9092", "PLAINTEXT://:9092"),
        ("super.users", "", ""),
    ):
        assert call("settingWords", {"name": name, "type": "long", "unit": ""}, value) == text, name
    # The broker's unit of a key in hours is that of the time that follows from it.
    assert (
        call("settingWords", {"name": "log.retention.hours", "type": "int", "unit": "ms"}, "24") == "24 hours"
    )


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


def test_a_forecast_says_where_the_lag_goes(call: Call) -> None:
    def said(lag: int | None, rate: float | None, members: int = 1, lost: int | None = 0) -> tuple[str, Any]:
        row = {"lag": lag, "lag_per_s": rate, "lag_trend_s": 590, "members": members, "lost": lost}
        found = call("forecast", row, of="js/group_words.js")
        return found["text"], found.get("level")

    assert said(None, None) == ("–", None)
    assert said(0, -5.0) == ("caught up", None)
    assert said(10, None) == ("not known yet", None)
    assert said(10, -5.0, members=0) == ("no members", "watch")
    assert said(6_000, -10.0) == ("caught up in 10 min", "good")
    assert said(6_000, -10.0, lost=3_000) == ("caught up in 5 min", "good"), "what is lost is not read"
    assert said(6_001, -10.0) == ("caught up in 11 min", "good")
    assert said(590, -10.0) == ("caught up in less than 1 min", "good")
    assert said(10**9, -1.0) == ("caught up in more than a month", "good")
    assert [said(100, rate)[0] for rate in (-0.05, -0.049, 0.049, 0.05)] == [
        "caught up in 34 min",
        "steady",
        "steady",
        "grows 0.05/s",
    ]
    assert said(100, 120.4) == ("grows 120/s", "urgent")


@pytest.mark.parametrize("rate", [-10.0, 0.0, 120.4])
def test_a_forecast_of_a_young_history_says_so_and_is_no_alarm(call: Call, rate: float) -> None:
    def said(seconds: int) -> tuple[str, str | None]:
        row = {"lag": 6_000, "lag_per_s": rate, "lag_trend_s": seconds, "members": 1, "lost": 0}
        found = call("forecast", row, of="js/group_words.js")
        return found["level"], found.get("young")

    whole = {-10.0: "good", 0.0: "watch", 120.4: "urgent"}[rate]
    assert said(20) == ("young", "only 20 s known")
    assert said(589) == ("young", "only 9 min known")
    assert [said(590), said(600)] == [(whole, None)] * 2


@pytest.mark.parametrize(
    ("cleanup", "ms", "size", "words"),
    [
        (None, None, None, "–"),
        ("delete", 604_800_000, -1, "7 d"),
        ("delete", 604_800_000, 1 << 30, "7 d or 1 GiB"),
        ("delete", -1, 1_000_000, "1 MB"),
        ("delete", -1, -1, "no limit"),
        ("compact", 604_800_000, -1, "last of each key"),
        ("compact,delete", 90_500, -1, "last of each key, 90.5 s"),
        ("", 604_800_000, -1, "no limit"),
    ],
)
def test_retention_is_said_in_words(
    call: Call, cleanup: str | None, ms: int | None, size: int | None, words: str
) -> None:
    row = {"cleanup": cleanup, "retention_ms": ms, "retention_bytes": size}
    assert call("retentionText", row, of="js/topic_words.js") == words


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("As `a` says ([compaction.md](compaction.md)). Both.", "As a says. Both."),
        ("As a says (compaction.md). Both.", "As a says. Both."),
        ("All are read. For the costs see benchmarks.md.", "All are read."),
        ("See [the guide](docs/a.md#b), or not.", "See the guide, or not."),
        ("from 0 to 9223372036854775807", "from 0 on"),
        ("Use <code>acks</code>.<p>Then <a href='x'>read</a>.", "Use acks. Then read."),
        ("less < more > less", "less < more > less"),
    ],
)
def test_a_help_text_has_no_marks_and_no_files(call: Call, written: str, shown: str) -> None:
    assert call("helpText", written, of="js/help_text.js") == shown


def test_lost_records_of_a_history_are_those_passed_and_those_still_ahead(call: Call) -> None:
    for lost, total in (([], 0), ([0, 5, 9], 9), ([0, 5, 0, None, 3], 8), ([None, None], 0)):
        assert call("lostIn", {"lost": lost}, of="js/lag_chart.js") == total
