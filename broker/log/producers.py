"""Sequence numbers of idempotent producers, per partition (KIP-98; Kafka's ProducerStateManager).

Owned by a PartitionLog: `check` before a batch is staged, `add` when it is staged, `undo` when staged batches
could not be written. Pure; `snapshot` defines the file format. Transactions are not tracked yet.
"""

from typing import Final, NamedTuple

from broker.errors import ApiError, ErrorCode

REMEMBERED_BATCHES: Final = 5
"""Batches kept per producer to recognise retries: the most that a producer has in flight.

Kafka's ProducerStateEntry.NUM_BATCHES_TO_RETAIN.
"""

_SEQUENCE_MAX: Final = 0x7FFF_FFFF


class TakenBatch(NamedTuple):
    """A batch in the log: sequences and offsets of its first and last record, and its greatest timestamp."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp: int


class Producer(NamedTuple):
    """State of one producer.

    `seen_ms` is the broker's wall clock at the last append. `batches` is never empty and ends with the
    newest.
    """

    epoch: int
    seen_ms: int
    batches: tuple[TakenBatch, ...]


def sequence_after(first: int, delta: int) -> int:
    """Return the sequence `delta` after `first`; sequences wrap from 2^31 - 1 to 0."""
    return (first + delta) & _SEQUENCE_MAX


class Producers:
    """The producer states of one partition."""

    __slots__ = ("_before", "_producers")

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        self._before: dict[int, Producer | None] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def items(self) -> list[tuple[int, Producer]]:
        return sorted(self._producers.items())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def restore(self, producer_id: int, producer: Producer) -> None:
        """Set a producer's state from a snapshot."""
        self._producers[producer_id] = producer

    def check(self, producer_id: int, epoch: int, first_sequence: int, delta: int) -> TakenBatch | None:
        """Return the stored batch that this one repeats, or None for the next batch or an unknown producer.

        Raises ApiError: INVALID_PRODUCER_EPOCH (a newer instance of the producer has written),
        OUT_OF_ORDER_SEQUENCE_NUMBER (batches are missing, or a new epoch does not start at 0).
        """
        known = self._producers.get(producer_id)
        if known is None:
            return None
        if epoch == known.epoch:
            last = known.batches[-1].last_sequence
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
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch"
                f" {known.epoch}",
            )
        if first_sequence != 0:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for new epoch of producer {producer_id}: {epoch} (request epoch),"
                f" {first_sequence} (seq. number), {known.epoch} (current producer epoch)",
            )
        return None

    def add(self, producer_id: int, epoch: int, batch: TakenBatch, now_ms: int) -> None:
        """Record a staged batch that passed `check`. `undo` reverts it until `settle`."""
        known = self._producers.get(producer_id)
        if producer_id not in self._before:
            self._before[producer_id] = known
        if known is None or known.epoch != epoch:
            batches: tuple[TakenBatch, ...] = (batch,)
        else:
            batches = (*known.batches[1 - REMEMBERED_BATCHES :], batch)
        self._producers[producer_id] = Producer(epoch, now_ms, batches)

    def settle(self) -> None:
        """Make the added batches permanent after they were written."""
        if self._before:
            self._before = {}

    def undo(self) -> None:
        """Revert every `add` since the last `settle`."""
        for producer_id, producer in self._before.items():
            if producer is None:
                del self._producers[producer_id]
            else:
                self._producers[producer_id] = producer
        self._before = {}

    def expire(self, before_ms: int) -> int:
        """Remove producers last seen at `before_ms` or earlier and return their number."""
        gone = [each for each, producer in self._producers.items() if producer.seen_ms <= before_ms]
        for producer_id in gone:
            del self._producers[producer_id]
        return len(gone)

    def clear(self) -> None:
        self._producers = {}
        self._before = {}
