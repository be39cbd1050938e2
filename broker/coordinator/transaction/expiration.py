"""Transactions that exceed their timeout, and transactional ids that are no longer used. (Kafka:
TransactionStateManager.timedOutTransactions, removeExpiredTransactionalIds)
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from broker.coordinator.transaction.state import IDLE, Transaction, TransactionChange, TransactionState

CHECKED_AT_ONCE: Final = 256
"""Transactional ids that are checked between two pauses."""

CHANGED_AT_ONCE: Final = 16
"""Ids whose records are written together."""


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
