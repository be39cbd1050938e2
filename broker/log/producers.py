"""Which sequence number of an idempotent producer comes next, per partition (KIP-98; Kafka's
ProducerStateManager).

Owned by a PartitionLog: `check` before a batch is taken, `add` when it is staged, `undo` when staged batches
could not be written. Pure; `snapshot` knows how it lies on the disk. Transactions are not tracked yet.
"""

from typing import Final, NamedTuple

from broker.errors import ApiError, ErrorCode

REMEMBERED_BATCHES: Final = 5
"""Kafka's ProducerStateEntry.NUM_BATCHES_TO_RETAIN: the most that a producer has in flight, so a retry is
recognised.
"""

_SEQUENCE_MAX: Final = 0x7FFF_FFFF


class TakenBatch(NamedTuple):
    """A batch that is in the log: sequences and offsets of its first and last record, its greatest
    timestamp.
    """

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp: int


class Producer(NamedTuple):
    """`seen_ms` is the broker's wall clock at the last append. `batches` has the newest last, and is never
    empty.
    """

    epoch: int
    seen_ms: int
    batches: tuple[TakenBatch, ...]


def sequence_after(first: int, delta: int) -> int:
    """Sequences go from 0 to 2^31 - 1 and start again at 0."""
    return (first + delta) & _SEQUENCE_MAX


class Producers:
    """Every producer that a partition remembers."""

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
        """From a snapshot."""
        self._producers[producer_id] = producer

    def check(self, producer_id: int, epoch: int, first_sequence: int, delta: int) -> TakenBatch | None:
        """None: it comes next, or nothing is known of the producer. A batch: this is that one again.

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
        """`check` has been asked about it. Stays undoable until `settle`."""
        known = self._producers.get(producer_id)
        if producer_id not in self._before:
            self._before[producer_id] = known
        if known is None or known.epoch != epoch:
            batches: tuple[TakenBatch, ...] = (batch,)
        else:
            batches = (*known.batches[1 - REMEMBERED_BATCHES :], batch)
        self._producers[producer_id] = Producer(epoch, now_ms, batches)

    def settle(self) -> None:
        """What was added is written."""
        if self._before:
            self._before = {}

    def undo(self) -> None:
        """Nothing of what was added since `settle` has been written."""
        for producer_id, producer in self._before.items():
            if producer is None:
                del self._producers[producer_id]
            else:
                self._producers[producer_id] = producer
        self._before = {}

    def expire(self, before_ms: int) -> int:
        """Forgets producers that were last seen at `before_ms` or earlier, and says how many."""
        gone = [each for each, producer in self._producers.items() if producer.seen_ms <= before_ms]
        for producer_id in gone:
            del self._producers[producer_id]
        return len(gone)

    def clear(self) -> None:
        self._producers = {}
        self._before = {}
