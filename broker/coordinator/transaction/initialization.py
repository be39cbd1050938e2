"""InitProducerId with a transactional id: which producer id and epoch it gets. (Kafka:
TransactionCoordinator.handleInitProducerId, KIP-360)
"""

from typing import NamedTuple

from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.coordinator.producer_ids import NeedsProducerId, NewProducerId
from broker.coordinator.transaction.ending import fence
from broker.coordinator.transaction.state import (
    DECIDED,
    IDLE,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionChange,
    TransactionData,
    TransactionState,
    is_exhausted,
)


class KnownProducer(NamedTuple):
    """The id and epoch that a producer states to continue with its next epoch."""

    producer_id: int
    epoch: int


def initialize(
    transaction: Transaction,
    timeout_ms: int,
    known: KnownProducer | None,
    new_producer_id: NewProducerId,
    wall_ms: int,
) -> ErrorCode | TransactionChange:
    """Return the change that gives the producer its epoch, or the error.

    An ongoing transaction is aborted first: the change is then to PREPARE_ABORT, and the client must ask
    again.
    """
    data = transaction.data
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if known is not None and not _may_continue(data, known):
        return ErrorCode.PRODUCER_FENCED
    if data.state in DECIDED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if data.state is TransactionState.ONGOING:
        return fence(transaction, wall_ms)
    assert data.state in IDLE
    epochs = _next_epoch(data, known)
    if isinstance(epochs, ErrorCode):
        return epochs
    producer_id, previous = data.producer_id, data.previous_producer_id
    epoch, last_epoch = epochs
    if epoch == NO_EPOCH:
        rotated = new_producer_id()
        if rotated is None:
            raise NeedsProducerId
        producer_id, previous, epoch = rotated, producer_id, 0
    return TransactionChange(
        transaction,
        replace(
            data,
            producer_id=producer_id,
            previous_producer_id=previous,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            started_ms=-1,
            updated_ms=wall_ms,
        ),
    )


def _may_continue(data: TransactionData, known: KnownProducer) -> bool:
    """Return whether the stated producer may be the present one; its epoch is checked later.

    A new transactional id has no epoch yet. A producer whose epochs were exhausted may repeat the request
    that gave it another id.
    """
    return (
        data.producer_epoch == NO_EPOCH
        or known.producer_id == data.producer_id
        or (known.producer_id == data.previous_producer_id and is_exhausted(known.epoch))
    )


def _next_epoch(data: TransactionData, known: KnownProducer | None) -> ErrorCode | tuple[int, int]:
    """Return the new epoch and the last one; a new epoch of -1 needs another producer id."""
    if data.is_exhausted and (known is None or known.epoch == data.producer_epoch):
        return NO_EPOCH, NO_EPOCH if known is None else data.producer_epoch
    if known is None:
        return data.producer_epoch + 1, NO_EPOCH
    if data.producer_epoch in (NO_EPOCH, known.epoch):
        return data.producer_epoch + 1, data.producer_epoch
    if known.epoch == data.last_epoch:
        return data.producer_epoch, data.last_epoch  # it repeats a request that succeeded
    return ErrorCode.PRODUCER_FENCED
