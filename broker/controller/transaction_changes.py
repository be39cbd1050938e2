"""Aborts a transaction on an operator's request. Run by `Control` as an operation.

The abort is that of a timeout: the producer gets an epoch that it does not know, so that its next request is
fenced, and the markers follow at once. A kill afterwards leaves a decided transaction, which the next start
completes. (Kafka: TransactionCoordinator.abortTimedOutTransactions)
"""

from collections.abc import Callable

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import Command
from broker.controller.control import Control
from broker.controller.plan import Done, Situation
from broker.coordinator.group.messages import Now
from broker.coordinator.transaction.state import NAMES, TransactionState
from broker.coordinator.transaction_service import TransactionService
from broker.metadata.actor import Role
from broker.metadata.changes import Change, ChangeKind


class AbortTransaction(msgspec.Struct, Command["AbortResult"], frozen=True):
    """Aborts the open transaction of a transactional id and fences its producer. Role: admin.

    `producer_id` and `producer_epoch` are those that the operator saw; -1 skips the check. Raises ApiError:
    TRANSACTIONAL_ID_NOT_FOUND, INVALID_TXN_STATE without an open transaction, CONCURRENT_TRANSACTIONS while
    it changes, INVALID_UPDATE_VERSION for another producer; then nothing has changed.
    """

    transactional_id: str
    producer_id: int = -1
    producer_epoch: int = -1
    validate_only: bool = False


class AbortResult(msgspec.Struct, frozen=True):
    """`producer_epoch` is that of the fenced producer."""

    producer_id: int
    producer_epoch: int
    partitions: int


class TransactionChanges:
    """The operation. `now` returns the present moment."""

    def __init__(self, transactions: TransactionService, now: Callable[[], Now]) -> None:
        self._transactions = transactions
        self._now = now

    def register(self, control: Control) -> None:
        control.add_operation(AbortTransaction, self.abort)

    async def abort(self, command: AbortTransaction, at: Situation) -> Done[AbortResult]:
        """Run AbortTransaction."""
        at.require(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        name = command.transactional_id
        transaction = self._transactions.coordinator.get(name)
        if transaction is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"There is no transactional id {name}.")
        if transaction.pending is not None:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, "The transaction is changing; try again.")
        data = transaction.data
        if data.state is not TransactionState.ONGOING:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"{name} has no open transaction; its state is {NAMES[data.state]}.",
            )
        if command.producer_id not in (-1, data.producer_id) or command.producer_epoch not in (
            -1,
            data.producer_epoch,
        ):
            raise ApiError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"The producer is now {data.producer_id} with epoch {data.producer_epoch}.",
            )
        result = AbortResult(data.producer_id, data.producer_epoch, len(data.partitions))
        if command.validate_only:
            return Done(result)
        error = self._transactions.abort(transaction, self._now())
        if error:
            raise ApiError(error, "The abort cannot be written.")
        noun = "partition" if result.partitions == 1 else "partitions"
        note = f"producer {data.producer_id}, epoch {data.producer_epoch} fenced, {result.partitions} {noun}"
        return Done(result, (Change(ChangeKind.TRANSACTION, name, "aborted", note),))
