"""The purgatory of one kind of delayed request.

Called by `services` (watch, and check after every append) and by the reapers of `app` (expire). Methods
return the settled operations; the caller sends the responses. There is no `await` here, so nothing can
happen between the check and the registration, and the second check of Kafka's DelayedOperationPurgatory is
not needed.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Generic, cast

from broker.purgatory.operation import DelayedOperation, Outcome
from broker.purgatory.timer import Timer
from broker.purgatory.watchers import Op, Watchers


class Purgatory(Generic[Op]):
    """Operations of one kind, by the keys they watch.

    `purge_interval` (Kafka: `*.purgatory.purge.interval.requests`, 1000) is the number of settled
    operations that may remain in the watch lists before a purge; with 0 none outlives the next arrival or
    expiry.
    """

    def __init__(self, name: str, purge_interval: int = 1000) -> None:
        self.name = name
        self.purge_interval = purge_interval
        self._timer = Timer()
        self._watchers: Watchers[Op] = Watchers()

    @property
    def watched(self) -> int:
        """Kafka's gauge PurgatorySize: listed (key, operation) pairs, including settled ones until purged."""
        return self._watchers.count

    @property
    def delayed(self) -> int:
        """Kafka's gauge NumDelayedOperations: operations whose timeout is running."""
        return self._timer.size

    def try_complete_else_watch(self, operation: Op, keys: Iterable[Hashable], now_ms: int) -> bool:
        """Return True if the operation was ready and is completed, False if it waits from now on."""
        if operation.try_complete():
            return True
        self._watchers.watch(keys, operation)
        operation.expiration_ms = now_ms + operation.timeout_ms
        self._timer.add(operation, now_ms)
        self._purge_if_due()
        return False

    def watch_any(self, operation: Op) -> Callable[[DelayedOperation], None]:
        """Shows it every key that is checked from now on, before `try_complete_else_wait`. Returns what ends
        this; the operation calls it when it is settled.
        """
        self._watchers.watch_any(operation)
        return self._watchers.unwatch_any

    @property
    def any_watchers(self) -> Collection[Op]:
        """The operations that are shown every key."""
        return self._watchers.by_any

    def try_complete_else_wait(self, operation: Op, now_ms: int) -> bool:
        """`try_complete_else_watch` for one that watches any key already."""
        if operation.try_complete():
            return True
        operation.expiration_ms = now_ms + operation.timeout_ms
        self._timer.add(operation, now_ms)
        return False

    def check_and_complete(self, key: Hashable, limit: int | None = None) -> list[Op]:
        """Complete the operations of a key that are ready, in order of arrival.

        If `limit` operations are returned, more may be ready, and the caller must call again.
        """
        return self._watchers.check(key, limit)

    def cancel(self, operation: Op) -> bool:
        """Cancel an operation whose client has disconnected. Return False if it was settled before."""
        return operation.settle(Outcome.CANCELLED)

    def cancel_for_key(self, key: Hashable) -> list[Op]:
        """Cancel and return the operations of a key that no longer exists, such as a deleted partition."""
        return self._watchers.cancel(key)

    def expire(self, now_ms: int, limit: int | None = None) -> list[Op]:
        """Settle the operations whose timeout has passed, in order of expiration; those beyond `limit` stay
        due.
        """
        expired = cast("list[Op]", self._timer.advance(now_ms, limit))
        for operation in expired:
            operation.settle(Outcome.EXPIRED)
        self._purge_if_due()
        return expired

    def next_deadline(self) -> int | None:
        """Return the time at which `expire` next has work; None when nothing waits."""
        return self._timer.next_deadline()

    def _purge_if_due(self) -> None:
        if len(self._watchers.lingering) > self.purge_interval:
            self._watchers.purge()
