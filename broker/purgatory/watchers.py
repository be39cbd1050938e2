"""Who waits for which key: a partition, a group, a topic.

Called by `purgatory`. Knows nothing of time. Kafka cuts this table into 512 shards to keep its locks apart;
one thread has no lock, and the dict is the shard table. An operation that settles stays listed under its
other keys until each is checked or the table is purged: unlisting it at once would cost a look at every key
it has.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from broker.purgatory.operation import DelayedOperation, Outcome

Op = TypeVar("Op", bound=DelayedOperation)


class Watchers(Generic[Op]):
    """`count` is the number of (key, operation) pairs listed, settled ones included."""

    __slots__ = ("_by_key", "count")

    def __init__(self) -> None:
        self._by_key: dict[Hashable, dict[Op, None]] = {}
        self.count = 0

    def watch(self, key: Hashable, operation: Op) -> None:
        operations = self._by_key.get(key)
        if operations is None:
            operations = self._by_key[key] = {}
        elif operation in operations:
            return
        operations[operation] = None
        self.count += 1

    def check(self, key: Hashable) -> list[Op]:
        """Complete what has become ready under the key, in the order of watching; settled ones drop out."""
        operations = self._by_key.get(key)
        if operations is None:
            return []
        completed = [operation for operation in operations if operation.try_complete()]
        self._drop_settled(key, operations)
        return completed

    def cancel(self, key: Hashable) -> list[Op]:
        """Cancel everything that still waits under the key and forget the key."""
        operations = self._by_key.pop(key, None)
        if operations is None:
            return []
        self.count -= len(operations)
        return [operation for operation in operations if operation.settle(Outcome.CANCELLED)]

    def purge(self) -> int:
        """Drop every settled operation under every key; returns how many pairs went."""
        before = self.count
        for key, operations in list(self._by_key.items()):
            self._drop_settled(key, operations)
        return before - self.count

    def _drop_settled(self, key: Hashable, operations: dict[Op, None]) -> None:
        waiting = {operation: None for operation in operations if operation.outcome is Outcome.WAITING}
        self.count -= len(operations) - len(waiting)
        if waiting:
            self._by_key[key] = waiting
        else:
            del self._by_key[key]
