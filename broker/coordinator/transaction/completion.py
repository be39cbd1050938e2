"""A decided transaction whose markers are being written. (Kafka: TransactionMarkerChannelManager)

A partition is done when its marker is in its log, or can never be: its topic was deleted, or another
coordinator has fenced this one. Any other failure is retried.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from broker.common.errors import ErrorCode
from broker.coordinator.transaction.state import TopicPartition, Transaction

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
    """The partitions without a marker, and the time at which the next step is due.

    `has_failed`: the failure of a step was logged.
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
