"""The tasks that keep the disk: flushing, retention, and the writer of the metadata log. Started by `app`.

Appends go to the page cache within a request; what blocks for longer runs in threads, from here.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from broker.config.rooms import LogConfig
from broker.log.store import LogStore
from broker.metadata.actor import Actor
from broker.metadata.audit import AuditFilter, AuditRow
from broker.metadata.changes import Change
from broker.metadata.image import Image
from broker.metadata.store import MetadataStore
from broker.network.clock import TrioClock

logger = logging.getLogger(__name__)

LONGEST_SLEEP_SECONDS: Final = 86_400.0


class MetadataWriter:
    """A `broker.control.committer.Committer`: commits in a thread, one set of changes at a time."""

    def __init__(self, store: MetadataStore, clock: TrioClock) -> None:
        self._store = store
        self._clock = clock
        self._lock = trio.Lock()

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        async with self._lock:
            yield

    async def commit(self, changes: Sequence[Change], actor: Actor) -> Image:
        """The image after the change. A thread that has begun is not abandoned when its task is cancelled."""
        return await trio.to_thread.run_sync(self._store.commit, changes, actor, self._clock.wall_ms())

    async def history(self, wanted: AuditFilter) -> list[AuditRow]:
        async with self._lock:
            return await trio.to_thread.run_sync(self._store.history, wanted)


def start_storage(nursery: trio.Nursery, log: LogStore, config: LogConfig, clock: TrioClock) -> None:
    """The tasks that outlive every client."""
