"""The end of a transaction: EndTxn, and the abort of one that is fenced or timed out. (Kafka:
TransactionCoordinator.endTransaction, KIP-890)

A client of TV2 gets a new epoch with each end, so that a late request of the ended transaction is fenced.
"""

from typing import Final, NamedTuple

from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.coordinator.producer_ids import NeedsProducerId, NewProducerId
from broker.coordinator.transaction.state import (
    DECIDED,
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionChange,
    TransactionData,
    TransactionState,
)

BUMPS_EPOCH: Final = 2
"""The transaction version (TV2) from which each end gives the producer a new epoch."""


class EndRequest(NamedTuple):
    """EndTxn. `client_version`: the transaction version of the client."""

    producer_id: int
    epoch: int
    is_commit: bool
    client_version: int


def end(
    transaction: Transaction | None, request: EndRequest, new_producer_id: NewProducerId, wall_ms: int
) -> ErrorCode | TransactionChange:
    """Return the change that decides the transaction, or an error; NONE for a request that is repeated."""
    if transaction is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    bumps = request.client_version >= BUMPS_EPOCH
    data = transaction.data
    is_retry = bumps and _repeats(data, request)
    if data.producer_id != request.producer_id and not is_retry:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.epoch != data.producer_epoch and not is_retry:
        return ErrorCode.PRODUCER_FENCED
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if data.state is TransactionState.ONGOING:
        return (
            ErrorCode.PRODUCER_FENCED if is_retry else _decide(transaction, request, new_producer_id, wall_ms)
        )
    wanted = TransactionState.PREPARE_COMMIT if request.is_commit else TransactionState.PREPARE_ABORT
    if data.state in DECIDED:
        # With its new epoch, the producer ends the next transaction before the markers of this one are there.
        is_next = bumps and not is_retry
        return (
            ErrorCode.CONCURRENT_TRANSACTIONS
            if is_next or data.state is wanted
            else ErrorCode.INVALID_TXN_STATE
        )
    if data.state is _completed(wanted) and (is_retry or not bumps):
        return ErrorCode.NONE
    if bumps and not is_retry and not request.is_commit:
        # Nothing was written; the producer still gets its new epoch.
        return _decide(transaction, request, new_producer_id, wall_ms)
    return ErrorCode.INVALID_TXN_STATE


def fence(transaction: Transaction, wall_ms: int) -> TransactionChange:
    """Return the change that aborts an ongoing transaction, with an epoch that its producer does not have."""
    data = transaction.data
    fenced = replace(
        data,
        state=TransactionState.PREPARE_ABORT,
        producer_epoch=min(data.producer_epoch + 1, LAST_EPOCH),
        last_epoch=NO_EPOCH,
        client_version=0,  # so that an EndTxn of the fenced producer is not taken for a repeated one
        updated_ms=wall_ms,
    )
    return TransactionChange(transaction, fenced)


def complete(data: TransactionData, wall_ms: int) -> TransactionData:
    """Return the state after the last marker was written."""
    if data.next_producer_id != NO_PRODUCER_ID:
        data = replace(
            data,
            producer_id=data.next_producer_id,
            previous_producer_id=data.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=0,
        )
    return replace(data, state=_completed(data.state), partitions=frozenset(), updated_ms=wall_ms)


def _completed(state: TransactionState) -> TransactionState:
    return (
        TransactionState.COMPLETE_COMMIT
        if state is TransactionState.PREPARE_COMMIT
        else TransactionState.COMPLETE_ABORT
    )


def _repeats(data: TransactionData, request: EndRequest) -> bool:
    """Return whether the request's epoch is the one before a bump that its response would have contained."""
    if data.client_version < BUMPS_EPOCH:
        return False
    if data.producer_id == request.producer_id:
        return data.producer_epoch == request.epoch + 1
    return (
        data.previous_producer_id == request.producer_id
        and request.epoch == LAST_EPOCH - 1
        and data.producer_epoch == 0
    )


def _decide(
    transaction: Transaction, request: EndRequest, new_producer_id: NewProducerId, wall_ms: int
) -> TransactionChange:
    data = transaction.data
    epoch, last_epoch, next_id = data.producer_epoch, data.last_epoch, NO_PRODUCER_ID
    if request.client_version >= BUMPS_EPOCH:
        if data.is_exhausted:
            rotated = new_producer_id()
            if rotated is None:
                raise NeedsProducerId
            next_id = rotated
        epoch, last_epoch = epoch + 1, epoch
    decided = replace(
        data,
        state=TransactionState.PREPARE_COMMIT if request.is_commit else TransactionState.PREPARE_ABORT,
        producer_epoch=epoch,
        last_epoch=last_epoch,
        next_producer_id=next_id,
        started_ms=data.started_ms if data.state is TransactionState.ONGOING else wall_ms,
        updated_ms=wall_ms,
        client_version=request.client_version,
    )
    return TransactionChange(transaction, decided)
