"""JSON in slices is the same JSON."""

import json
from typing import Any

import pytest

from tests.webui.polls import Polls, WorkClock
from webui.tables import json_output as json_text
from webui.tables.json_output import AT_ONCE, SCALARS_AT_ONCE, encode, written
from webui.tables.slices import SLICE_S

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
    assert await written(value) == encode(value)
    assert json.loads(await written(value)) == value


@pytest.mark.parametrize("long", [1, 1_000])
async def test_what_is_no_json_is_refused_however_long(long: int) -> None:
    with pytest.raises(ValueError, match="JSON"):
        await written([float("nan")] * long)


@pytest.fixture
def slow_text(work_clock: WorkClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A microsecond for five characters."""
    real = json_text.encode

    def encode(value: Any) -> bytes:
        text = real(value)
        work_clock.now += len(text) * 0.2e-6
        return text

    monkeypatch.setattr(json_text, "encode", encode)


@pytest.mark.parametrize("value", [[ROW] * 1_000, {"history": [0.123] * 10_000}], ids=["rows", "figures"])
async def test_others_have_their_turns_while_much_is_written(
    value: Any, slow_text: None, polls: Polls
) -> None:
    size = len(encode(value))
    polls.since()
    await written(value)
    assert polls.since() >= size * 0.2e-6 / SLICE_S / 3


async def test_a_short_answer_is_written_at_once(slow_text: None, polls: Polls) -> None:
    polls.since()
    await written({"items": [ROW] * AT_ONCE, "total": AT_ONCE})
    assert polls.since() == 0
