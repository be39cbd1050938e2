"""The transaction coordinator: all transactional ids of this broker, and what is due for them.

Called by `coordinator.transaction_service`, which writes each `TransactionChange` and then applies it here.
Pure: time is an argument, and `next_deadline` says when the caller must call again. (Kafka:
TransactionCoordinator, TransactionStateManager)
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count, islice
from typing import Final

from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.config.sections.transactions import TransactionConfig
from broker.coordinator.transaction import changes
from broker.coordinator.transaction.changes import EndRequest, KnownProducer, NeedsProducerId, NewProducerId
from broker.coordinator.transaction.records import decode_key, decode_value
from broker.coordinator.transaction.state import (
    DECIDED,
    IDLE,
    NO_EPOCH,
    TopicPartition,
    Transaction,
    TransactionChange,
    TransactionData,
    TransactionState,
)

CHECKED_AT_ONCE: Final = 256
"""Transactional ids that are checked between two pauses."""

CHANGED_AT_ONCE: Final = 16
"""Ids whose records are written together."""


RETRY_MS: Final = 1_000
"""Delay before a failed marker or record is written again; ours."""

GIVEN_UP: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)


class TransactionCompletion:
    """A decided transaction whose markers are being written: the partitions without a marker, and the time at
    which the next step is due. (Kafka: TransactionMarkerChannelManager)

    A partition is done when its marker is in its log, or can never be: its topic was deleted, or another
    coordinator has fenced this one. Any other failure is retried. `has_failed`: the failure of a step was
    logged.
    """

    __slots__ = ("_left", "due_ms", "has_failed", "transaction")

    def __init__(self, transaction: Transaction, now_ms: int) -> None:
        self.transaction = transaction
        self.due_ms = now_ms
        self.has_failed = False
        self._left = dict.fromkeys(sorted(transaction.data.partitions))

    @property
    def is_marked(self) -> bool:
        """Whether every partition is done, so that the transaction is complete once that is in the log."""
        return not self._left

    def next_partitions(self, most: int) -> Sequence[TopicPartition]:
        return list(islice(self._left, most))

    def note(self, partition: TopicPartition, error: ErrorCode) -> bool:
        """Record the result of writing a marker; return whether the partition is done."""
        if not error or error in GIVEN_UP:
            self._left.pop(partition, None)
            return True
        # To the end, so that an offline partition does not hold up the others.
        self._left[partition] = self._left.pop(partition, None)
        return False


class Sweep:
    """A periodic look at all transactional ids, a few at a time. `due_ms`: the next one, on the monotonic
    clock."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._left: list[str] = []
        self.due_ms = 0

    def begin(self, now_ms: int) -> None:
        """Look for the first time in one interval."""
        self.due_ms = now_ms + self._interval_ms

    def next_of(
        self, transactions: Mapping[str, Transaction], now_ms: int, is_due: Callable[[Transaction], bool]
    ) -> list[Transaction]:
        """Return the next few that are due. While there are more to look at, `due_ms` stays."""
        if now_ms < self.due_ms:
            return []
        left = self._left = self._left or list(transactions)
        found: list[Transaction] = []
        for _ in range(min(CHECKED_AT_ONCE, len(left))):
            transaction = transactions.get(left.pop())
            if transaction is not None and is_due(transaction):
                found.append(transaction)
                if len(found) == CHANGED_AT_ONCE:
                    break
        if not left:
            self.begin(now_ms)
        return found


def is_timed_out(transaction: Transaction, wall_ms: int) -> bool:
    """Return whether the transaction must be aborted."""
    data = transaction.data
    return (
        transaction.pending is None
        and data.state is TransactionState.ONGOING
        and data.started_ms + data.timeout_ms < wall_ms
    )


def is_expired(transaction: Transaction, wall_ms: int, expiration_ms: int) -> bool:
    """Return whether the id was unused for `transactional.id.expiration.ms`."""
    data = transaction.data
    return transaction.pending is None and data.state in IDLE and data.updated_ms + expiration_ms <= wall_ms


def expire(transaction: Transaction) -> TransactionChange:
    """Return the change that forgets the id, whose record is a tombstone."""
    return TransactionChange(transaction, replace(transaction.data, state=TransactionState.DEAD))


def _refusal(data: TransactionData, producer_id: int, epoch: int) -> ErrorCode:
    """Return why a producer may not write in the transaction, or NONE."""
    if data.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if data.producer_epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if data.state in DECIDED else ErrorCode.NONE


class TransactionCoordinator:
    """The coordinator, one per broker."""

    def __init__(self, config: TransactionConfig) -> None:
        self._config = config
        self._transactions: dict[str, Transaction] = {}
        self._ready: dict[str, TransactionCompletion] = {}
        self._delayed: list[tuple[int, int, TransactionCompletion]] = []
        self._numbers = count()
        self._timeouts = Sweep(config.timeout_check_interval_ms)
        self._expiry = Sweep(config.expiry_check_interval_ms)
        self.on_deadline: Callable[[int], None] = lambda _deadline_ms: None
        """Called with each deadline that is added, in ms."""

    def __len__(self) -> int:
        return len(self._transactions)

    # Starting

    def replay(self, key: bytes, value: bytes) -> None:
        """Apply the last record of a key. Raises UnreadableRecord."""
        transactional_id = decode_key(key)
        if transactional_id is not None:
            self._transactions[transactional_id] = Transaction(transactional_id, decode_value(value))

    def loaded(self, now_ms: int) -> None:
        """Begin to complete the transactions that were decided before the start, and to check timeouts."""
        self._timeouts.begin(now_ms)
        self._expiry.begin(now_ms)
        for transaction in self._transactions.values():
            if transaction.data.state in DECIDED:
                self._complete(transaction, now_ms)

    # Requests

    def get(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    def transactions(self) -> list[Transaction]:
        """Return all transactional ids, in no order."""
        return list(self._transactions.values())

    def initialize(
        self,
        transactional_id: str,
        timeout_ms: int,
        known: KnownProducer | None,
        new_producer_id: NewProducerId,
        wall_ms: int,
    ) -> ErrorCode | TransactionChange:
        """Handle an InitProducerId. Raises NeedsProducerId."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not 0 < timeout_ms <= self._config.max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            producer_id = new_producer_id()
            if producer_id is None:
                raise NeedsProducerId
            data = TransactionData(producer_id, NO_EPOCH, timeout_ms, updated_ms=wall_ms)
            transaction = self._transactions[transactional_id] = Transaction(transactional_id, data)
            self.on_deadline(self._next_check_ms())
        return changes.initialize(transaction, timeout_ms, known, new_producer_id, wall_ms)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        added: Collection[TopicPartition],
        client_version: int,
        wall_ms: int,
    ) -> ErrorCode | TransactionChange:
        """Handle an AddPartitionsToTxn. Return NONE if the transaction has all of the partitions.

        AddOffsetsToTxn adds partitions too, and so do Produce and TxnOffsetCommit of clients with KIP-890.
        (Kafka: handleAddPartitionsToTransaction)
        """
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        transaction = self.get(transactional_id)
        if transaction is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if transaction.pending is not None:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        data = transaction.data
        error = _refusal(data, producer_id, epoch)
        if error:
            return error
        is_ongoing = data.state is TransactionState.ONGOING
        if is_ongoing and data.partitions.issuperset(added):
            return ErrorCode.NONE
        grown = replace(
            data,
            state=TransactionState.ONGOING,
            partitions=data.partitions.union(added) if is_ongoing else frozenset(added),
            started_ms=data.started_ms if is_ongoing else wall_ms,
            updated_ms=wall_ms,
            client_version=client_version,
        )
        return TransactionChange(transaction, grown)

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition
    ) -> ErrorCode:
        """Return whether a write belongs to the transaction: NONE, or TRANSACTION_ABORTABLE and others.
        (Kafka: handleVerifyPartitionsInTransaction)
        """
        transaction = self.get(transactional_id)
        if transaction is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        data = transaction.data
        error = _refusal(data, producer_id, epoch)
        if error:
            return error
        is_in = data.state is TransactionState.ONGOING and partition in data.partitions
        return ErrorCode.NONE if is_in else ErrorCode.TRANSACTION_ABORTABLE

    def end(
        self, transactional_id: str, request: EndRequest, new_producer_id: NewProducerId, wall_ms: int
    ) -> ErrorCode | TransactionChange:
        """Handle an EndTxn. Raises NeedsProducerId."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        return changes.end(self.get(transactional_id), request, new_producer_id, wall_ms)

    # Written changes

    def apply(self, change: TransactionChange, now_ms: int) -> None:
        """Apply a change whose record was written."""
        change.apply()
        transaction = change.transaction
        if change.data.state in DECIDED:
            self._complete(transaction, now_ms)
        elif change.data.state is TransactionState.DEAD:
            self._transactions.pop(transaction.transactional_id, None)
        else:
            self._ready.pop(transaction.transactional_id, None)

    def completed(self, completion: TransactionCompletion, wall_ms: int) -> TransactionChange:
        """Return the change that ends a transaction whose partitions all have their marker."""
        return TransactionChange(
            completion.transaction, changes.complete(completion.transaction.data, wall_ms)
        )

    def _complete(self, transaction: Transaction, now_ms: int) -> None:
        self._ready[transaction.transactional_id] = TransactionCompletion(transaction, now_ms)
        self.on_deadline(now_ms)

    # Time

    def next_deadline(self) -> int | None:
        """Return the monotonic time of the next due work, in ms; None if there is none."""
        if not self._transactions:
            return None
        deadline = self._next_check_ms()
        if self._ready:
            return min(deadline, next(iter(self._ready.values())).due_ms)
        return min(deadline, self._delayed[0][0]) if self._delayed else deadline

    def _next_check_ms(self) -> int:
        return min(self._timeouts.due_ms, self._expiry.due_ms)

    def due_completions(self, now_ms: int) -> Iterator[TransactionCompletion]:
        """Yield the decided transactions whose next step is due."""
        while self._delayed and self._delayed[0][0] <= now_ms:
            completion = heappop(self._delayed)[2]
            self._ready[completion.transaction.transactional_id] = completion
        yield from list(self._ready.values())

    def delay(self, completion: TransactionCompletion, now_ms: int) -> None:
        """Try the next step of a completion again later. Without effect if it is delayed already."""
        if self._ready.pop(completion.transaction.transactional_id, None) is None:
            return
        completion.due_ms = now_ms + RETRY_MS
        heappush(self._delayed, (completion.due_ms, next(self._numbers), completion))

    def overdue(self, now_ms: int, wall_ms: int) -> list[TransactionChange]:
        """Return the changes that abort timed-out transactions and forget expired ids, a few at a time.

        The rest is due now: call again after others have had a turn.
        """
        transactions, config = self._transactions, self._config
        late = self._timeouts.next_of(transactions, now_ms, lambda each: is_timed_out(each, wall_ms))
        unused = self._expiry.next_of(
            transactions, now_ms, lambda each: is_expired(each, wall_ms, config.expiration_ms)
        )
        return [*(changes.fence(each, wall_ms) for each in late), *(expire(each) for each in unused)]
