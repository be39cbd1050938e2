"""The cost of delayed requests: `python -m benchmarks.purgatory`.

Fills a purgatory with 10 to 1,000,000 operations of five minutes; then times arrivals, cancellations and
completions of random operations among them, expires the rest, and measures the memory of one. Results are
processor time of the least disturbed round. Also measures the cost of Kafka's 512 shards, which one thread
without a lock does not need.
"""

import argparse
import gc
import random
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

from broker.purgatory.purgatory import DelayedOperation, Purgatory

PENDING: Final = (10, 1_000, 100_000, 1_000_000)
ROUNDS: Final = 60
MAX_A_ROUND: Final = 1_000
LEAST_MS: Final = 300_000
SPREAD_MS: Final = 60_000
SHARDS: Final = 512
WEIGHED_FROM: Final = 100_000
"""With fewer operations, the process's memory does not show their size."""


class Wait(DelayedOperation):
    """An operation that is ready when the benchmark says so, with about the state of a fetch."""

    __slots__ = ("key", "ready")

    def __init__(self, key: int, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.key = key
        self.ready = False

    def is_ready(self) -> bool:
        return self.ready


class Cost(NamedTuple):
    """Nanoseconds per operation, and bytes."""

    insert: float
    cancel: float
    complete: float
    expire: float
    one_dict: float
    shards: float
    memory: float | None


class Bench:
    """A purgatory with `pending` waiting operations, each under a key of its own."""

    def __init__(self, pending: int) -> None:
        self.chance = random.Random(1)
        self.purgatory: Purgatory[Wait] = Purgatory("Fetch")
        self.now_ms = 1_000
        self.next_key = 0
        before = resident()
        self.waiting = [self.arrive() for _ in range(pending)]
        self.memory = (resident() - before) / pending if pending >= WEIGHED_FROM else None

    def make(self) -> Wait:
        self.next_key += 1
        return Wait(self.next_key, LEAST_MS + self.chance.randrange(SPREAD_MS))

    def arrive(self) -> Wait:
        wait = self.make()
        self.purgatory.try_complete_else_watch(wait, (wait.key,), self.now_ms)
        return wait

    def round(self) -> tuple[float, float, float]:
        """Time arrival, cancellation and completion, keeping the number of operations constant."""
        self.now_ms += 1
        size = min(len(self.waiting), MAX_A_ROUND)
        chosen = self.chance.sample(range(len(self.waiting)), size)
        purgatory, now_ms = self.purgatory, self.now_ms
        cancel = timed(lambda: [purgatory.cancel(self.waiting[at]) for at in chosen], size)
        fresh = [self.make() for _ in chosen]
        insert = timed(
            lambda: [purgatory.try_complete_else_watch(wait, (wait.key,), now_ms) for wait in fresh], size
        )
        for at, wait in zip(chosen, fresh, strict=True):
            self.waiting[at] = wait
        done = [self.waiting[at] for at in self.chance.sample(range(len(self.waiting)), size)]
        for wait in done:
            wait.ready = True
        complete = timed(lambda: [purgatory.check_and_complete(wait.key) for wait in done], size)
        self.waiting = [wait for wait in self.waiting if not wait.ready]
        self.waiting += [self.arrive() for _ in done]
        return insert, cancel, complete

    def expire(self) -> float:
        """Expire all remaining operations, each at its time."""
        count = len(self.waiting)

        def pass_time() -> None:
            while (deadline := self.purgatory.next_deadline()) is not None:
                self.purgatory.expire(deadline)

        return timed(pass_time, count)


def timed(work: Callable[[], object], count: int) -> float:
    begun = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - begun) / count


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def measure(pending: int) -> Cost:
    """Measure in a process of its own, with the broker's settings of the garbage collector."""
    gc.set_threshold(50_000, 20, 50)
    bench = Bench(pending)
    rounds = [bench.round() for _ in range(ROUNDS)]
    insert, cancel, complete = (min(figures) for figures in zip(*rounds, strict=True))
    expire = bench.expire()
    return Cost(insert, cancel, complete, expire, *lookups(pending), bench.memory)


def lookups(count: int) -> tuple[float, float]:
    """Time finding one of `count` keys: in one dict, and in one of 512."""
    chance = random.Random(2)
    keys = [("topic", number) for number in range(count)]
    one = dict.fromkeys(keys)
    many: list[dict[object, None]] = [{} for _ in range(SHARDS)]
    for key in keys:
        many[hash(key) % SHARDS][key] = None
    asked = chance.choices(keys, k=100_000)

    def in_one() -> None:
        for key in asked:
            one.get(key)

    def in_many() -> None:
        for key in asked:
            many[hash(key) % SHARDS].get(key)

    return timed(in_one, len(asked)), timed(in_many, len(asked))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pending", type=int, nargs="+", default=PENDING, metavar="N")
    given = parser.parse_args()
    print("| operations waiting | insert, ns | cancel, ns | complete, ns | expire, ns | bytes each |", end="")
    print(" key in one dict, ns | in 512 shards, ns |\n|" + " --- |" * 8)
    for pending in given.pending:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            cost = alone.submit(measure, pending).result()
        memory = "-" if cost.memory is None else f"{cost.memory:,.0f}"
        times = [f"{ns:,.0f}" for ns in (cost.insert, cost.cancel, cost.complete, cost.expire)]
        shards = [f"{ns:,.0f}" for ns in (cost.one_dict, cost.shards)]
        print("| " + " | ".join([f"{pending:,}", *times, memory, *shards]) + " |", flush=True)


if __name__ == "__main__":
    main()
