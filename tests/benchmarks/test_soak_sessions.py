"""A client process that ends, is killed or hangs: the soak goes on, and has what the process told."""

import json
import os
import signal
import sys
from typing import Final

import pytest
import trio

from benchmarks.soak import sessions
from benchmarks.soak.anomalies import Anomalies
from benchmarks.soak.explanations import RULES
from benchmarks.soak.sessions import ClientProcess
from benchmarks.soak.stage import Stage
from benchmarks.soak.topics import SOURCE
from tests.support.hostile import until

TELLS: Final = """\
import ctypes, faulthandler, os, signal, sys
from benchmarks.soak.clients.teller import Teller
faulthandler.enable()
tell = Teller(1)
tell.sending("soak-librdkafka", 2)
tell.acknowledged("soak-librdkafka", 0, 5, 0)
"""
HOLDS_THE_LOCK: Final = "ctypes.PyDLL(None).pause()\n"
"""Waits for ever with the interpreter's lock, as confluent-kafka may in a callback."""


@pytest.fixture
def stage() -> Stage:
    return Stage(0, "", 1, Anomalies(RULES))


async def run(
    stage: Stage, script: str, name: str = "librdkafka", limit_s: float = 600.0, end: trio.Event | None = None
) -> None:
    command = [sys.executable, "-c", TELLS + script]
    await ClientProcess(stage, name).run(command, limit_s, trio.Event() if end is None else end)


def found(stage: Stage) -> list[tuple[str, bool]]:
    """What was told is there in every case; return the errors, and whether each is explained."""
    ledger = stage.ledgers[SOURCE]
    assert (ledger.sent, ledger.promised().by_partition) == (2, {0: {5: 0}})
    return [(each.text, bool(each.why)) for each in stage.anomalies.found()]


async def test_a_process_that_ends_by_itself(stage: Stage) -> None:
    await run(stage, "tell.closing()")
    assert found(stage) == []


async def test_a_process_ends_with_its_input(stage: Stage) -> None:
    end = trio.Event()
    end.set()
    await run(stage, "assert sys.stdin.read() == ''", end=end)
    assert found(stage) == []


async def test_a_process_that_is_killed_has_reported_all_but_half_a_line(stage: Stage) -> None:
    await run(stage, "os.write(1, b'[\"acknowledged\", ')\nos.kill(os.getpid(), signal.SIGKILL)")
    assert found(stage) == [(f"exit status {-signal.SIGKILL}", False)]


async def test_a_process_that_fails(stage: Stage) -> None:
    await run(stage, "sys.exit(3)")
    assert found(stage) == [("exit status 3", False)]


@pytest.mark.parametrize(
    ("name", "explained"),
    [("readers-librdkafka", True), ("copier", True), ("readers-aiokafka", False), ("librdkafka", False)],
)
async def test_a_close_that_never_returns(
    stage: Stage,
    name: str,
    explained: bool,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sessions, "CLOSES_WITHIN_S", 0.0)
    monkeypatch.setattr(sessions, "DIES_WITHIN_S", 600.0)
    await run(stage, "tell.closing()\n" + HOLDS_THE_LOCK, name)
    assert found(stage) == [("close did not return", explained)]
    assert "Current thread" in capfd.readouterr().err


async def test_a_process_that_is_stuck_is_killed_after_its_limit(stage: Stage) -> None:
    process = ClientProcess(stage, "copier")
    async with trio.open_nursery() as nursery:
        command = [sys.executable, "-c", TELLS + HOLDS_THE_LOCK]
        nursery.start_soon(process.run, command, 600.0, trio.Event())
        await until(lambda: stage.ledgers[SOURCE].count == 1)
        process.limit.deadline = trio.current_time()
    assert found(stage) == [("it is stuck", False)]


async def test_a_process_that_no_signal_but_one_ends(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "CLOSES_WITHIN_S", 0.0)
    monkeypatch.setattr(sessions, "DIES_WITHIN_S", 0.0)
    ignores = "faulthandler.disable()\nsignal.signal(signal.SIGABRT, signal.SIG_IGN)\n"
    await run(stage, ignores + "tell.closing()\n" + HOLDS_THE_LOCK, "copier")
    assert found(stage) == [("close did not return", True)]


async def test_a_session_that_is_cancelled_leaves_no_process(stage: Stage) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, stage, "tell.error('pid', os.getpid())\n" + HOLDS_THE_LOCK)
        await until(lambda: bool(stage.anomalies.found()))
        nursery.cancel_scope.cancel()
    ((pid, _),) = found(stage)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


@pytest.mark.parametrize("name", ["librdkafka", "readers-librdkafka"])
async def test_a_real_session_without_a_broker_ends_with_its_input(name: str) -> None:
    settings = {"bootstrap": "127.0.0.1:1", "seconds": 600, "number": 0, "seed": 1}
    command = [sys.executable, "-m", "benchmarks.soak.clients", name, json.dumps(settings)]
    done = await trio.run_process(command, stdin=b"", capture_stdout=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines.count(["closing"]) == 1
    assert all(line[0] in ("sending", "error", "closing") for line in lines)
