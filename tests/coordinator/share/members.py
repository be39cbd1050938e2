"""Members of a share group that read one partition, without a log: every batch has these offsets."""

from collections.abc import Sequence

from broker.coordinator.share.share_partition import (
    DEFAULT_LIMITS,
    Acknowledgement,
    AcquiredRange,
    Lock,
    ShareLimits,
    SharePartition,
    Span,
    StateChange,
)
from broker.coordinator.share.states import RecordState, SharePartitionKey, StateBatch

KEY = SharePartitionKey("readers", bytes(15) + b"\1", 0)

AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED

ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0


def tens(until: int, start: int = 0) -> list[Span]:
    """Batches of ten records."""
    return [Span(first, first + 9) for first in range(start, until, 10)]


class Group:
    """A share partition whose log has the `batches`. `now_ms` is the time; a lock takes 30 seconds."""

    def __init__(
        self,
        batches: Sequence[Span],
        start: int = 0,
        states: Sequence[StateBatch] = (),
        *,
        limits: ShareLimits = DEFAULT_LIMITS,
    ) -> None:
        self.batches = batches
        self.partition = SharePartition(start, states, limits)
        self.locks: list[Lock] = []

    def fetch(
        self,
        member: str = "a",
        records: int = 500,
        batch_size: int = 500,
        aborted: Sequence[Span] = (),
        *,
        is_exact: bool = False,
    ) -> list[AcquiredRange]:
        offset = self.partition.next_fetch_offset()
        read = [each for each in self.batches if each.last >= offset]
        lock = Lock(KEY, member, 30_000)
        self.locks.append(lock)
        return self.partition.acquire(lock, offset, read, records, batch_size, aborted, is_exact=is_exact)

    def begin(self, member: str, first: int, last: int, *types: int) -> StateChange:
        return self.partition.acknowledge(member, [Acknowledgement(first, last, types)])

    def renew(self, member: str, first: int, last: int, *types: int) -> Lock:
        """Acknowledge records, of which those of type RENEW are held by the lock that is returned."""
        lock = Lock(KEY, member, 60_000)
        acknowledgement = Acknowledgement(first, last, types)
        change = self.partition.acknowledge(member, [acknowledgement], lock)
        self.partition.complete(change, is_stored=True)
        return lock

    def acknowledge(self, member: str, first: int, last: int, *types: int) -> tuple[StateBatch, ...]:
        change = self.begin(member, first, last, *types)
        self.partition.complete(change, is_stored=True)
        return tuple(change.batches)

    def expire(self, number: int = -1) -> tuple[StateBatch, ...]:
        """End the time of a lock, by default of the last one."""
        change = self.partition.expired(self.locks[number])
        self.partition.complete(change, is_stored=True)
        return tuple(change.batches)

    @property
    def span(self) -> tuple[int, int]:
        return self.partition.start_offset, self.partition.end_offset

    @property
    def states(self) -> tuple[StateBatch, ...]:
        return self.partition.states()
