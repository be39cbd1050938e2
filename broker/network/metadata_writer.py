"""The writer of the metadata log: commits in a thread, and runs long changes in slices.

Made by `server` and used by broker.controller as its committer. `run_in_slices` serves periodic tasks too.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Final, TypeVar

import trio

from broker.common.errors import FatalExitError
from broker.common.steps import Steps
from broker.metadata.actor import Actor
from broker.metadata.changes import AuditFilter, AuditRow, Change
from broker.metadata.image import Image
from broker.metadata.store import MetadataStore
from broker.network.clock import TrioClock
from broker.network.supervisor import LastError

SLICE_S: Final = 0.001
"""Duration of a slice of a long change between two checkpoints."""

Result = TypeVar("Result")


class MetadataWriter:
    """A `broker.controller.control.Committer` that commits in a thread, one set of changes at a time.

    Reports fatal errors to `last_error`.
    """

    def __init__(self, store: MetadataStore, clock: TrioClock) -> None:
        self.last_error = LastError()
        self._store = store
        self._clock = clock
        self._lock = trio.Lock()

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        async with self._lock:
            try:
                yield
            except FatalExitError as error:
                self.last_error.report(error)
                raise

    async def commit(self, changes: Sequence[Change], actor: Actor) -> Image:
        """Return the image after the change. Cancellation does not abandon a running thread."""
        return await self.commit_at(changes, actor, self._clock.wall_ms())

    async def commit_at(self, changes: Sequence[Change], actor: Actor, wall_ms: int) -> Image:
        """As `commit`, for a change that was made at `wall_ms`, by another gateway."""
        return await trio.to_thread.run_sync(self._store.commit, changes, actor, wall_ms)

    async def in_slices(self, steps: Steps[Result], *, to_the_end: bool = False) -> Result:
        """Run `steps` in slices and return their result. A small change runs without a pause."""
        with trio.CancelScope(shield=to_the_end):
            return await run_in_slices(steps)
        raise AssertionError("unreachable: this scope is never cancelled")

    def to_the_end(self) -> AbstractContextManager[object]:
        return trio.CancelScope(shield=True)

    async def history(self, wanted: AuditFilter) -> list[AuditRow]:
        async with self._lock:
            return await trio.to_thread.run_sync(self._store.history, wanted)


async def run_in_slices(steps: Steps[Result]) -> Result:
    """Run the steps and return their result, with a checkpoint after each millisecond of work."""
    until = time.perf_counter() + SLICE_S
    was_long = False
    while True:
        try:
            next(steps)
        except StopIteration as end:
            if was_long:  # what follows begins a slice of its own
                await trio.lowlevel.checkpoint()
            result: Result = end.value
            return result
        if time.perf_counter() >= until:
            was_long = True
            await trio.lowlevel.checkpoint()
            until = time.perf_counter() + SLICE_S
