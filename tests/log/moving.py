"""Shared helpers of the move tests: a store over two directories, and a mover that does single steps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.common.slices import run_through
from broker.config.sections.log import LogConfig
from broker.log.moves import Move
from broker.log.partition import PartitionLog
from broker.log.recovery import Recovery
from broker.log.store import LogStore
from tests.log.harness import NOW

MOST = 1_000_000


def open_two(where: Path, **config: Any) -> tuple[LogStore, Recovery]:
    store = LogStore(LogConfig(dirs=(str(where / "a"), str(where / "b")), **config))
    return store, store.open()


def begin(store: LogStore, log: PartitionLog, to: str) -> Move:
    """Start a move; `to` is the last part of the directory's path."""
    (target,) = [each for each in store.directories if Path(each.path).name == to]
    store.move(log, target)
    return store.moves.running[log]


def step(store: LogStore, move: Move, most: int = MOST) -> bool:
    """Run one step and return whether more remain."""
    made = store.moves.next_step(move, most, store.directories.of(move.partition))
    if made is not None:
        made.run()
        made.finish()
        if made.error is not None:
            raise made.error
    return made is not None


def settle(store: LogStore) -> None:
    """Remove the originals."""
    for original in list(store.moves.originals):
        flush = original.partition.flush(NOW)
        flush.run()
        flush.finish()
        store.moves.remove_original(original, flush, NOW)


def finish(store: LogStore, move: Move, most: int = MOST, between: Callable[[], None] = lambda: None) -> int:
    """Run a move to its end and return the number of steps; `between` is called before each."""
    steps = 1
    while step(store, move, most):
        steps += 1
        between()
    settle(store)
    return steps


def clear(store: LogStore, now: int = NOW) -> None:
    """Remove everything that is due."""
    for chore in run_through(store.retention(now)):
        chore.run()
        chore.finish()
        assert chore.error is None


def directories(where: Path) -> dict[str, list[str]]:
    """Return the names of the partitions' directories in `a` and `b`, without hexadecimal parts."""
    return {
        each.name: sorted(_plain(path.name) for path in each.iterdir() if path.is_dir())
        for each in sorted(where.iterdir())
        if each.is_dir()
    }


def _plain(name: str) -> str:
    head, dot, tail = name.partition(".")
    return f"{head}.{tail.partition('-')[2]}" if dot else head
