"""One partition as one share group sees it: which records are in flight, and who holds them. (Kafka:
SharePartition)

Called by `share_partitions`. Pure: the caller reads the log, stores what a `StateChange` says, and schedules
the `Lock`s. Records are in flight from `start_offset` to before `end_offset`; everything before is done, and
nothing after was delivered yet. Runs of records with the same state cover the whole range between, so that a
batch is one entry until its records differ.

An acknowledgement has two steps. `acknowledge`, `release` and `expired` return a StateChange, whose records
no other request can acquire or acknowledge; `complete` applies or withdraws it once it is stored, or could
not be. What is acquired is not stored: after a kill, records that were only delivered are available with the
delivery count of their last stored state.

With a dead letter queue, a record that is rejected or had its last delivery is ARCHIVING, which is stored,
until `dead_letters` has written it and calls `archive`. (KIP-1191)
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.share.states import RecordState, SharePartitionKey, StateBatch, merged
from broker.purgatory.timing_wheel import TimerTask

GAP: Final = 0
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4
"""Keeps a record for the time of another lock. (KIP-1222)"""

_ENDING: Final = frozenset({GAP, ACCEPT, RELEASE, REJECT})
"""The acknowledge types that end a delivery."""

_AVAILABLE, _ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
_ARCHIVING, _ARCHIVED = RecordState.ARCHIVING, RecordState.ARCHIVED


class Span(NamedTuple):
    """Offsets from `first` to `last`, both included: those of a batch of the log, or of a range."""

    first: int
    last: int


class AcquiredRange(NamedTuple):
    """Records that a member acquired, and which delivery this is, from 1."""

    first: int
    last: int
    deliveries: int


class UndeliveredRange(NamedTuple):
    """Records that are ARCHIVING after this number of deliveries. `is_rejected`: a member rejected them."""

    first: int
    last: int
    deliveries: int
    is_rejected: bool


class Acknowledgement(NamedTuple):
    """An acknowledgement of records by a member: one type for all of them, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class ShareLimits(NamedTuple):
    """`deliveries` is group.share.delivery.count.limit, `locks` group.share.partition.max.record.locks.
    `has_dead_letters`: the group has a dead letter queue.
    """

    deliveries: int = 5
    locks: int = 2_000
    has_dead_letters: bool = False

    def undelivered(self) -> RecordState:
        """Return the state of a record that is not delivered again."""
        return _ARCHIVING if self.has_dead_letters else _ARCHIVED


DEFAULT_LIMITS: Final = ShareLimits()


class Lock(TimerTask):
    """The time for which a member holds the records of one acquisition. `runs` counts what it still holds."""

    __slots__ = ("is_over", "key", "member", "runs")

    def __init__(self, key: SharePartitionKey, member: str, expiration_ms: int) -> None:
        super().__init__(expiration_ms)
        self.key = key
        self.member = member
        self.runs = 0
        self.is_over = False


class _Next(NamedTuple):
    """What records become. `is_rejected` is why they are ARCHIVING, and not stored."""

    state: RecordState
    deliveries: int
    is_rejected: bool = False


class _Run:
    """Records with one state. `to` is what they become by the change in progress."""

    __slots__ = ("count", "first", "is_rejected", "last", "lock", "state", "to")

    def __init__(self, first: int, last: int, state: RecordState, count: int, lock: Lock | None) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        self.lock = lock
        self.is_rejected = False
        self.to: _Next | None = None
        if lock is not None:
            lock.runs += 1

    @property
    def is_free(self) -> bool:
        """Whether a member can acquire the records."""
        return self.state is _AVAILABLE and self.to is None

    def hold_under(self, lock: Lock | None) -> None:
        old, self.lock = self.lock, lock
        if lock is not None:
            lock.runs += 1
        if old is not None:
            old.runs -= 1
            if not old.runs:
                old.cancel()

    def drop_lock(self) -> None:
        self.hold_under(None)


class StateChange:
    """New states that are to be stored. `start_offset` is the first offset in flight once they apply."""

    __slots__ = ("batches", "runs", "start_offset")

    def __init__(self, runs: list[_Run], batches: Sequence[StateBatch], start_offset: int) -> None:
        self.runs = runs
        self.batches = batches
        self.start_offset = start_offset

    @property
    def has_undelivered(self) -> bool:
        """Whether some of its records wait for the dead letter queue."""
        return any(each.state is _ARCHIVING for each in self.runs)


_first = attrgetter("first")


class SharePartition:
    """The records in flight. `batches` are the stored states from `start_offset` on; the records between them
    were delivered, but nothing is known of them: they are available.
    """

    def __init__(
        self,
        start_offset: int,
        batches: Iterable[StateBatch] = (),
        limits: ShareLimits = DEFAULT_LIMITS,
        state_epoch: int = 0,
    ) -> None:
        self.limits = limits
        self.state_epoch = state_epoch
        self.start_offset = self.end_offset = start_offset
        self.is_fenced = False
        """Whether the state was deleted or set anew, so that this object is no longer used."""
        self._runs: list[_Run] = []
        self._has_free = False
        for batch in batches:
            if batch.last < self.end_offset:
                continue
            first = max(batch.first, self.end_offset)
            self._extend(first - 1, _AVAILABLE, 0)
            self._extend(batch.last, batch.state, batch.deliveries)
            self._runs[-1].is_rejected = batch.deliveries < limits.deliveries
        self._has_free = True
        self._move_start()

    @property
    def in_flight(self) -> int:
        """Number of offsets from the start to the end."""
        return self.end_offset - self.start_offset

    def states(self) -> tuple[StateBatch, ...]:
        """Return the states of the records in flight."""
        return merged(StateBatch(each.first, each.last, each.state, each.count) for each in self._runs)

    def next_fetch_offset(self) -> int:
        """Return the first offset to read from the log: of records that are available again, or the end."""
        if self._has_free:
            for each in self._runs:
                if each.is_free:
                    return each.first
            self._has_free = False
        return self.end_offset

    def can_acquire(self) -> bool:
        """Return whether records are available again, or the number in flight is below its limit."""
        return self.next_fetch_offset() != self.end_offset or self.in_flight < self.limits.locks

    # Acquisition

    def acquire(
        self,
        lock: Lock,
        fetch_offset: int,
        batches: Sequence[Span],
        max_records: int,
        batch_size: int,
        aborted: Sequence[Span] = (),
        *,
        is_exact: bool = False,
    ) -> list[AcquiredRange]:
        """Acquire up to `max_records` of the batches that were read at `fetch_offset`, until `lock` ends.

        Whole batches are acquired, so that there may be more, unless `is_exact` (KIP-1206); ranges end with a
        batch, and have `batch_size` records or more if there are as many. Records that the log no longer has
        are archived, and so are the `aborted` batches.
        """
        if not batches or max_records <= 0:
            return []
        first, last = batches[0].first, batches[-1].last
        most = min(max_records, self.limits.locks - self.in_flight)
        if most <= 0:
            if fetch_offset >= self.end_offset:
                return []
            most = min(max_records, self.end_offset - fetch_offset)
            last = min(last, self.end_offset - 1)
        self._archive_free(fetch_offset, first - 1)
        again = Span(max(first, self.start_offset), last)
        left = most - self._take_again(lock, again, batches, most, batch_size, is_exact=is_exact)
        if left > 0 and last >= self.end_offset:
            self._take_new(lock, batches, left, batch_size, is_exact=is_exact)
        for each in aborted:
            self._archive_aborted(lock, each)
        acquired = [AcquiredRange(each.first, each.last, each.count) for each in self._held_under(lock)]
        self._move_start()
        return acquired

    def withdraw(self, lock: Lock) -> None:
        """Undo an acquisition whose records were not sent: it does not count as a delivery."""
        for each in list(self._held_under(lock)):
            each.drop_lock()
            each.state, each.count = _AVAILABLE, each.count - 1
            self._has_free = True

    def _take_again(
        self, lock: Lock, span: Span, batches: Sequence[Span], most: int, batch_size: int, *, is_exact: bool
    ) -> int:
        """Acquire available records of the span. Returns their number."""
        if not self._has_free or span.first >= self.end_offset:
            return 0
        taken = 0
        at = self._index_of(span.first)
        while at < len(self._runs) and taken < most:
            run = self._runs[at]
            if run.first > span.last:
                break
            if not run.is_free:
                at += 1
                continue
            first = max(run.first, span.first)
            last = first + most - taken - 1
            last = min(run.last, span.last, last if is_exact else _end_of_batch(batches, last))
            at = self._cut(first, last)
            run = self._runs[at]
            run.state, run.count, run.lock = _ACQUIRED, run.count + 1, lock
            lock.runs += 1
            taken += last - first + 1
            before = self._runs[at - 1] if at else None
            if (
                before is not None
                and before.lock is lock
                and before.count == run.count
                and run.last - before.first < batch_size
            ):
                before.last = run.last
                lock.runs -= 1
                del self._runs[at]
            else:
                at += 1
        return taken

    def _take_new(
        self, lock: Lock, batches: Sequence[Span], most: int, batch_size: int, *, is_exact: bool
    ) -> None:
        """Acquire batches after the end. Offsets between batches are archived."""
        taken = 0
        for batch in batches[bisect_left(batches, self.end_offset, key=attrgetter("last")) :]:
            if taken >= most:
                break
            if batch.first > self.end_offset:
                self._extend(batch.first - 1, _ARCHIVED, 0)
                self._move_start()
            last = min(batch.last, self.end_offset + most - taken - 1) if is_exact else batch.last
            taken += last - self.end_offset + 1
            run = self._runs[-1] if self._runs else None
            if (
                run is not None
                and run.lock is lock
                and run.count == 1
                and self.end_offset - run.first < batch_size
            ):
                run.last = last
                self.end_offset = last + 1
            else:
                self._extend(last, _ACQUIRED, 1, lock)

    def _archive_free(self, first: int, last: int) -> None:
        """Archive available records that the log no longer has."""
        last = min(last, self.end_offset - 1)
        first = max(first, self.start_offset)
        if first > last:
            return
        at = self._index_of(first)
        while at < len(self._runs) and self._runs[at].first <= last:
            if self._runs[at].is_free:
                at = self._cut(max(first, self._runs[at].first), min(last, self._runs[at].last))
                self._runs[at].state = _ARCHIVED
            at += 1

    def _archive_aborted(self, lock: Lock, batch: Span) -> None:
        last = min(batch.last, self.end_offset - 1)
        first = max(batch.first, self.start_offset)
        if first > last:
            return
        at = self._index_of(first)
        while at < len(self._runs) and self._runs[at].first <= last:
            if self._runs[at].lock is lock:
                at = self._cut(max(first, self._runs[at].first), min(last, self._runs[at].last))
                self._runs[at].drop_lock()
                self._runs[at].state = _ARCHIVED
            at += 1

    # Changes

    def acknowledge(
        self, member: str, acknowledgements: Sequence[Acknowledgement], renewed: Lock | None = None
    ) -> StateChange:
        """Begin a change of records that the member holds; all of them, or none.

        `renewed` holds the records of type RENEW from now on, which are no part of the change; without it the
        type is unknown. What lies before the start offset is done already and is skipped. Raises ApiError:
        INVALID_REQUEST for an unknown type, a number of types that does not fit, and records that were never
        delivered; INVALID_RECORD_STATE for records that the member does not hold.
        """
        runs: list[_Run] = []
        renewals: list[_Run] = []
        try:
            for each in acknowledgements:
                _check_types(each, renews=renewed is not None)
                if each.last >= self.start_offset:
                    self._check_delivered(each)
                    runs += self._acknowledge_one(member, each, renewals)
        except ApiError:
            for run in runs:
                run.to = None
            raise
        for run in renewals:
            run.hold_under(renewed)
        return self._change(runs)

    def release(self, member: str) -> StateChange:
        """Begin to make everything available that the member holds; it counts as delivered, as from Kafka 4.4
        on.
        """
        runs = []
        for each in self._runs:
            if each.lock is not None and each.to is None and each.lock.member == member:
                each.to = self._available(each.count)
                runs.append(each)
        return self._change(runs)

    def expired(self, lock: Lock) -> StateChange:
        """Begin to make everything available that is still held under a lock whose time is over.

        `complete` applies it even if it could not be stored.
        """
        lock.is_over = True
        runs = []
        for each in self._held_under(lock):
            if each.to is None:
                each.to = self._available(each.count)
                runs.append(each)
        return self._change(runs)

    def undelivered(self) -> list[UndeliveredRange]:
        """Return the records that wait for the dead letter queue, in order.

        A stored state does not say why; of its records, those below the limit of deliveries count as
        rejected. (Kafka: maybeResumeDlqArchiving)
        """
        return [
            UndeliveredRange(each.first, each.last, each.count, each.is_rejected)
            for each in self._runs
            if each.state is _ARCHIVING
        ]

    def archive(self, spans: Iterable[Span]) -> StateChange:
        """Begin to archive the records of the spans that are ARCHIVING; each span is within one range.

        `complete` applies it even if it could not be stored: the records would be written again otherwise.
        """
        runs = []
        for first, last in spans:
            first = max(first, self.start_offset)
            if first > last or first >= self.end_offset or self.is_fenced:
                continue
            if self._runs[self._index_of(first)].state is _ARCHIVING:
                run = self._runs[self._cut(first, last)]
                run.to = _Next(_ARCHIVED, run.count)
                runs.append(run)
        return self._change(runs)

    def complete(self, change: StateChange, *, is_stored: bool) -> None:
        """Apply a change that is stored, or withdraw it. Records whose lock has ended meanwhile become
        available.
        """
        for each in change.runs:
            to, each.to = each.to, None
            lock = each.lock
            if to is None:
                continue
            if not is_stored and each.state is not _ARCHIVING:
                if lock is None or not lock.is_over:
                    continue
                to = self._available(each.count)
            each.state, each.count, each.is_rejected = to
            each.drop_lock()
            if each.state is _AVAILABLE:
                self._has_free = True
        self._move_start()

    def forget_before(self, offset: int) -> None:
        """Move the start offset to the log's, whose earlier records are deleted."""
        if offset <= self.start_offset:
            return
        gone = 0
        for run in self._runs:
            if run.last >= offset:
                run.first = max(run.first, offset)
                break
            run.drop_lock()
            gone += 1
        del self._runs[:gone]
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)
        self._move_start()

    def fence(self) -> None:
        """End the use of this object: cancel its locks."""
        self.is_fenced = True
        for each in self._runs:
            each.drop_lock()
        self._runs.clear()

    def _acknowledge_one(self, member: str, each: Acknowledgement, renewals: list[_Run]) -> list[_Run]:
        """Set what the records of one acknowledgement become, and add those to `renewals` whose lock is
        renewed. Raises ApiError; nothing is set then.
        """
        changed: list[_Run] = []
        try:
            for first, last, kind in _groups(each, self.start_offset):
                at = self._index_of(first)
                while at < len(self._runs) and self._runs[at].first <= last:
                    run = self._runs[at]
                    if run.lock is None or run.lock.member != member or run.to is not None:
                        raise ApiError(
                            ErrorCode.INVALID_RECORD_STATE,
                            f"The records from {max(first, run.first)} are not acquired by the member",
                        )
                    at = self._cut(max(first, run.first), min(last, run.last))
                    run = self._runs[at]
                    at += 1
                    if kind == RENEW:
                        renewals.append(run)
                        continue
                    run.to = self._acknowledged(kind, run.count)
                    changed.append(run)
        except ApiError:
            for run in changed:
                run.to = None
            raise
        return changed

    def _check_delivered(self, each: Acknowledgement) -> None:
        if not self._runs:
            raise ApiError(ErrorCode.INVALID_RECORD_STATE, "No records are in flight")
        if each.last >= self.end_offset:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"The records from {self.end_offset} were not delivered yet"
            )

    def _acknowledged(self, kind: int, count: int) -> _Next:
        """Return what records become by an acknowledgement that ends their delivery."""
        if kind == RELEASE:
            return self._available(count)
        if kind == REJECT:
            return _Next(self.limits.undelivered(), count, is_rejected=True)
        return _Next(RecordState.ACKNOWLEDGED if kind == ACCEPT else _ARCHIVED, count)

    def _available(self, count: int) -> _Next:
        """Return what records become after a delivery that failed."""
        return _Next(self.limits.undelivered() if count >= self.limits.deliveries else _AVAILABLE, count)

    def _change(self, runs: list[_Run]) -> StateChange:
        batches = []
        for each in sorted(runs, key=_first):
            assert each.to is not None
            batches.append(StateBatch(each.first, each.last, each.to.state, each.to.deliveries))
        start = self.end_offset
        changed = set(runs)
        for each in self._runs:
            state = each.to.state if each in changed and each.to is not None else each.state
            if not state.is_terminal:
                start = each.first
                break
        return StateChange(runs, merged(batches), start)

    # The runs

    def _extend(self, last: int, state: RecordState, count: int, lock: Lock | None = None) -> None:
        """Append a run up to `last`, unless the end is past it."""
        if last >= self.end_offset:
            self._runs.append(_Run(self.end_offset, last, state, count, lock))
            self.end_offset = last + 1

    def _held_under(self, lock: Lock) -> Iterator[_Run]:
        return (each for each in self._runs if each.lock is lock)

    def _index_of(self, offset: int) -> int:
        """Return the index of the run with this offset, or of the first one."""
        return max(bisect_right(self._runs, offset, key=_first) - 1, 0)

    def _cut(self, first: int, last: int) -> int:
        """Make a run of exactly these records, which are within one run; return its index."""
        at = self._index_of(first)
        run = self._runs[at]
        if run.first < first:
            before = _Run(run.first, first - 1, run.state, run.count, run.lock)
            before.is_rejected = run.is_rejected
            run.first = first
            self._runs.insert(at, before)
            at += 1
        if run.last > last:
            after = _Run(last + 1, run.last, run.state, run.count, run.lock)
            after.is_rejected = run.is_rejected
            run.last = last
            self._runs.insert(at + 1, after)
        return at

    def _move_start(self) -> None:
        """Move the start offset past everything that is done."""
        done = 0
        for each in self._runs:
            if not each.state.is_terminal:
                break
            done += 1
        if done:
            self.start_offset = self._runs[done - 1].last + 1
            del self._runs[:done]


def _end_of_batch(batches: Sequence[Span], offset: int) -> int:
    """Return the last offset of the batch with this offset; the offset itself between batches."""
    at = bisect_right(batches, offset, key=_first) - 1
    return max(batches[at].last, offset) if at >= 0 else offset


def _check_types(each: Acknowledgement, *, renews: bool) -> None:
    if each.first > each.last or len(each.types) not in (1, each.last - each.first + 1):
        raise ApiError(ErrorCode.INVALID_REQUEST, "The acknowledge types do not fit the offsets")
    if not are_known(each.types, renews=renews):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Unknown acknowledge type")


def are_known(types: Iterable[int], *, renews: bool) -> bool:
    """Return whether all are acknowledge types; `renews`: RENEW too."""
    return all(kind in _ENDING or (renews and kind == RENEW) for kind in set(types))


def _groups(each: Acknowledgement, start_offset: int) -> Iterator[tuple[int, int, int]]:
    """Yield ranges (first, last, type) from the start offset on."""
    if len(each.types) == 1:
        yield max(each.first, start_offset), each.last, each.types[0]
        return
    first = max(each.first, start_offset)
    types = each.types
    while first <= each.last:
        kind = types[first - each.first]
        last = first
        while last < each.last and types[last + 1 - each.first] == kind:
            last += 1
        yield first, last, kind
        first = last + 1
