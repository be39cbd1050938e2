"""A delayed operation: a request that waits for a condition or for its timeout, whichever comes first.

Subclassed for fetches that wait for bytes and produces that wait for the disk. Independent of responses:
the caller that receives a settled operation from the purgatory sends its response. (Kafka:
DelayedOperation.)
"""

from abc import abstractmethod
from collections.abc import Hashable
from enum import Enum, auto

from broker.purgatory.timing_wheel import Entry


class Outcome(Enum):
    """The state of an operation. It leaves WAITING once; the code that settles it sends the response."""

    WAITING = auto()
    COMPLETED = auto()
    EXPIRED = auto()
    CANCELLED = auto()


Lingering = dict["DelayedOperation", None]
"""Settled operations that are still listed under a key."""


class DelayedOperation(Entry):
    """Waits at most `timeout_ms` from the moment it is watched.

    `watchers` maintains `keys` and `listed`, the number of keys that still list the operation.
    """

    __slots__ = ("keys", "lingering", "listed", "outcome", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(expiration_ms=0)
        self.timeout_ms = timeout_ms
        self.outcome = Outcome.WAITING
        self.keys: tuple[Hashable, ...] = ()
        self.listed = 0
        self.lingering: Lingering | None = None

    @abstractmethod
    def is_ready(self) -> bool:
        """Return whether the operation can complete, possibly with an error. Must not call the purgatory."""

    @property
    def settled(self) -> bool:
        return self.outcome is not Outcome.WAITING

    def try_complete(self, key: Hashable = None) -> bool:
        """Complete the operation if it is ready. Return True to exactly one caller. `key` is what
        changed, for an operation that does not check all of its keys each time.

        An operation whose `is_ready` raises is completed too: making its response raises the same
        exception, which belongs to its own request and not to the caller, possibly another client's
        request.
        """
        if self.outcome is not Outcome.WAITING:
            return False
        try:
            is_ready = self.is_ready()
        except Exception:  # noqa: BLE001 - raised again, and reported, when the response is made
            is_ready = True
        return is_ready and self.settle(Outcome.COMPLETED)

    def settle(self, outcome: Outcome) -> bool:
        """Settle the operation and cancel its timer. Return False, without effect, if it was settled
        before.
        """
        if self.outcome is not Outcome.WAITING:
            return False
        self.outcome = outcome
        self.cancel()
        if self.listed and self.lingering is not None:
            self.lingering[self] = None
        return True
