"""Values and objects as JSON: slices make the same text."""

import json
from typing import Any

import pytest

from tests.webui.polls import Polls, WorkClock
from tests.webui.rows import NOW_MS
from webui.tables import json_output
from webui.tables.json_output import (
    AT_ONCE,
    LAST_MS,
    SCALARS_AT_ONCE,
    encode,
    encode_in_slices,
    finite,
    utc,
)
from webui.tables.slices import SLICE_S


@pytest.mark.parametrize(
    ("value", "kept"), [(1.5, 1.5), (0.0, 0.0), (None, None), (float("nan"), None), (float("inf"), None)]
)
def test_only_numbers_are_numbers(value: float | None, kept: float | None) -> None:
    assert finite(value) == kept


def test_times_are_utc_to_the_millisecond() -> None:
    assert utc(0) == "1970-01-01T00:00:00.000Z" and utc(NOW_MS + 7) == "2027-01-15T08:00:00.007Z"


@pytest.mark.parametrize("later", [0, 1, 2**63 - 1 - LAST_MS])
def test_times_after_the_year_9999_are_its_last_moment(later: int) -> None:
    assert utc(LAST_MS + later) == "9999-12-31T23:59:59.999Z"
    assert utc(LAST_MS - 1) == "9999-12-31T23:59:59.998Z"


ROW = {"name": 'a "quoted" \u2028 name', "rate": 1.5, "tags": [], "of": None}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        "text",
        [ROW] * (AT_ONCE - 1),
        [ROW] * AT_ONCE,
        [ROW] * (AT_ONCE + 1),
        [ROW] * 1_000,
        {"items": [ROW] * 100, "total": 100, "of": 100, "none": []},
        {"items": [], "total": 0},
        {"history": {"at_ms": list(range(1_440)), "used": [None, 0.25] * 720}, "at": "now"},
        [0.5] * (SCALARS_AT_ONCE + 1),
        [None] * 17,
        [[1, 2], [], [3]] * 20,
        {f"/path/{number}": {"get": ROW} for number in range(60)},
        {"one": {"two": {"three": [ROW] * 17}}},
        {"ü": ["ü"] * 17},
    ],
    ids=lambda value: repr(value)[:30],
)
async def test_a_long_answer_is_what_it_would_be_in_one_piece(value: Any) -> None:
    assert await encode_in_slices(value) == encode(value)
    assert json.loads(await encode_in_slices(value)) == value


@pytest.mark.parametrize("long", [1, 1_000])
async def test_values_outside_json_are_refused_however_long(long: int) -> None:
    with pytest.raises(ValueError, match="JSON"):
        await encode_in_slices([float("nan")] * long)


@pytest.fixture
def slow_text(work_clock: WorkClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A microsecond for five characters."""
    real = json_output.encode

    def encode(value: Any) -> bytes:
        text = real(value)
        work_clock.now += len(text) * 0.2e-6
        return text

    monkeypatch.setattr(json_output, "encode", encode)


@pytest.mark.parametrize("value", [[ROW] * 1_000, {"history": [0.123] * 10_000}], ids=["rows", "figures"])
async def test_others_have_their_turns_while_much_is_written(
    value: Any, slow_text: None, polls: Polls
) -> None:
    size = len(encode(value))
    polls.since()
    await encode_in_slices(value)
    assert polls.since() >= size * 0.2e-6 / SLICE_S / 3


async def test_a_short_answer_is_written_at_once(slow_text: None, polls: Polls) -> None:
    polls.since()
    await encode_in_slices({"items": [ROW] * AT_ONCE, "total": AT_ONCE})
    assert polls.since() == 0


def test_a_list_is_divided_at_long_elements_and_long_texts() -> None:
    long = list(range(json_output.AT_ONCE + 1))
    assert [len(run) for run in json_output._runs([1, 2, long, 3])] == [2, 1, 1]
    rows = [{"text": "x" * (json_output.CHARACTERS_AT_ONCE // 4)} for _ in range(10)]
    assert [len(run) for run in json_output._runs(rows)] == [5, 5]
    assert [len(run) for run in json_output._runs([{}] * 40)] == [16, 16, 8]
    assert [len(run) for run in json_output._runs([1] * 600)] == [512, 88]


@pytest.mark.parametrize(
    "value",
    [
        [[list(range(100))], 1, "a"],
        {"consumers": [{"assigned": [{"topic": "t"}] * 50}, {"assigned": []}]},
        [{"a": {"b": [1] * 20}}],
        [[], [[]], [[1] * 17]],
    ],
)
async def test_long_values_within_short_ones_are_written_in_pieces(
    value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await json_output.encode_in_pieces(value) == [json_output.encode(value)]
    monkeypatch.setattr(json_output, "JOINED_AT_ONCE", 1)
    pieces = await json_output.encode_in_pieces(value)
    assert len(pieces) > 1 and b"".join(pieces) == json_output.encode(value)
