"""Transactional ids and the partitions that their transactions hold back. For `views.topics`.

Opens no log: a partition whose log is not open has no record of a transaction.
"""

from collections.abc import Iterator
from typing import Final

from broker.common.steps import Steps
from broker.controller.rows.transactions import TransactionDetail, TransactionPartition, TransactionRow
from broker.coordinator.transaction.state import DECIDED, NAMES, TopicPartition, Transaction, TransactionState
from broker.coordinator.transaction_service import TransactionService
from broker.partitions.partitions import Partitions

OPEN: Final = DECIDED | {TransactionState.ONGOING}
PARTITIONS_AT_ONCE: Final = 64
"""Partitions that are looked at between two pauses."""


def transaction_rows(
    transactions: TransactionService, partitions: Partitions
) -> Iterator[TransactionRow | None]:
    """Yield the transactional ids in no order, and None after work that produced no row."""
    for transaction in transactions.coordinator.transactions():
        held = yield from _held(transaction, partitions)
        yield _row(transaction, sum(each.holds_back for each in held))


def transaction_detail(
    transactions: TransactionService, partitions: Partitions, transactional_id: str
) -> Steps[TransactionDetail | None]:
    """Return one transactional id with its partitions; None if there is none."""
    transaction = transactions.coordinator.get(transactional_id)
    if transaction is None:
        return None
    held = yield from _held(transaction, partitions)
    return TransactionDetail(_row(transaction, sum(each.holds_back for each in held)), tuple(held))


def _row(transaction: Transaction, holding_back: int) -> TransactionRow:
    data, client = transaction.data, transaction.client
    return TransactionRow(
        transaction.transactional_id,
        NAMES[data.state],
        data.producer_id,
        data.producer_epoch,
        data.timeout_ms,
        len(data.partitions),
        holding_back,
        *(("", "", "") if client is None else client),
        data.started_ms if data.state in OPEN else None,
        data.updated_ms,
    )


def _held(transaction: Transaction, partitions: Partitions) -> Steps[list[TransactionPartition]]:
    held = []
    for number, each in enumerate(sorted(transaction.data.partitions)):
        held.append(_partition(each, transaction.data.producer_id, partitions))
        if number % PARTITIONS_AT_ONCE == PARTITIONS_AT_ONCE - 1:
            yield
    return held


def _partition(place: TopicPartition, producer_id: int, partitions: Partitions) -> TransactionPartition:
    topic, index = place
    hosted = partitions.by_name.get(topic)
    log = None if hosted is None else hosted.opened_log(index)
    if log is None:
        return TransactionPartition(topic, index, None, 0, 0, False)
    producer = log.producers.get(producer_id)
    first = None if producer is None or producer.first_offset < 0 else producer.first_offset
    stable, end = log.last_stable_offset, log.high_watermark
    return TransactionPartition(topic, index, first, stable, end, first is not None and first <= stable < end)
