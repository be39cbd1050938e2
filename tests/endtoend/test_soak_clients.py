"""Every client of the soak in its process, against a broker: killed at any moment, it told nothing wrong."""

import os
import signal
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
import trio

from benchmarks.process import free_port
from benchmarks.soak import sessions, visitors, wall_clock
from benchmarks.soak.anomalies import Anomalies
from benchmarks.soak.broker_life import BrokerLives
from benchmarks.soak.checks import check, stored
from benchmarks.soak.clients.__main__ import CLIENTS
from benchmarks.soak.explanations import RULES
from benchmarks.soak.ledger import Stored
from benchmarks.soak.quota_changes import QuotaChanges
from benchmarks.soak.sessions import run_sessions
from benchmarks.soak.stage import Stage
from benchmarks.soak.topics import COPY, IDEMPOTENT, SOURCE, TRANSACTIONS
from tests.support.hostile import until

pytestmark = [pytest.mark.endtoend, pytest.mark.slow]

WITHIN_S = 120.0
EACH = 100
WRITERS = (*IDEMPOTENT, "transactions")
FILLED = (*(f"soak-{name}" for name in IDEMPOTENT), TRANSACTIONS, COPY)


def client_pids() -> dict[int, str]:
    """Return the client processes of this test, and the name of each."""
    found = {}
    for pid in [
        int(pid) for each in Path("/proc/self/task").glob("*/children") for pid in each.read_text().split()
    ]:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        if "benchmarks.soak.clients" in words:
            found[pid] = words[words.index("benchmarks.soak.clients") + 1]
    return found


def filled(stage: Stage, more: int) -> bool:
    """Return whether so many records of each kind were acknowledged and read."""
    return all(stage.ledgers[topic].count >= more for topic in FILLED) and all(
        group.delivered_count >= more and group.commits for group in stage.groups.values()
    )


def caught_up(stage: Stage) -> bool:
    written = {topic: ledger.promised() for topic, ledger in stage.ledgers.items()}
    groups = stage.groups.values()
    return not any(group.behind(topic, each) for topic, each in written.items() for group in groups)


def numbers(there: Mapping[int, Stored]) -> set[int]:
    return {number for each in there.values() for number in each.numbers.values()}


async def test_clients_that_are_killed_have_reported_nothing_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "SESSION_S", (3_600.0, 3_600.0))
    clock, data = tmp_path / "clock", tmp_path / "data"
    wall_clock.make(clock)
    data.mkdir(mode=0o700)
    stage = Stage(free_port(), "token-of-a-test-that-is-long", 1, Anomalies(RULES))
    logged: list[object] = []
    report = partial(lambda _, text: logged.append(text))
    lives = BrokerLives(data, tmp_path / "output", stage.port, stage.token, clock, report)
    try:
        await trio.to_thread.run_sync(lives.start)
        await visitors.prepare(stage)
        async with trio.open_nursery() as nursery:
            for name in CLIENTS:
                end = stage.producers_end if name in WRITERS else stage.readers_end
                nursery.start_soon(run_sessions, stage, name, 0, end)
            await until(lambda: filled(stage, EACH), WITHIN_S)
            pids = client_pids()
            assert sorted(pids.values()) == sorted(CLIENTS)
            for pid, name in pids.items():
                os.kill(pid, signal.SIGKILL)
                await until(lambda name=name: stage.sessions.get(name) == 1, WITHIN_S)  # type: ignore[misc]
            before = {topic: ledger.count for topic, ledger in stage.ledgers.items()}
            await until(lambda: all(stage.ledgers[each].count > before[each] for each in FILLED), WITHIN_S)
            assert await check(stage, QuotaChanges(stage), settled=False) == []
            stage.producers_end.set()
            await until(lambda: all(stage.sessions.get(name) == 2 for name in WRITERS), WITHIN_S)
            await until(lambda: caught_up(stage), WITHIN_S)
            with trio.fail_after(WITHIN_S):
                while not stage.ledgers[SOURCE].promised().numbers <= numbers(await stored(stage, COPY)):
                    pass
            stage.readers_end.set()
        assert {name: stage.sessions[name] for name in CLIENTS} == dict.fromkeys(CLIENTS, 2)
        assert await check(stage, QuotaChanges(stage), settled=True) == []
        assert await trio.to_thread.run_sync(lives.stop) == 0
    finally:
        lives.end()
    reported = {(each.source, each.text) for each in stage.anomalies.found() if not each.why}
    assert reported == {(name, f"exit status {-signal.SIGKILL}") for name in CLIENTS}
