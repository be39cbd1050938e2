"""A ShareFetch that waits for records: for an append, for a release, or for its timeout. (Kafka:
DelayedShareFetch)

It watches the logs and the share partitions of its member. The first waiting fetch that is checked acquires
what became available, so that the others wait on.
"""

from typing import Protocol

from broker.purgatory.purgatory import DelayedOperation


class PendingAcquisition(Protocol):
    """A fetch whose response is pending."""

    def try_acquire(self) -> bool:
        """Acquire records if that completes the fetch, and return whether it is complete."""


class DelayedShareFetch(DelayedOperation):
    """A waiting fetch. `pending` builds the response."""

    __slots__ = ("pending",)

    def __init__(self, timeout_ms: int, pending: PendingAcquisition) -> None:
        super().__init__(timeout_ms)
        self.pending = pending

    def is_ready(self) -> bool:
        return self.pending.try_acquire()
