"""The process that reads: when it is asked, what is kept, and that nothing of it is left."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from webui.insights.reader import FRESH_S, IDLE_S, LONGEST_S, InsightsUnavailable, Reader
from webui.problem import Problem

PARROT = (sys.executable, str(Path(__file__).with_name("parrot.py")))


@pytest.fixture
async def reader(tmp_path: Path, mock_clock: trio.testing.MockClock) -> AsyncIterator[Reader]:
    made = Reader(str(tmp_path), PARROT)
    yield made
    await made.end()


def questions(reader: Reader) -> list[tuple[str, str]]:
    file = Path(reader.warehouse) / "asked"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(process, what) for process, _, what in (line.partition(" ") for line in lines)]


async def ask(reader: Reader, sql: str, **more: Any) -> bytes:
    return await reader.rows({"sql": sql, **more})


async def refused(reader: Reader, sql: str) -> Problem:
    with pytest.raises(Problem) as raised:
        await ask(reader, sql)
    return raised.value


async def test_without_a_warehouse_no_process_is_started() -> None:
    reader = Reader("", ("/nowhere",))
    with pytest.raises(InsightsUnavailable) as raised:
        await reader.rows({})
    assert raised.value.status == 404 and raised.value.members == {"code": "INSIGHTS_OFF"}


async def test_an_answer_is_kept_for_ten_seconds(reader: Reader, mock_clock: trio.testing.MockClock) -> None:
    assert await ask(reader, "twice hello") == b'"hello"'
    mock_clock.jump(FRESH_S - 0.001)
    assert await ask(reader, "twice hello") == b'"hello"' and len(questions(reader)) == 1
    mock_clock.jump(0.001)
    assert await ask(reader, "twice hello") == b'"hello"' and len(questions(reader)) == 2


async def test_after_that_only_the_version_is_asked_for(
    reader: Reader, mock_clock: trio.testing.MockClock
) -> None:
    await ask(reader, "say hello")
    for _ in range(2):
        mock_clock.jump(FRESH_S)
        assert await ask(reader, "say hello") == b'"hello"'
    # The parrot says "same" to a version that is known, and Reader gives what it has.
    assert len(questions(reader)) == 3 and len({process for process, _ in questions(reader)}) == 1


async def test_fifty_equal_questions_cost_one_read(
    reader: Reader, mock_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(ask, reader, "twice hello")
    assert len(questions(reader)) == 1


async def test_different_questions_go_one_after_the_other_to_one_process(
    reader: Reader, mock_clock: trio.testing.MockClock
) -> None:
    answers: dict[int, bytes] = {}

    async def one(number: int) -> None:
        answers[number] = await ask(reader, f"say {number}")

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, number)
    assert answers == {number: f'"{number}"'.encode() for number in range(20)}
    assert len({process for process, _ in questions(reader)}) == 1


async def test_kept_answers_are_bounded(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr("webui.insights.reader.MAX_CACHED", 2)
    for word in ("a", "b", "a", "c", "a", "b"):
        await ask(reader, f"say {word}")
    assert [what for _, what in questions(reader)] == ["say a", "say b", "say c", "say b"]
    monkeypatch.setattr("webui.insights.reader.MAX_CACHED_BYTES", 10)
    await ask(reader, f"say {'x' * 20}")
    await ask(reader, f"say {'x' * 20}")
    assert len(questions(reader)) == 6


@pytest.mark.parametrize(
    ("outcome", "status", "code"),
    [
        ("missing", 404, "READER_MISSING"),
        ("none", 404, "NO_TABLE"),
        ("gone", 410, "CURSOR_GONE"),
        ("foreign", 502, "TABLE_FOREIGN"),
        ("damaged", 502, "TABLE_DAMAGED"),
    ],
)
async def test_each_refusal_has_its_status(
    reader: Reader, outcome: str, status: int, code: str, mock_clock: trio.testing.MockClock
) -> None:
    problem = await refused(reader, outcome)
    assert problem.status == status and problem.members["code"] == code
    assert await ask(reader, "say hello") == b'"hello"'


@pytest.mark.parametrize("how", ["end", "rubbish", "half", "huge", "endless"])
async def test_a_process_that_fails_is_replaced_for_the_next_question(
    reader: Reader, how: str, mock_clock: trio.testing.MockClock
) -> None:
    problem = await refused(reader, how)
    assert problem.status == 502 and problem.members["code"] == "READER_LOST"
    assert reader._process is None
    assert await ask(reader, "say hello") == b'"hello"'
    assert len({process for process, _ in questions(reader)}) == 2


async def test_a_program_that_cannot_be_started_is_a_refusal(tmp_path: Path) -> None:
    problem = await refused(Reader(str(tmp_path), ("/nowhere/at/all",)), "say hello")
    assert problem.status == 502


async def ask_times(reader: Reader, count: int) -> None:
    while len(questions(reader)) < count:
        await trio.lowlevel.checkpoint()


async def test_a_slow_question_is_ended_and_the_next_answered(
    reader: Reader, mock_clock: trio.testing.MockClock
) -> None:
    async def too_slow() -> None:
        problem = await refused(reader, "hang")
        assert problem.status == 503 and problem.members["code"] == "TOO_SLOW"
        assert problem.headers["Retry-After"] == "5"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(too_slow)
        await ask_times(reader, 1)
        process = reader._process
        mock_clock.jump(LONGEST_S)
    assert process is not None and process.returncode == -9
    assert await ask(reader, "say hello") == b'"hello"'


async def test_whoever_goes_away_takes_the_process_along(
    reader: Reader, mock_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, reader, "hang")
        await ask_times(reader, 1)
        process = reader._process
        nursery.cancel_scope.cancel()
    assert process is not None and process.returncode == -9 and reader._process is None


async def test_a_process_without_questions_for_a_minute_ends(
    reader: Reader, mock_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        await ask(reader, "say hello")
        process = reader._process
        assert process is not None
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(IDLE_S - 1)
        await ask(reader, "twice again")
        mock_clock.jump(IDLE_S - 0.001)
        await trio.testing.wait_all_tasks_blocked()
        assert process.returncode is None
        mock_clock.jump(0.001)
        await process.wait()
        assert await ask(reader, "twice more") == b'"more"'
        nursery.cancel_scope.cancel()
    assert reader._process is None


async def test_secrets_of_the_environment_stay_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_ADMIN_TOKEN", "secret")
    script = tmp_path / "env.py"
    script.write_text(
        "import json, os, sys\n"
        "sys.stdin.readline()\n"
        "body = json.dumps(sorted(os.environ)).encode()\n"
        "print(json.dumps({'outcome': 'rows', 'size': len(body)}), flush=True)\n"
        "sys.stdout.buffer.write(body); sys.stdout.flush()\n"
    )
    reader = Reader(str(tmp_path), (sys.executable, str(script)))
    names = await reader.rows({})
    await reader.end()
    assert b"PYTHONPATH" in names and b"WEIR" not in names
