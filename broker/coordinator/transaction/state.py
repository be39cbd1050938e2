"""A transactional id with its producer and its transaction, and the change from one state to the next.
(Kafka: TransactionMetadata, TransactionState, TxnTransitMetadata)

A change is decided first and applied after its record is written; in between, `pending` refuses every other
request of the id, as Kafka does.
"""

from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from broker.common.errors import BrokerBug

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
LAST_EPOCH: Final = 0x7FFF
"""An epoch that only a fencing reaches; a producer gets at most the one before."""

TopicPartition = tuple[str, int]


class TransactionState(IntEnum):
    """States by their number in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


NAMES: Final = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
    TransactionState.DEAD: "Dead",
    TransactionState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
"""The names that clients see."""

DECIDED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""The outcome is in the log, and markers are missing."""

IDLE: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)

VALID_PREVIOUS_STATES: Final = {
    TransactionState.EMPTY: IDLE,
    TransactionState.ONGOING: IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # TV2 aborts without a partition; the epoch still grows.
    TransactionState.PREPARE_ABORT: IDLE | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: IDLE,
}
"""Allowed previous states of each state."""


class TransactionData(msgspec.Struct, frozen=True):
    """The state of a transactional id in the log. Times in ms since the epoch; `started_ms` -1 without one.

    `next_producer_id` replaces an id whose epochs are exhausted once the transaction is complete.
    `client_version` is the transaction version of the client that began the transaction (KIP-890).
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = -1
    updated_ms: int = -1
    last_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left to give to a producer."""
        return is_exhausted(self.producer_epoch)


class TransactionClient(NamedTuple):
    """The client that sent the last InitProducerId. `principal` is a text such as "User:ann"."""

    principal: str
    client_id: str
    address: str


class Transaction:
    """A transactional id. `pending` is the change that is being written, if any. `client` is None until the
    first InitProducerId since the start: the log does not have it.
    """

    __slots__ = ("client", "data", "pending", "transactional_id")

    def __init__(self, transactional_id: str, data: TransactionData) -> None:
        self.transactional_id = transactional_id
        self.data = data
        self.pending: TransactionData | None = None
        self.client: TransactionClient | None = None


class TransactionChange(msgspec.Struct, frozen=True):
    """A decided change of a transactional id, to be written."""

    transaction: Transaction
    data: TransactionData

    def begin(self) -> None:
        """Refuse other requests until `apply` or `withdraw`."""
        transaction, before = self.transaction, self.transaction.data.state
        if transaction.pending is not None or before not in VALID_PREVIOUS_STATES[self.data.state]:
            raise BrokerBug(
                f"transactional id {transaction.transactional_id}: invalid transition from {before.name} to"
                f" {self.data.state.name}"
            )
        transaction.pending = self.data

    def apply(self) -> None:
        self.transaction.data = self.data
        self.transaction.pending = None

    def withdraw(self) -> None:
        """Keep the state as it was: the record could not be written."""
        self.transaction.pending = None


def is_exhausted(epoch: int) -> bool:
    return epoch >= LAST_EPOCH - 1


class CoordinatorAbort(NamedTuple):
    """`reason` is a decision of the transaction service. `before` is the transaction as it was open, with the
    epoch of its producer; `wall_ms` the time of the abort, in ms since the epoch.
    """

    transactional_id: str
    reason: str
    before: TransactionData
    client: TransactionClient | None
    wall_ms: int
