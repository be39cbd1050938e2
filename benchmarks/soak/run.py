"""One soak: starts the broker and all clients, lets the faults happen, settles, checks, reports."""

import os
import secrets
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import trio

from benchmarks.pages import PAGES
from benchmarks.process import BrokerError
from benchmarks.soak import raw, visitors, wall_clock
from benchmarks.soak.anomalies import Anomalies
from benchmarks.soak.broker_life import BrokerLives
from benchmarks.soak.checks import CheckError, check, committed
from benchmarks.soak.disk import Disk
from benchmarks.soak.explanations import RULES
from benchmarks.soak.faults import Faults
from benchmarks.soak.group_ledger import Place
from benchmarks.soak.quota_changes import QuotaChanges
from benchmarks.soak.report import judge, print_report
from benchmarks.soak.sessions import run_sessions
from benchmarks.soak.stage import Stage
from benchmarks.soak.topics import GROUPS, IDEMPOTENT, PARTITIONS, SOURCE

SAMPLE_S: Final = 10.0
TELL_EVERY: Final = 6
"""Samples; a line a minute."""

SETTLED_WITHIN_S: Final = 300.0
RAW_COPIES: Final = 2
MEMBERS: Final = 2
CUT_BYTES: Final = 3_000

PRODUCERS: Final = (*IDEMPOTENT, "transactions")


@dataclass(frozen=True, slots=True)
class Options:
    """The times between two faults are in minutes on average; 0 is never."""

    minutes: float
    steady: float
    """The last minutes, without kills."""

    kill_every: float
    disk_every: float
    clock_every: float
    pages: int
    seed: int
    lose: bool = False


class Soak:
    def __init__(self, options: Options, disk: Disk, scratch: Path, port: int) -> None:
        self._options = options
        self._disk = disk
        token = secrets.token_urlsafe()
        self.anomalies = Anomalies(RULES)
        self.stage = Stage(port, token, options.seed, self.anomalies)
        self._clock = scratch / "clock"
        wall_clock.make(self._clock)
        self._data = disk.folder / "data"
        self._data.mkdir(mode=0o700)
        self._lives = BrokerLives(self._data, scratch / "output", port, token, self._clock, self.stage.report)
        self._quotas = QuotaChanges(self.stage)
        self._faults = Faults(self.stage, self._lives, disk, self._clock)
        if options.lose:
            self._faults.damage = self._cut_records
        self.findings: list[str] = []
        self._began = 0.0

    async def run(self) -> bool:
        """Return whether the broker has passed; the report is printed."""
        options = self._options
        self._began = time.monotonic()
        self._tell(f"seed {options.seed}; a full disk is {self._disk.how}")
        try:
            await trio.to_thread.run_sync(self._lives.start)
            await visitors.prepare(self.stage)
            await self._load()
            await self._check(settled=True)
            status = await trio.to_thread.run_sync(self._lives.stop)
            if status:
                self.findings.append(f"the broker's exit status after SIGTERM is {status}")
        except* (BrokerError, CheckError, TimeoutError, OSError) as errors:
            for error in visitors.leaves(errors):
                self.findings.append(f"the soak cannot go on: {type(error).__name__}: {error}")
        finally:
            self._lives.end()
        verdict = judge(self._lives.lives, self.findings, self.anomalies, self.stage)
        print_report(self.stage, self._lives.lives, self.anomalies, verdict, self._began)
        self._tell(f"quota changes {self._quotas.count}; faults: {self._faults_words()}")
        return verdict.passed

    async def _load(self) -> None:
        """Run load and faults; then let the clients finish, without limits and faults."""
        stage = self.stage
        async with trio.open_nursery() as readers:
            readers.start_soon(run_sessions, stage, "copier", 0, stage.readers_end)
            for name in GROUPS:
                for copy in range(MEMBERS):
                    readers.start_soon(run_sessions, stage, name, copy, stage.readers_end)
            async with trio.open_nursery() as writers:
                for name in PRODUCERS:
                    writers.start_soon(run_sessions, stage, name, 0, stage.producers_end)
                await self._disturb()
                stage.producers_end.set()
                writers.cancel_scope.deadline = trio.current_time() + SETTLED_WITHIN_S
            if writers.cancel_scope.cancelled_caught:
                raise TimeoutError(f"the producers did not finish in {SETTLED_WITHIN_S:.0f} s")
            await self._caught_up()
            stage.readers_end.set()
            readers.cancel_scope.deadline = trio.current_time() + SETTLED_WITHIN_S
        if readers.cancel_scope.cancelled_caught:
            raise TimeoutError(f"the readers did not finish in {SETTLED_WITHIN_S:.0f} s")

    async def _disturb(self) -> None:
        """Let faults and other clients happen for as long as the options say."""
        options, stage = self._options, self.stage
        async with trio.open_nursery() as clients:
            for _ in range(RAW_COPIES):
                clients.start_soon(visitors.repeat, stage, "raw", raw.produce)
            async with trio.open_nursery() as background:
                self._start_background(background)
                await self._watch(options.minutes - options.steady)
                self._faults.kills_end.set()
                await self._watch(options.steady)
                background.cancel_scope.cancel()
            self._tell("the load ends: limits are lifted, and clients finish")
            self._lives.sample()
            wall_clock.set_difference(self._clock, 0)
            await trio.to_thread.run_sync(self._quotas.remove_all)
            clients.cancel_scope.cancel()

    def _start_background(self, nursery: trio.Nursery) -> None:
        options, stage = self._options, self.stage
        for name, (load, copies) in visitors.LOADS.items():
            for _ in range(copies):
                nursery.start_soon(visitors.repeat, stage, name, load)
        for number in range(options.pages):
            page = partial(visitors.keep_open, PAGES[number % len(PAGES)])
            nursery.start_soon(visitors.repeat, stage, "page", page)
        nursery.start_soon(self._quotas.change)
        if options.kill_every:
            nursery.start_soon(self._faults.kill, options.kill_every, self._check)
        if options.disk_every:
            nursery.start_soon(self._faults.fill_disk, options.disk_every)
        if options.clock_every:
            nursery.start_soon(self._faults.step_clock, options.clock_every)

    async def _watch(self, minutes: float) -> None:
        until, turn = trio.current_time() + minutes * 60, 0
        while trio.current_time() < until:
            await trio.sleep(SAMPLE_S)
            self._lives.sample()
            self._faults.note_busy(self._lives.now.waiting)
            turn += 1
            if turn % TELL_EVERY == 0:
                self._tell_state()

    async def _check(self, settled: bool = False) -> None:
        """Compare what is there with what was acknowledged."""
        began = time.monotonic()
        found = await check(self.stage, self._quotas, settled=settled)
        self.findings += found
        for finding in found:
            self._tell(f"LOST OR CHANGED: {finding}")
        count = sum(ledger.count for ledger in self.stage.ledgers.values())
        self._tell(f"checked {count:,} acknowledged records in {time.monotonic() - began:.1f} s")

    async def _caught_up(self) -> None:
        """Wait until every group and the copier were given everything that was acknowledged."""
        deadline = trio.current_time() + SETTLED_WITHIN_S
        while behind := await self._behind():
            if trio.current_time() > deadline:
                self.findings.append(f"not read in {SETTLED_WITHIN_S:.0f} s: {behind}")
                return
            await trio.sleep(1)

    async def _behind(self) -> dict[str, int]:
        promised = {topic: ledger.promised() for topic, ledger in self.stage.ledgers.items()}
        behind = {
            name: sum(group.behind(topic, each) for topic, each in promised.items())
            for name, group in self.stage.groups.items()
        }
        # Not by its acknowledgements: a commit may have been made whose answer was lost.
        places = [Place(SOURCE, partition) for partition in range(PARTITIONS)]
        done = await committed(self.stage, "copier", places)
        behind["copier"] = sum(
            offset >= done.get(Place(SOURCE, partition), 0)
            for partition, offsets in promised[SOURCE].by_partition.items()
            for offset in offsets
        )
        return {name: count for name, count in behind.items() if count}

    def _cut_records(self) -> None:
        """Cut off the end of a log, as a disk does that loses what it has confirmed."""
        folder = self._data / f"soak-{IDEMPOTENT[1]}-0"
        newest = max(folder.glob("*.log"))
        os.truncate(newest, max(newest.stat().st_size - CUT_BYTES, 0))
        self._tell(f"cut {CUT_BYTES} bytes off {newest}")

    def _tell(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:7.0f} s  {text}", flush=True)

    def _tell_state(self) -> None:
        life = self._lives.now
        memory, descriptors = life.memory[-1][1], life.descriptors[-1][1]
        self._tell(
            f"life {life.number}: {memory:.1f} MB, {descriptors:.0f} descriptors, "
            f"{life.cpu_s:.0f} s of processor; faults: {self._faults_words()}"
        )

    def _faults_words(self) -> str:
        return ", ".join(f"{kind} {count}" for kind, count in self._faults.counts.items())
