"""A request that waits for something to become true, or for its time-out, whichever comes first.

Subclassed by what waits: a fetch for bytes, a produce for the disk. Knows nothing of replies: whoever
receives a settled operation from the purgatory delivers its answer. (Kafka: DelayedOperation.)
"""

from abc import abstractmethod
from collections.abc import Hashable
from enum import Enum, auto

from broker.purgatory.timing_wheel import Entry


class Outcome(Enum):
    """How an operation stands. It leaves WAITING once, and whoever took it out answers for it."""

    WAITING = auto()
    COMPLETED = auto()
    EXPIRED = auto()
    CANCELLED = auto()


Lingering = dict["DelayedOperation", None]
"""Operations that have ended and are still listed under a key."""


class DelayedOperation(Entry):
    """Waits at most `timeout_ms` from the moment it is watched.

    `keys` and `listed`, under how many of them it still stands, are kept by `watchers`.
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
        """Whether the waiting is over, be it for an error. Must not touch the purgatory."""

    @property
    def settled(self) -> bool:
        return self.outcome is not Outcome.WAITING

    def try_complete(self, key: Hashable = None) -> bool:
        """Complete the operation if it is ready. True for exactly one caller in its life. `key` is what has
        changed, for an operation that does not look at all of its keys each time.

        One whose `is_ready` raises is completed too: making its answer raises the same, where the exception
        belongs to its own request and not to the caller, which may be the request of another client.
        """
        if self.outcome is not Outcome.WAITING:
            return False
        try:
            is_ready = self.is_ready()
        except Exception:  # noqa: BLE001 - met again, and reported, when the answer is made
            is_ready = True
        return is_ready and self.settle(Outcome.COMPLETED)

    def settle(self, outcome: Outcome) -> bool:
        """End the waiting and stop its clock. False when it had ended before; then nothing changes."""
        if self.outcome is not Outcome.WAITING:
            return False
        self.outcome = outcome
        self.cancel()
        if self.listed and self.lingering is not None:
            self.lingering[self] = None
        return True
