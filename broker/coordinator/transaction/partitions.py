"""Partitions of a transaction: added by AddPartitionsToTxn and AddOffsetsToTxn, by Produce and
TxnOffsetCommit of clients with KIP-890, and verified for every other write. (Kafka:
handleAddPartitionsToTransaction, handleVerifyPartitionsInTransaction)
"""

from collections.abc import Collection

from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.coordinator.transaction.state import (
    DECIDED,
    TopicPartition,
    Transaction,
    TransactionChange,
    TransactionState,
)


def add(
    transaction: Transaction | None,
    producer_id: int,
    epoch: int,
    partitions: Collection[TopicPartition],
    client_version: int,
    wall_ms: int,
) -> ErrorCode | TransactionChange:
    """Return the change that adds the partitions, or an error; NONE if the transaction has all of them."""
    if transaction is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    error = _check(transaction, producer_id, epoch)
    if error:
        return error
    data = transaction.data
    is_ongoing = data.state is TransactionState.ONGOING
    if is_ongoing and data.partitions.issuperset(partitions):
        return ErrorCode.NONE
    added = replace(
        data,
        state=TransactionState.ONGOING,
        partitions=data.partitions.union(partitions) if is_ongoing else frozenset(partitions),
        started_ms=data.started_ms if is_ongoing else wall_ms,
        updated_ms=wall_ms,
        client_version=client_version,
    )
    return TransactionChange(transaction, added)


def verify(
    transaction: Transaction | None, producer_id: int, epoch: int, partition: TopicPartition
) -> ErrorCode:
    """Return TRANSACTION_ABORTABLE if the partition is not in the producer's transaction."""
    if transaction is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    error = _check(transaction, producer_id, epoch)
    if error:
        return error
    data = transaction.data
    is_in = data.state is TransactionState.ONGOING and partition in data.partitions
    return ErrorCode.NONE if is_in else ErrorCode.TRANSACTION_ABORTABLE


def _check(transaction: Transaction, producer_id: int, epoch: int) -> ErrorCode:
    data = transaction.data
    if data.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if data.producer_epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if data.state in DECIDED else ErrorCode.NONE
