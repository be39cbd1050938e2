"""One soak: starts the broker and all clients, lets the faults happen, settles, checks, reports."""

import logging
import os
import secrets
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import trio
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.pages import PAGES
from benchmarks.process import BrokerError
from benchmarks.soak import producers, raw, readers, visitors, wall_clock
from benchmarks.soak.anomalies import Anomalies
from benchmarks.soak.broker_life import BrokerLives
from benchmarks.soak.checks import check, committed
from benchmarks.soak.disk import Disk
from benchmarks.soak.explanations import RULES
from benchmarks.soak.faults import Faults
from benchmarks.soak.group_ledger import Place
from benchmarks.soak.quota_changes import QuotaChanges
from benchmarks.soak.report import judge, print_report
from benchmarks.soak.stage import IDEMPOTENT, PARTITIONS, SOURCE, TOPICS, Stage

SAMPLE_S: Final = 10.0
TELL_EVERY: Final = 6
"""Samples; a line a minute."""

SETTLED_WITHIN_S: Final = 300.0
RAW_COPIES: Final = 2
MEMBERS: Final = 2
CUT_BYTES: Final = 3_000

PRODUCERS: Final = {
    "librdkafka": producers.librdkafka,
    "kafka-python": producers.kafka_python,
    "aiokafka": producers.aiokafka_,
    "transactions": producers.transactional,
}
READERS: Final = {
    "readers-librdkafka": readers.librdkafka,
    "readers-kafka-python": readers.kafka_python,
    "readers-aiokafka": readers.aiokafka_,
}


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
        self.findings: list[str] = []
        self._began = 0.0

    async def run(self) -> bool:
        """Return whether the broker has passed; the report is printed."""
        options = self._options
        # What clients log and do not raise is no error of a program that uses them.
        logging.getLogger().addHandler(logging.NullHandler())
        self._began = time.monotonic()
        self._tell(f"seed {options.seed}; a full disk is {self._disk.how}")
        try:
            await trio.to_thread.run_sync(self._lives.start)
            await self._prepare()
            await self._load()
            await trio.to_thread.run_sync(self._check, True)
            status = await trio.to_thread.run_sync(self._lives.stop)
            if status:
                self.findings.append(f"the broker's exit status after SIGTERM is {status}")
        except (BrokerError, KafkaException, TimeoutError, OSError) as error:
            self.findings.append(f"the soak cannot go on: {type(error).__name__}: {error}")
        finally:
            self._lives.end()
        verdict = judge(self._lives.lives, self.findings, self.anomalies, self.stage)
        print_report(self.stage, self._lives.lives, self.anomalies, verdict, self._began)
        self._tell(f"quota changes {self._quotas.count}; faults: {self._faults_words()}")
        return verdict.passed

    async def _prepare(self) -> None:
        admin = AdminClient(producers.librdkafka_settings(self.stage, "operator"))
        made = admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in TOPICS])
        for future in made.values():
            await trio.to_thread.run_sync(future.result, 30)
        await visitors.prepare(self.stage)

    async def _load(self) -> None:
        """Run load and faults; then let the clients finish, without limits and faults."""
        options, stage = self._options, self.stage
        writing = [stage.threads(name, stage.producers_end, run) for name, run in PRODUCERS.items()]
        reading = [stage.threads("copier", stage.readers_end, producers.copier)]
        for name, run in READERS.items():
            reading += [stage.threads(name, stage.readers_end, run) for _ in range(MEMBERS)]
        for thread in (*writing, *reading):
            thread.start()
        self.faults = Faults(stage, self._lives, self._disk, self._clock)
        if options.lose:
            self.faults.damage = self._cut_records
        async with trio.open_nursery() as clients:
            for _ in range(RAW_COPIES):
                clients.start_soon(visitors.repeat, stage, "raw", raw.produce)
            async with trio.open_nursery() as background:
                self._start_background(background)
                await self._watch(options.minutes - options.steady)
                self.faults.kills_end.set()
                await self._watch(options.steady)
                background.cancel_scope.cancel()
            self._tell("the load ends: limits are lifted, and clients finish")
            self._lives.sample()
            wall_clock.set_difference(self._clock, 0)
            await trio.to_thread.run_sync(self._quotas.remove_all)
            stage.producers_end.set()
            await self._ended(writing)
            clients.cancel_scope.cancel()
        await self._caught_up()
        stage.readers_end.set()
        await self._ended(reading)

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
            nursery.start_soon(self.faults.kill, options.kill_every, self._check)
        if options.disk_every:
            nursery.start_soon(self.faults.fill_disk, options.disk_every)
        if options.clock_every:
            nursery.start_soon(self.faults.step_clock, options.clock_every)

    async def _watch(self, minutes: float) -> None:
        until, turn = trio.current_time() + minutes * 60, 0
        while trio.current_time() < until:
            await trio.sleep(SAMPLE_S)
            self._lives.sample()
            turn += 1
            if turn % TELL_EVERY == 0:
                self._tell_state()

    def _check(self, settled: bool = False) -> None:
        """Compare what is there with what was acknowledged. Blocks."""
        began = time.monotonic()
        found = check(self.stage, self._quotas, settled=settled)
        self.findings += found
        for finding in found:
            self._tell(f"LOST OR CHANGED: {finding}")
        count = sum(ledger.count for ledger in self.stage.ledgers.values())
        self._tell(f"checked {count:,} acknowledged records in {time.monotonic() - began:.1f} s")

    async def _ended(self, threads: list[threading.Thread]) -> None:
        deadline = time.monotonic() + SETTLED_WITHIN_S
        for thread in threads:
            await trio.to_thread.run_sync(thread.join, max(deadline - time.monotonic(), 0))
        names = [thread.name for thread in threads if thread.is_alive()]
        if names:
            raise TimeoutError(f"{', '.join(names)} did not finish in {SETTLED_WITHIN_S:.0f} s")

    async def _caught_up(self) -> None:
        """Wait until every group and the copier were given everything that was acknowledged."""
        deadline = trio.current_time() + SETTLED_WITHIN_S
        while behind := await trio.to_thread.run_sync(self._behind):
            if trio.current_time() > deadline:
                self.findings.append(f"not read in {SETTLED_WITHIN_S:.0f} s: {behind}")
                return
            await trio.sleep(0.5)

    def _behind(self) -> dict[str, int]:
        promised = {topic: ledger.promised() for topic, ledger in self.stage.ledgers.items()}
        behind = {
            name: sum(group.behind(topic, each) for topic, each in promised.items())
            for name, group in self.stage.groups.items()
        }
        # Not by its acknowledgements: a commit may have been made whose answer was lost.
        places = [Place(SOURCE, partition) for partition in range(PARTITIONS)]
        done = committed(self.stage, "copier", places)
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
        return ", ".join(f"{kind} {count}" for kind, count in self.faults.counts.items())
