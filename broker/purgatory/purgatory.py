"""Where a request waits when it cannot be answered yet: one purgatory per kind of request.

Called by `services` (park, and check after every append) and by the reapers of `app` (expire). What ends
its waiting is returned; the caller delivers the answers. There is no `await` in here, so nothing can happen
between the check and the registration, and the second check of Kafka's DelayedOperationPurgatory is not
needed.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, cast

from broker.purgatory.operation import Outcome
from broker.purgatory.timer import Timer
from broker.purgatory.watchers import Op, Watchers


class Purgatory(Generic[Op]):
    """Operations of one kind, by the keys they watch.

    `purge_interval` (Kafka: `*.purgatory.purge.interval.requests`, 1000) is how many operations may have
    settled before the lists are cleared of them.
    """

    def __init__(self, name: str, purge_interval: int = 1000) -> None:
        self.name = name
        self.purge_interval = purge_interval
        self._timer = Timer()
        self._watchers: Watchers[Op] = Watchers()
        self._entered_since_purge = 0

    @property
    def watched(self) -> int:
        """Kafka's gauge PurgatorySize: (key, operation) pairs listed, settled ones included until purged."""
        return self._watchers.count

    @property
    def delayed(self) -> int:
        """Kafka's gauge NumDelayedOperations: operations whose time-out is running."""
        return self._timer.size

    def try_complete_else_watch(self, operation: Op, keys: Iterable[Hashable], now_ms: int) -> bool:
        """True: it was ready and is completed. False: it waits until checked, expired or cancelled."""
        if operation.try_complete():
            return True
        for key in keys:
            self._watchers.watch(key, operation)
        operation.expiration_ms = now_ms + operation.timeout_ms
        self._timer.add(operation, now_ms)
        self._entered_since_purge += 1
        self._purge_if_due()
        return False

    def check_and_complete(self, key: Hashable) -> list[Op]:
        """Something happened to the key: the operations that this completed, in the order they came."""
        return self._watchers.check(key)

    def cancel(self, operation: Op) -> bool:
        """Its client has gone. False when it had been settled before."""
        return operation.settle(Outcome.CANCELLED)

    def cancel_for_key(self, key: Hashable) -> list[Op]:
        """The key itself has gone (a partition was deleted): what waited for it, now cancelled."""
        return self._watchers.cancel(key)

    def expire(self, now_ms: int) -> list[Op]:
        """The operations whose time-out has passed, in order of expiration."""
        expired = cast("list[Op]", self._timer.advance(now_ms))
        for operation in expired:
            operation.settle(Outcome.EXPIRED)
        self._purge_if_due()
        return expired

    def next_deadline(self) -> int | None:
        """When `expire` next has something to do; None when nothing waits."""
        return self._timer.next_deadline()

    def _purge_if_due(self) -> None:
        if self._entered_since_purge - self._timer.size > self.purge_interval:
            self._entered_since_purge = self._timer.size
            self._watchers.purge()
