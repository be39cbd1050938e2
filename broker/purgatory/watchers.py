"""The watch lists: delayed operations by key, such as a partition, a group or a topic.

Called by `purgatory`. Independent of time. Kafka cuts this table into 512 shards to separate its locks; one
thread has no lock, and one dict finds a key faster (docs/benchmarks.md has the numbers).

A settled operation stays listed under its other keys until each is checked or it is purged, as in Kafka,
whose purge walks the whole table. Here the purge visits only the settled operations, kept in `lingering`:
with a million waiting operations, purging a thousand settled ones costs the same as with ten.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar, cast

from broker.purgatory.operation import DelayedOperation, Lingering, Outcome

Op = TypeVar("Op", bound=DelayedOperation)


class Watchers(Generic[Op]):
    """The watch lists of one purgatory.

    `count` is the number of (key, operation) pairs listed, settled ones included; `lingering` are the
    settled operations among them. `by_any` has the operations that watch every key, one pair each.
    """

    __slots__ = ("_by_key", "by_any", "count", "lingering")

    def __init__(self) -> None:
        self._by_key: dict[Hashable, dict[Op, None]] = {}
        self.by_any: dict[Op, None] = {}
        self.count = 0
        self.lingering: Lingering = {}

    def watch(self, keys: Iterable[Hashable], operation: Op) -> None:
        """List the operation under each key, once."""
        operation.keys = tuple(keys)
        operation.lingering = self.lingering
        for key in operation.keys:
            operations = self._by_key.get(key)
            if operations is None:
                operations = self._by_key[key] = {}
            elif operation in operations:
                continue
            operations[operation] = None
            operation.listed += 1
            self.count += 1

    def watch_any(self, operation: Op) -> None:
        """List the operation once, for every key. It never lingers: the caller that settles it calls
        `unwatch_any`.
        """
        self.by_any[operation] = None
        self.count += 1

    def unwatch_any(self, operation: DelayedOperation) -> None:
        """No longer; without effect where it is not listed."""
        listed = cast("Op", operation)
        if listed in self.by_any:
            del self.by_any[listed]
            self.count -= 1

    def check(self, key: Hashable, limit: int | None = None) -> list[Op]:
        """Complete operations of the key that are ready, at most `limit`, in order of watching; drop
        settled ones.
        """
        operations = self._by_key.get(key)
        completed = [] if operations is None else self._check(key, operations, limit)
        if self.by_any and len(completed) != limit:
            for operation in list(self.by_any):
                if operation.try_complete(key):
                    completed.append(operation)
                    if len(completed) == limit:
                        break
        return completed

    def _check(self, key: Hashable, operations: dict[Op, None], limit: int | None) -> list[Op]:
        completed = []
        for operation in list(operations):
            if operation.outcome is Outcome.WAITING:
                if not operation.try_complete(key):
                    continue
                self._drop(key, operations, operation)
                completed.append(operation)
                if len(completed) == limit:
                    break
            else:
                self._drop(key, operations, operation)
        return completed

    def cancel(self, key: Hashable) -> list[Op]:
        """Cancel all operations that wait for the key and remove the key."""
        operations = self._by_key.get(key)
        if operations is None:
            return []
        cancelled = []
        for operation in list(operations):
            self._drop(key, operations, operation)
            if operation.settle(Outcome.CANCELLED):
                cancelled.append(operation)
        return cancelled

    def purge(self) -> int:
        """Drop every settled operation from all its keys; return the number of pairs dropped."""
        before = self.count
        for operation in cast("list[Op]", list(self.lingering)):
            for key in operation.keys:
                operations = self._by_key.get(key)
                if operations is not None and operation in operations:
                    self._drop(key, operations, operation)
        return before - self.count

    def _drop(self, key: Hashable, operations: dict[Op, None], operation: Op) -> None:
        del operations[operation]
        if not operations:
            del self._by_key[key]
        self.count -= 1
        operation.listed -= 1
        if not operation.listed:
            self.lingering.pop(operation, None)
