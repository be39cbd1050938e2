"""Sequence numbers and transactions of producers, per partition (KIP-98; Kafka's ProducerStateManager).

Owned by a PartitionLog: `check` before a batch is staged, `add` when it is staged, `undo` when staged batches
could not be written; `check_end` and `end` for the marker of a transaction. Pure.

`snapshot` and `parse_snapshot` define the content of Kafka's `.snapshot` file (ProducerSnapshot, version 1),
which is written when a segment is rolled and at a clean shutdown, and read at startup:

    version i16 | crc32c u32 over what follows | count i32 | count entries of 48 bytes

It stores only the last batch of each producer, as Kafka's; recovery restores earlier ones from the log.
"""

from collections.abc import Callable
from operator import attrgetter, itemgetter
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from broker.common.errors import ApiError, ErrorCode
from broker.common.idle import idlest
from broker.common.slices import Steps
from broker.records.control import NEW_EPOCH_SINCE, Marker

MAX_PRODUCERS: Final = 2_048
"""Producers of a partition; one more evicts the eighth of them that was idle longest. Ours, as clients choose
their producer ids, and a snapshot of all is written with each roll, in two milliseconds. A producer that was
evicted goes on like a new one: only a batch that it repeats is not recognized.
"""


RETAINED_BATCHES: Final = 5
"""Batches kept per producer to recognise retries: the most that a producer has in flight.

Kafka's ProducerStateEntry.NUM_BATCHES_TO_RETAIN.
"""

LAST_EPOCH: Final = 0x7FFF
"""The last epoch of a producer id."""

_SEQUENCE_MAX: Final = 0x7FFF_FFFF

_HEAD: Final = Struct(">hIi")
_CRC_FROM: Final = 6
_ENTRY: Final = Struct(">qhiqiqiq")
"""Producer id, epoch, last sequence, last offset, offset delta, time, coordinator epoch, first offset of a
transaction.
"""
_VERSION: Final = 1
_NONE: Final = -1


class BatchMetadata(NamedTuple):
    """A batch in the log: sequences and offsets of its first and last record, and its greatest timestamp."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp: int


class ProducerStateEntry(NamedTuple):
    """State of one producer.

    `seen_ms` is the broker's wall clock at the last append. `batches` ends with the newest, and is empty
    after a marker with a new epoch. `coordinator_epoch` is that of the last marker, or -1; `first_offset`
    that of its transaction's first record, or -1.
    """

    epoch: int
    seen_ms: int
    batches: tuple[BatchMetadata, ...]
    coordinator_epoch: int = -1
    first_offset: int = -1


_NO_BATCH: Final = BatchMetadata(_NONE, _NONE, _NONE, _NONE, _NONE)


_seen_ms: Callable[[ProducerStateEntry], int] = attrgetter("seen_ms")


def sequence_after(first: int, delta: int) -> int:
    """Return the sequence `delta` after `first`; sequences wrap from 2^31 - 1 to 0."""
    return (first + delta) & _SEQUENCE_MAX


def _old_epoch(producer_id: int, epoch: int, last: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch {last}",
    )


class ProducerStates:
    """The producer states of one partition."""

    __slots__ = ("_before", "_first", "_producers", "_refused", "ongoing")

    def __init__(self) -> None:
        self._producers: dict[int, ProducerStateEntry] = {}
        self._before: dict[int, ProducerStateEntry | None] = {}
        self._first: dict[int, tuple[int, int]] = {}
        """Epoch and first sequence of the staged batches with which unknown producers begin."""
        self._refused: dict[int, tuple[int, int]] = {}
        """The same of unknown producers whose batch could not be written: it must come before any other."""
        self.ongoing: dict[int, int] = {}
        """The first offset of each producer's transaction, in ascending order."""

    def __len__(self) -> int:
        return len(self._producers)

    def ids(self) -> list[int]:
        """Return the producer ids, in no order."""
        return list(self._producers)

    def items(self) -> list[tuple[int, ProducerStateEntry]]:
        return sorted(self._producers.items())

    def get(self, producer_id: int) -> ProducerStateEntry | None:
        return self._producers.get(producer_id)

    def restore(self, producer_id: int, producer: ProducerStateEntry) -> None:
        """Set a producer's state from a snapshot."""
        self._producers[producer_id] = producer

    @property
    def first_ongoing(self) -> int:
        """The first offset of all ongoing transactions, or -1."""
        return next(iter(self.ongoing.values())) if self.ongoing else _NONE

    def has_ongoing(self, producer_id: int, epoch: int) -> bool:
        """Return whether the producer has written records in a transaction of this epoch."""
        return producer_id in self.ongoing and self._producers[producer_id].epoch == epoch

    def check(
        self, producer_id: int, epoch: int, first_sequence: int, delta: int, transactional: bool = False
    ) -> BatchMetadata | None:
        """Return the stored batch that this one repeats, or None for the next batch or an unknown producer.

        Raises ApiError: INVALID_PRODUCER_EPOCH (a newer instance of the producer has written),
        OUT_OF_ORDER_SEQUENCE_NUMBER (batches are missing, or a new epoch does not start at 0),
        INVALID_TXN_STATE (not `transactional`, but in the producer's transaction).
        """
        known = self._producers.get(producer_id)
        if known is None:
            if self._refused:
                self._check_refused(producer_id, epoch, first_sequence)
            return None
        if epoch >= known.epoch and known.first_offset >= 0 and not transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE, f"Expected transactional write from producer {producer_id}"
            )
        if epoch == known.epoch:
            last = known.batches[-1].last_sequence if known.batches else _NONE
            if first_sequence == (last + 1) & _SEQUENCE_MAX:
                return None
            last_sequence = sequence_after(first_sequence, delta)
            for batch in known.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {producer_id}: {first_sequence}"
                f" (incoming seq. number), {last} (current end sequence number)",
            )
        if epoch < known.epoch:
            raise _old_epoch(producer_id, epoch, known.epoch)
        if first_sequence != 0:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for new epoch of producer {producer_id}: {epoch} (request epoch),"
                f" {first_sequence} (seq. number), {known.epoch} (current producer epoch)",
            )
        return None

    def _check_refused(self, producer_id: int, epoch: int, first_sequence: int) -> None:
        refused_epoch, expected = self._refused.get(producer_id, (epoch, first_sequence))
        if epoch == refused_epoch and first_sequence != expected:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {producer_id}: {first_sequence}"
                f" (incoming seq. number), {expected} (that of a batch that could not be written)",
            )

    def refuse(self, producer_id: int, epoch: int, first_sequence: int) -> None:
        """Note that a batch that passed `check` could not be written. Of an unknown producer any sequence is
        accepted, so its next batch would take the place of this one, which the client takes for written then.
        """
        refused = self._refused.get(producer_id)
        if producer_id in self._producers or (refused is not None and refused[0] == epoch):
            return
        self._refused[producer_id] = epoch, first_sequence
        if len(self._refused) > MAX_PRODUCERS:
            del self._refused[next(iter(self._refused))]

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Check a batch that the broker writes for a producer. Raises ApiError INVALID_PRODUCER_EPOCH."""
        known = self._producers.get(producer_id)
        if known is not None and epoch < known.epoch:
            raise _old_epoch(producer_id, epoch, known.epoch)

    def check_end(self, producer_id: int, epoch: int, marker: Marker) -> None:
        """Check a marker. Raises ApiError INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.

        One that must have a new epoch may be written again with the same one when its transaction has ended.
        """
        self.check_epoch(producer_id, epoch)
        known = self._producers.get(producer_id)
        if known is None:
            return
        is_repeated = known.first_offset < 0 or epoch == LAST_EPOCH
        if marker.transaction_version >= NEW_EPOCH_SINCE and epoch == known.epoch and not is_repeated:
            raise _old_epoch(producer_id, epoch, known.epoch)
        if marker.coordinator_epoch < known.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producer {producer_id}: {marker.coordinator_epoch} (zombie),"
                f" {known.coordinator_epoch} (current)",
            )

    def end(self, producer_id: int, epoch: int, coordinator_epoch: int, now_ms: int) -> int:
        """Record a staged marker that passed `check_end`; return the transaction's first offset.

        Returns -1 if the producer has written nothing since its last marker. `undo` reverts it until
        `settle`.
        """
        known = self._producers.get(producer_id)
        if known is None and len(self._producers) >= MAX_PRODUCERS:
            self._evict()
        if producer_id not in self._before:
            self._before[producer_id] = known
        batches = () if known is None or known.epoch != epoch else known.batches
        self._producers[producer_id] = ProducerStateEntry(epoch, now_ms, batches, coordinator_epoch)
        return self.ongoing.pop(producer_id, _NONE)

    def add(
        self, producer_id: int, epoch: int, batch: BatchMetadata, now_ms: int, transactional: bool = False
    ) -> None:
        """Record a staged batch that passed `check`. `undo` reverts it until `settle`."""
        known = self._producers.get(producer_id)
        if known is None and len(self._producers) >= MAX_PRODUCERS:
            self._evict()
        if producer_id not in self._before:
            self._before[producer_id] = known
            if known is None:
                self._first[producer_id] = epoch, batch.first_sequence
        if known is None or known.epoch != epoch:
            batches: tuple[BatchMetadata, ...] = (batch,)
        else:
            batches = (*known.batches[1 - RETAINED_BATCHES :], batch)
        coordinator_epoch, first_offset = _NONE, _NONE
        if known is not None:
            coordinator_epoch, first_offset = known.coordinator_epoch, known.first_offset
        if transactional and first_offset < 0:
            first_offset = self.ongoing[producer_id] = batch.base_offset
        self._producers[producer_id] = ProducerStateEntry(
            epoch, now_ms, batches, coordinator_epoch, first_offset
        )

    def settle(self) -> None:
        """Make the added batches permanent after they were written."""
        if self._before:
            self._before = {}
        if self._first:
            if self._refused:
                for producer_id in self._first:
                    self._refused.pop(producer_id, None)
            self._first = {}

    def undo(self) -> None:
        """Revert every `add` since the last `settle`."""
        for producer_id, producer in self._before.items():
            if producer is None:
                self._producers.pop(producer_id, None)
            else:
                self._producers[producer_id] = producer
        self._before = {}
        for producer_id, (epoch, first_sequence) in self._first.items():
            self.refuse(producer_id, epoch, first_sequence)
        self._first = {}
        self.find_ongoing()

    def find_ongoing(self) -> None:
        """Find the ongoing transactions among the producers, after `restore` or `undo`."""
        ongoing = [
            (each, state.first_offset) for each, state in self._producers.items() if state.first_offset >= 0
        ]
        self.ongoing = dict(sorted(ongoing, key=itemgetter(1)))

    def _evict(self) -> None:
        for producer_id in idlest(self._producers, _seen_ms):
            if producer_id not in self.ongoing:
                del self._producers[producer_id]

    def expire(self, before_ms: int) -> Steps[None]:
        """Remove producers last seen at `before_ms` or earlier, but for those in a transaction."""
        for producer_id in list(self._producers):
            producer = self._producers.get(producer_id)
            if producer is not None and producer.seen_ms <= before_ms and producer.first_offset < 0:
                del self._producers[producer_id]
            yield


def snapshot(producers: ProducerStates) -> bytes:
    entries = []
    for producer_id, producer in producers.items():
        last = producer.batches[-1] if producer.batches else _NO_BATCH
        delta = last.last_offset - last.base_offset
        entries.append(
            _ENTRY.pack(
                producer_id,
                producer.epoch,
                last.last_sequence,
                last.last_offset,
                delta,
                producer.seen_ms,
                producer.coordinator_epoch,
                producer.first_offset,
            )
        )
    body = len(entries).to_bytes(4, "big") + b"".join(entries)
    return _HEAD.pack(_VERSION, crc32c(body), len(entries)) + body[4:]


def parse_snapshot(content: bytes) -> ProducerStates | None:
    """Return the producers; None for a damaged file or an unknown version."""
    if len(content) < _HEAD.size:
        return None
    version, crc, count = _HEAD.unpack_from(content)
    if version != _VERSION or crc32c(content[_CRC_FROM:]) != crc:
        return None
    if len(content) != _HEAD.size + count * _ENTRY.size:
        return None
    producers = ProducerStates()
    for producer_id, epoch, sequence, offset, delta, seen_ms, *transaction in _ENTRY.iter_unpack(
        content[_HEAD.size :]
    ):
        batches: tuple[BatchMetadata, ...] = ()
        if offset >= 0:
            first_sequence = sequence_after(sequence, -delta)
            batches = (BatchMetadata(first_sequence, sequence, offset - delta, offset, seen_ms),)
        producers.restore(producer_id, ProducerStateEntry(epoch, seen_ms, batches, *transaction))
    producers.find_ongoing()
    return producers
