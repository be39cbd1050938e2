"""Delayed operations: requests that wait for a condition or for a timeout, whichever comes first. (Kafka:
DelayedOperation, DelayedOperationPurgatory)

`partitions` watches operations and checks them after every append; the reapers of `app` expire them.
Independent of responses: methods return the settled operations, and the caller sends the responses. There
is no `await` here, so nothing can happen between the check and the registration, and the second check of
Kafka's DelayedOperationPurgatory is not needed.

Kafka cuts the table of watch lists into 512 shards to separate its locks; one thread has no lock, and one
dict finds a key faster (docs/benchmarks.md has the numbers). A settled operation stays listed under its
other keys until each is checked or it is purged, as in Kafka, whose purge walks the whole table. Here the
purge visits only the settled operations, kept in `lingering`: with a million waiting operations, purging a
thousand settled ones costs the same as with ten.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from enum import Enum, auto
from typing import Any, Generic, TypeVar, cast

from broker.metrics.families import FamilySamples, MetricType, Sample
from broker.purgatory.timing_wheel import Timer, TimerTask


class OperationState(Enum):
    """The state of an operation. It leaves WAITING once; the code that settles it sends the response."""

    WAITING = auto()
    COMPLETED = auto()
    EXPIRED = auto()
    CANCELLED = auto()


Lingering = dict["DelayedOperation", None]
"""Settled operations that are still listed under a key."""


class DelayedOperation(TimerTask):
    """A request that waits at most `timeout_ms` from the moment it is watched.

    Subclassed for fetches that wait for bytes and produces that wait for the disk. `Watchers` maintains
    `keys` and `listed`, the number of keys that still list the operation.
    """

    __slots__ = ("keys", "lingering", "listed", "outcome", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(expiration_ms=0)
        self.timeout_ms = timeout_ms
        self.outcome = OperationState.WAITING
        self.keys: tuple[Hashable, ...] = ()
        self.listed = 0
        self.lingering: Lingering | None = None

    @abstractmethod
    def is_ready(self) -> bool:
        """Return whether the operation can complete, possibly with an error. Must not call the purgatory."""

    @property
    def settled(self) -> bool:
        return self.outcome is not OperationState.WAITING

    def try_complete(self, key: Hashable = None) -> bool:
        """Complete the operation if it is ready. Return True to exactly one caller. `key` is what
        changed, for an operation that does not check all of its keys each time.

        An operation whose `is_ready` raises is completed too: making its response raises the same
        exception, which belongs to its own request and not to the caller, possibly another client's
        request.
        """
        if self.outcome is not OperationState.WAITING:
            return False
        try:
            is_ready = self.is_ready()
        except Exception:  # noqa: BLE001 - raised again, and reported, when the response is made
            is_ready = True
        return is_ready and self.settle(OperationState.COMPLETED)

    def settle(self, outcome: OperationState) -> bool:
        """Settle the operation and cancel its timer. Return False, without effect, if it was settled
        before.
        """
        if self.outcome is not OperationState.WAITING:
            return False
        self.outcome = outcome
        self.cancel()
        if self.listed and self.lingering is not None:
            self.lingering[self] = None
        return True


Op = TypeVar("Op", bound=DelayedOperation)


class Watchers(Generic[Op]):
    """The watch lists of one purgatory.

    `count` is the number of (key, operation) pairs listed, settled ones included; `lingering` are the
    settled operations among them. `by_any` has the operations that watch every key, one pair each.
    """

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
        """Remove the operation, if it is listed."""
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
            if operation.outcome is OperationState.WAITING:
                if not operation.try_complete(key):
                    continue
                self._drop(key, operations, operation)
                completed.append(operation)
                if len(completed) == limit:
                    break
            else:
                self._drop(key, operations, operation)
        return completed

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
        self.watchers: Watchers[Op] = Watchers()
        self.on_deadline: Callable[[int], None] = lambda _deadline_ms: None
        """Called with each deadline that is added, in ms."""

    @property
    def watched(self) -> int:
        """Kafka's gauge PurgatorySize: listed (key, operation) pairs, including settled ones until purged."""
        return self.watchers.count

    @property
    def delayed(self) -> int:
        """Kafka's gauge NumDelayedOperations: operations whose timeout is running."""
        return self._timer.size

    def try_complete_else_watch(self, operation: Op, keys: Iterable[Hashable], now_ms: int) -> bool:
        """Return True if the operation was ready and is completed, False if it waits from now on."""
        if operation.try_complete():
            return True
        self.watchers.watch(keys, operation)
        self._start_timer(operation, now_ms)
        self._purge_if_due()
        return False

    def watch_any(self, operation: Op) -> Callable[[DelayedOperation], None]:
        """Show the operation every key that is checked from now on, before `try_complete_else_wait`.

        Return the function that stops this; the operation calls it when it is settled.
        """
        self.watchers.watch_any(operation)
        return self.watchers.unwatch_any

    @property
    def any_watchers(self) -> Collection[Op]:
        """The operations that are shown every key."""
        return self.watchers.by_any

    def try_complete_else_wait(self, operation: Op, now_ms: int) -> bool:
        """`try_complete_else_watch` for an operation that already watches every key."""
        if operation.try_complete():
            return True
        self._start_timer(operation, now_ms)
        return False

    def check_and_complete(self, key: Hashable, limit: int | None = None) -> list[Op]:
        """Complete the operations of a key that are ready, in order of arrival.

        If `limit` operations are returned, more may be ready, and the caller must call again.
        """
        return self.watchers.check(key, limit)

    def cancel(self, operation: Op) -> bool:
        """Cancel an operation whose client has disconnected. Return False if it was settled before."""
        return operation.settle(OperationState.CANCELLED)

    def expire(self, now_ms: int, limit: int | None = None) -> list[Op]:
        """Settle the operations whose timeout has passed, in order of expiration; those beyond `limit` stay
        due.
        """
        expired = cast("list[Op]", self._timer.advance(now_ms, limit))
        for operation in expired:
            operation.settle(OperationState.EXPIRED)
        self._purge_if_due()
        return expired

    def next_deadline(self) -> int | None:
        """Return the time at which `expire` next has work; None when nothing waits."""
        return self._timer.next_deadline()

    def _start_timer(self, operation: Op, now_ms: int) -> None:
        operation.expiration_ms = deadline_ms = now_ms + operation.timeout_ms
        self._timer.add(operation, now_ms)
        self.on_deadline(deadline_ms)

    def _purge_if_due(self) -> None:
        if len(self.watchers.lingering) > self.purge_interval:
            self.watchers.purge()


def families(purgatories: Iterable[Purgatory[Any]]) -> Iterator[FamilySamples]:
    """Yield the gauges of a scrape. (Kafka: type=DelayedOperationPurgatory,name=*,delayedOperation=*)

    Only existing purgatories have gauges: Kafka's DeleteRecords, RemoteFetch and RemoteListOffsets have no
    operations here, and a constant 0 would be misleading.
    """
    purgatories = list(purgatories)
    yield FamilySamples(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Watched keys of delayed operations, including settled operations",
        MetricType.GAUGE,
        [Sample((("delayedOperation", each.name),), each.watched) for each in purgatories],
    )
    yield FamilySamples(
        "kafka_server_delayedoperationpurgatory_numdelayedoperations",
        "Delayed operations",
        MetricType.GAUGE,
        [Sample((("delayedOperation", each.name),), each.delayed) for each in purgatories],
    )
