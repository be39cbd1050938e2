"""The markers that a decided transaction lacks."""

import pytest

from broker.common.errors import BrokerBug, ErrorCode
from broker.config.sections import TransactionConfig
from broker.coordinator.transaction.completion import RETRY_MS, TransactionCompletion
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.records import encode_key, encode_value
from broker.coordinator.transaction.state import (
    Transaction,
    TransactionChange,
    TransactionData,
    TransactionState,
)

PARTITIONS = frozenset({("b", 0), ("a", 1), ("a", 0)})


def decided() -> TransactionData:
    return TransactionData(1, 0, 50, TransactionState.PREPARE_COMMIT, PARTITIONS)


@pytest.mark.parametrize(
    ("error", "is_done"),
    [
        (ErrorCode.NONE, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.INVALID_PRODUCER_EPOCH, True),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, True),
        (ErrorCode.KAFKA_STORAGE_ERROR, False),
    ],
)
def test_a_partition_is_done_or_tried_again_last(error: ErrorCode, is_done: bool) -> None:
    completion = TransactionCompletion(Transaction("t", decided()), 0)
    assert list(completion.next_partitions(2)) == [("a", 0), ("a", 1)]
    assert completion.note(("a", 0), error) is is_done
    rest = [("a", 1), ("b", 0)]
    assert list(completion.next_partitions(9)) == (rest if is_done else [*rest, ("a", 0)])
    for partition in rest:
        completion.note(partition, ErrorCode.NONE)
    assert completion.is_marked is is_done


def test_a_failed_completion_is_due_again_once() -> None:
    coordinator = TransactionCoordinator(TransactionConfig())
    coordinator.replay(encode_key("t"), encode_value(decided()))
    coordinator.loaded(100)
    assert coordinator.next_deadline() == 100
    (completion,) = coordinator.due_completions(100)
    coordinator.delay(completion, 100)
    coordinator.delay(completion, 100)
    assert coordinator.next_deadline() == 100 + RETRY_MS
    assert list(coordinator.due_completions(99 + RETRY_MS)) == []
    assert list(coordinator.due_completions(100 + RETRY_MS)) == [completion]
    change = coordinator.completed(completion, 5)
    change.begin()
    coordinator.apply(change, 100 + RETRY_MS)
    assert list(coordinator.due_completions(100 + 9 * RETRY_MS)) == []


def test_an_invalid_change_is_a_bug() -> None:
    transaction = Transaction("t", decided())
    with pytest.raises(BrokerBug):
        TransactionChange(transaction, TransactionData(1, 0, 50, TransactionState.EMPTY)).begin()
    assert transaction.pending is None
