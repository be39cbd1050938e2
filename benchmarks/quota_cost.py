"""The cost of quotas with one entity and with 100,000: `python -m benchmarks.quota_cost`.

Measures deciding and recording one request, the memory of an entity, loading all limits at the start, and
one more change, each separately in this process. Reports the least processor time of many rounds, so that
other load of the machine hardly matters. Runs no broker.
"""

import gc
import resource
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import click

from broker.common.clock import BASE_MS
from broker.metadata.actor import BROKER_ITSELF
from broker.metadata.changes import Change, ChangeKind, write_number, write_pairs
from broker.metadata.store import MetadataStore
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity

ENTITIES: Final = (1, 100_000)
CLIENTS: Final = 1_000
"""Number of clients that send in turn, so that processor caches do not help."""

ROUNDS: Final = 60
REQUESTS: Final = 5_000


def least(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the processor seconds of the quickest of the rounds."""
    found = []
    for _ in range(rounds):
        began = time.process_time_ns()
        run()
        found.append(time.process_time_ns() - began)
    return min(found) / 1e9


def configured(count: int) -> ClientQuotas:
    quotas = ClientQuotas()
    for number in range(count):
        quotas.apply(Entity(user=f"user-{number}"), "producer_byte_rate", 1_000_000.0)
    return quotas


def decide_us(quotas: ClientQuotas, users: list[str], nbytes: int) -> float:
    """Return the microseconds to decide and record one request, at a hundred requests per millisecond."""
    clock = iter(range(BASE_MS * 100, 2**62))
    record, size = quotas.record_produce, len(users)

    def some() -> None:
        for number in range(REQUESTS):
            record(users[number % size], "c", nbytes, next(clock) // 100)

    some()
    return least(some) / REQUESTS * 1e6


def memory_per_entity(count: int) -> float:
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    quotas = configured(count)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(quotas.produce) == count
    return used / count


def through_metadata(count: int, scratch: Path) -> tuple[float, float, float]:
    """Time opening a store with `count` limits, loading the quotas, and committing and applying one more
    change.

    Returns seconds.
    """
    path = scratch / "metadata.sqlite"
    store = MetadataStore.open(path, 0)
    store.commit([_change(number, 1_000_000.0) for number in range(count)], BROKER_ITSELF, 0)
    store.close()
    began = time.process_time()
    store = MetadataStore.open(path, 0)
    opened = time.process_time() - began
    quotas = ClientQuotas()

    def load() -> None:
        for entry in store.image.quotas.values():
            for key, limit in entry.limits.items():
                quotas.apply(Entity.of(entry.entity), key, limit.value)

    loaded = least(load, 3)
    values = iter(range(1, 2**62))

    def change() -> None:
        value = float(next(values))
        store.commit([_change(7, value)], BROKER_ITSELF, 0)
        quotas.apply(Entity(user="user-7"), "producer_byte_rate", value)

    changed = least(change, 20)
    store.close()
    return opened, loaded, changed


def _change(number: int, value: float) -> Change:
    pairs = Entity(user=f"user-{number}").pairs
    return Change(ChangeKind.CLIENT_QUOTA, write_pairs(pairs), "producer_byte_rate", write_number(value))


@click.command()
def main() -> None:
    """Measure the cost of quotas with one entity and with 100,000."""
    gc.disable()
    click.echo("| entities | within the limit, us | over it, us | change one limit, us |")
    click.echo("| --- | --- | --- | --- |")
    for count in ENTITIES:
        quotas = configured(count)
        users = (
            [f"user-{number * (count // CLIENTS)}" for number in range(CLIENTS)] if count > 1 else ["user-0"]
        )
        within, over = decide_us(quotas, users, 1), decide_us(quotas, users, 20_000_000)
        changed = least(partial(quotas.apply, Entity(user="user-0"), "producer_byte_rate", 5.0)) * 1e6
        click.echo(f"| {count:,} | {within:.2f} | {over:.2f} | {changed:.1f} |")
    click.echo(f"\nmemory of an entity: {memory_per_entity(ENTITIES[1]):.0f} bytes")
    with tempfile.TemporaryDirectory(prefix="weir-quota-cost-") as scratch:
        opened, loaded, changed = through_metadata(ENTITIES[1], Path(scratch))
    click.echo(
        f"{ENTITIES[1]:,} limits at the start: {opened:.2f} s to read them, {loaded:.2f} s to apply them; "
        f"one more change, written and applied: {changed * 1e3:.1f} ms"
    )
    click.echo(f"resident at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
