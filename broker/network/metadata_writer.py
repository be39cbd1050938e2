"""The writer of the metadata log: commits in a thread, and runs long changes in slices.

Made by `server` and used by broker.controller as its committer.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager

import trio

from broker.common.errors import FatalExitError
from broker.common.slice_runner import run_slices
from broker.common.slices import Result, Steps
from broker.metadata.actor import Actor
from broker.metadata.changes import AuditFilter, AuditRow, Change
from broker.metadata.image import Image
from broker.metadata.store import MetadataStore
from broker.network.clock import TrioClock
from broker.network.supervisor import LastError


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

    def exclusive_here(self) -> AbstractAsyncContextManager[None]:
        return self.exclusive()

    async def commit(self, changes: Sequence[Change], actor: Actor) -> Image:
        """Return the image after the change. Cancellation does not abandon a running thread."""
        return await self.commit_at(changes, actor, self._clock.wall_ms())

    async def commit_at(self, changes: Sequence[Change], actor: Actor, wall_ms: int) -> Image:
        """As `commit`, for a change that was made at `wall_ms`, by another gateway."""
        return await trio.to_thread.run_sync(self._store.commit, changes, actor, wall_ms)

    async def in_slices(self, steps: Steps[Result], *, to_the_end: bool = False) -> Result:
        """Run `steps` in slices and return their result. A small change runs without a pause."""
        return await run_slices(steps, to_the_end=to_the_end)

    def to_the_end(self) -> AbstractContextManager[object]:
        return trio.CancelScope(shield=True)

    async def history(self, wanted: AuditFilter) -> list[AuditRow]:
        async with self._lock:
            return await trio.to_thread.run_sync(self._store.history, wanted)
