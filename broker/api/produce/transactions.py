"""Verifies the partitions of a transactional Produce, and adds them to the transaction for newer clients.

Called by `a00_produce` before it stages batches, and by `produce.pending` for each batch. A batch of a
transaction is appended only if the coordinator has its partition, so that no transaction stays open in a
partition that its end would not reach. (Kafka: AddPartitionsToTxnManager, KIP-890)
"""

from typing import Final

from broker.api.produce.rules import hosted_topic, topic_refusal
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import now_of
from broker.api.requests.services import ProduceServices
from broker.api.requests.transaction_outcomes import note_refused
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.coordinator.transaction.changes import BUMPS_EPOCH
from broker.coordinator.transaction.state import TopicPartition
from broker.coordinator.transaction_service import TransactionService, WrittenChange
from broker.log.partition import PartitionLog
from broker.protocol.messages.produce import ProduceRequest
from broker.records.header import HEADER_BYTES, TRANSACTIONAL_FLAG, BatchHeader, Buffer, header_at

ABORTABLE_SINCE: Final = 11
"""First version with TRANSACTION_ABORTABLE; before it is INVALID_TXN_STATE."""

ADDS_SINCE: Final = 12
"""First version that adds the partitions to the transaction (TV2)."""


class TransactionalWrite:
    """The transaction of one Produce. `error` is why its new partitions could not be added, or NONE."""

    __slots__ = ("_context", "_transactional_id", "_transactions", "error")

    def __init__(
        self, transactional_id: str, context: RequestContext, transactions: TransactionService
    ) -> None:
        self._transactional_id = transactional_id
        self._context = context
        self._transactions = transactions
        self.error = ErrorCode.NONE

    def check(self, log: PartitionLog, records: Buffer) -> None:
        """Check a batch directly before it is staged. Raises ApiError."""
        header = transactional_header(records)
        if header is None:
            return
        producer_id, epoch = header.producer_id, header.producer_epoch
        error = self.error
        if not error or log.producers.has_ongoing(producer_id, epoch):
            error = self._transactions.verify(self._transactional_id, producer_id, epoch, log)
        if error:
            producer = producer_id, epoch
            note_refused(self._transactional_id, producer, error, self._context, self._transactions)
            raise ApiError(self._told(error), "The partition is not in the producer's transaction")
        if (
            header.base_sequence
            and self._context.api_version >= ADDS_SINCE
            and log.producers.get(producer_id) is None
        ):
            # Each transaction of TV2 begins at 0: an earlier batch was refused, and is sent again.
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Expected sequence 0 of the unknown producer {producer_id}: {header.base_sequence}",
            )

    def _told(self, error: ErrorCode) -> ErrorCode:
        """Return the code that this version knows."""
        version = self._context.api_version
        match error:
            case ErrorCode.PRODUCER_FENCED:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            case ErrorCode.TRANSACTION_ABORTABLE if version < ABORTABLE_SINCE:
                return ErrorCode.INVALID_TXN_STATE
            case ErrorCode.CONCURRENT_TRANSACTIONS if version >= ADDS_SINCE:
                return error
            case (
                ErrorCode.CONCURRENT_TRANSACTIONS
                | ErrorCode.COORDINATOR_NOT_AVAILABLE
                | ErrorCode.NOT_COORDINATOR
            ):
                return ErrorCode.NOT_ENOUGH_REPLICAS  # so that every producer tries again
            case _:
                return error


def transactional_header(records: Buffer | None) -> BatchHeader | None:
    """Return the header of a batch that belongs to a transaction, else None."""
    if records is None or len(records) < HEADER_BYTES:
        return None
    header = header_at(records)
    return header if header.attributes & TRANSACTIONAL_FLAG and header.producer_id >= 0 else None


def added_partitions(
    message: ProduceRequest, context: RequestContext, services: ProduceServices, write: TransactionalWrite
) -> Slices[WrittenChange | None]:
    """Stage the change that adds the partitions the transaction lacks; None if there is none to commit.

    Raises ApiError INVALID_PRODUCER_ID_MAPPING for batches of more than one producer.
    """
    producers: set[tuple[int, int]] = set()
    added: list[TopicPartition] = []
    for topic in message.topic_data:
        hosted = hosted_topic(topic, services.partitions)
        if hosted is None or topic_refusal(topic, hosted, context, services.security, logs=False):
            continue
        for data in topic.partition_data:
            yield None
            header = transactional_header(data.records)
            log = hosted.open_logs.get(data.index)
            if header is None or log is None:
                continue
            producer = header.producer_id, header.producer_epoch
            producers.add(producer)
            if not log.producers.has_ongoing(*producer):
                added.append((hosted.name, data.index))
    if len(producers) > 1:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "The batches have more than one producer id")
    if not added or context.api_version < ADDS_SINCE:
        return None
    assert message.transactional_id is not None
    (producer,) = producers
    transactions = services.transactions
    change = transactions.coordinator.add_partitions(
        message.transactional_id, *producer, added, BUMPS_EPOCH, context.wall_ms
    )
    written = change if isinstance(change, ErrorCode) else transactions.stage(change, now_of(context))
    if isinstance(written, ErrorCode):
        write.error = written
        return None
    return written
