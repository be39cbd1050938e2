"""The part of the metadata store that control uses, without threads. Implemented by broker.server."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from broker.metadata.actor import Actor
from broker.metadata.changes import AuditFilter, AuditRow, Change
from broker.metadata.image import Image
from broker.steps import Steps

Result = TypeVar("Result")


class Committer(Protocol):
    """`exclusive` covers everything from reading the image to publishing the next, so that changes do not
    interleave.

    Cancelling its task does not abandon a commit that has started: it returns the image or raises ApiError.
    """

    def exclusive(self) -> AbstractAsyncContextManager[object]: ...

    async def commit(self, changes: Sequence[Change], actor: Actor) -> Image:
        """Run `MetadataStore.commit`, inside `exclusive`. Raises ApiError KAFKA_STORAGE_ERROR."""

    async def in_slices(self, steps: Steps[Result], *, to_the_end: bool = False) -> Result:
        """Return the result of `steps`, and yield to other tasks whenever some of them take long.

        `to_the_end`: finish all steps even if the task is cancelled.
        """

    async def history(self, wanted: AuditFilter) -> list[AuditRow]:
        """Run `MetadataStore.history`, outside `exclusive`, and wait for it."""
