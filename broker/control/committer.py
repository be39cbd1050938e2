"""What control needs of the metadata store, without a thread or a lock of its own. Implemented by
broker.server.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from broker.metadata.actor import Actor
from broker.metadata.audit import AuditFilter, AuditRow
from broker.metadata.changes import Change
from broker.metadata.image import Image
from broker.steps import Steps

Result = TypeVar("Result")


class Committer(Protocol):
    """`exclusive` is held from the reading of the image to the publication of the next, so no two changes
    interleave.

    A commit that has begun is not abandoned when its task is cancelled: either the image comes back or
    ApiError.
    """

    def exclusive(self) -> AbstractAsyncContextManager[object]: ...

    async def commit(self, changes: Sequence[Change], actor: Actor) -> Image:
        """`MetadataStore.commit`, called inside `exclusive`. Raises ApiError KAFKA_STORAGE_ERROR."""

    async def in_slices(self, steps: Steps[Result], *, to_the_end: bool = False) -> Result:
        """What `steps` come to; whenever some of them took long, others have a turn. `to_the_end`: also where
        the task is cancelled.
        """

    async def history(self, wanted: AuditFilter) -> list[AuditRow]:
        """`MetadataStore.history`, called outside `exclusive` and waiting for it."""
