"""The process that plays days: one at a time, and nothing of it is left."""

import sys
import time
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from webui.insights.reader import InsightsUnavailable
from webui.insights.what_if import LONGEST_S, WhatIf
from webui.problem import Problem

SAYS = """
import json, os, sys, time
question = json.load(sys.stdin)
open(sys.argv[1] + "/pid", "w").write(str(os.getpid()))
if question["say"] == "hang":
    time.sleep(3600)
sys.stdout.write(question["say"])
"""


@pytest.fixture
def what_if(tmp_path: Path) -> WhatIf:
    return WhatIf(str(tmp_path), (sys.executable, "-c", SAYS))


async def refused(what_if: WhatIf, say: str) -> Problem:
    with pytest.raises(Problem) as raised:
        await what_if.simulate({"say": say})
    return raised.value


async def test_without_a_warehouse_no_process_is_started() -> None:
    with pytest.raises(InsightsUnavailable) as raised:
        await WhatIf("", ("/nowhere",)).simulate({})
    assert raised.value.members == {"code": "INSIGHTS_OFF"}


async def test_the_simulators_answer_is_returned(what_if: WhatIf) -> None:
    assert await what_if.simulate({"say": '{"outcome":"simulated","clients":3}'}) == {"clients": 3}


@pytest.mark.parametrize(
    ("outcome", "status", "members"),
    [
        ("empty", 404, {"code": "NO_REQUESTS"}),
        ("none", 404, {"code": "NO_TABLE"}),
        ("missing", 404, {"code": "READER_MISSING"}),
        ("refused", 400, {"where": "/quotas"}),
        ("nodes", 400, {"where": "/node"}),
        ("too many", 400, {"code": "TOO_MANY"}),
        ("clusters", 400, {"code": "SEVERAL_CLUSTERS"}),
        ("no disk space", 503, {"code": "NO_DISK_SPACE"}),
        ("damaged", 502, {"code": "TABLE_DAMAGED"}),
    ],
)
async def test_why_nothing_was_played_is_a_problem(
    what_if: WhatIf, outcome: str, status: int, members: dict[str, Any]
) -> None:
    problem = await refused(what_if, f'{{"outcome":"{outcome}","message":"because"}}')
    assert problem.status == status
    assert {name: problem.document()[name] for name in members} == members
    assert outcome == "missing" or problem.detail == "because"


@pytest.mark.parametrize("message", ["", "rubbish"])
async def test_a_process_that_ends_without_an_answer_is_reported(what_if: WhatIf, message: str) -> None:
    assert (await refused(what_if, message)).members["code"] == "READER_LOST"


async def test_a_program_that_is_not_there_is_reported(tmp_path: Path) -> None:
    assert (await refused(WhatIf(str(tmp_path), ("/nowhere",)), "")).members["code"] == "READER_LOST"


async def test_a_client_that_asks_meanwhile_is_told_to_retry(
    what_if: WhatIf, tmp_path: Path, mock_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(refused, what_if, "hang")
        await _started(tmp_path)
        problem = await refused(what_if, "")
        assert (problem.status, problem.members["code"], problem.headers["Retry-After"]) == (
            503,
            "BUSY",
            "10",
        )
        mock_clock.jump(LONGEST_S)
    assert await what_if.simulate({"say": '{"outcome":"simulated"}'}) == {}


async def test_one_that_takes_too_long_is_ended(
    what_if: WhatIf, tmp_path: Path, mock_clock: MockClock
) -> None:
    found: list[Problem] = []

    async def ask() -> None:
        found.append(await refused(what_if, "hang"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        pid = await _started(tmp_path)
        mock_clock.jump(LONGEST_S - 0.001)
        await wait_all_tasks_blocked()
        assert not found
        mock_clock.jump(0.001)
    assert found[0].members["code"] == "TOO_SLOW"
    assert not _lives(pid)


async def test_cancelled_nothing_is_left_of_it(what_if: WhatIf, tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(refused, what_if, "hang")
        pid = await _started(tmp_path)
        nursery.cancel_scope.cancel()
    assert not _lives(pid)


async def _started(folder: Path) -> str:
    """The number of the process."""
    return await trio.to_thread.run_sync(_read, folder / "pid")


def _read(file: Path) -> str:
    deadline = time.monotonic() + 30
    while not (file.exists() and file.read_text()):
        assert time.monotonic() < deadline, "the process has not started"
        time.sleep(0.01)
    return file.read_text()


def _lives(pid: str) -> bool:
    return Path(f"/proc/{pid}").exists()
