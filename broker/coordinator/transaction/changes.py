"""What InitProducerId, EndTxn and timeouts change in a transaction, and new producer ids.

A client of TV2 gets a new epoch with each end, so that a late request of the ended transaction is fenced. New
producer ids come from blocks allocated in the metadata log, which the handlers request from control. A partly
used block is not reused after a restart, so that ids are unique. (Kafka: TransactionCoordinator
handleInitProducerId and endTransaction, ProducerIdManager; KIP-360, KIP-890)
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.coordinator.transaction.state import (
    DECIDED,
    IDLE,
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionChange,
    TransactionData,
    TransactionState,
    is_exhausted,
)


class ProducerIds:
    """The allocated blocks, in order."""

    def __init__(self) -> None:
        self._blocks: deque[Iterator[int]] = deque()

    def take(self) -> int | None:
        """Return a new unique id; None if another block is needed first."""
        while self._blocks:
            taken = next(self._blocks[0], None)
            if taken is not None:
                return taken
            self._blocks.popleft()
        return None

    def add(self, block: range) -> None:
        self._blocks.append(iter(block))


NewProducerId = Callable[[], int | None]
"""Returns a producer id that was never used; None if a block of them must be allocated first."""


class NeedsProducerId(Exception):  # noqa: N818 - not an error
    """A new producer id is needed and none is left: allocate a block, and call again."""


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
    repeats = bumps and _repeats(data, request)
    if data.producer_id != request.producer_id and not repeats:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    # An InitProducerId forgets the end before it.
    is_retry = repeats and data.state is not TransactionState.EMPTY
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
    """Return the change that aborts an ongoing transaction, with an epoch that its producer does not have.

    An abort of that producer is taken for a repeated one, and gets the epoch, until another producer has
    begun: so it goes on after a timeout. (Kafka: endTxnEpochBumped)
    """
    data = transaction.data
    fenced = replace(
        data,
        state=TransactionState.PREPARE_ABORT,
        producer_epoch=min(data.producer_epoch + 1, LAST_EPOCH),
        last_epoch=NO_EPOCH,
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
