"""The markers that a decided transaction lacks; timeouts and expiry, a few ids at a time."""

import pytest

from broker.common.errors import BrokerBug, ErrorCode
from broker.config.sections import TransactionConfig
from broker.coordinator.transaction.coordinator import (
    CHANGED_AT_ONCE,
    CHECKED_AT_ONCE,
    RETRY_MS,
    Sweep,
    TransactionCompletion,
    TransactionCoordinator,
    is_expired,
    is_timed_out,
)
from broker.coordinator.transaction.records import encode_key, encode_value
from broker.coordinator.transaction.state import (
    Transaction,
    TransactionChange,
    TransactionData,
    TransactionState,
)


def transaction(name: str = "t", state: TransactionState = TransactionState.ONGOING) -> Transaction:
    return Transaction(name, TransactionData(1, 0, 50, state, started_ms=1_000, updated_ms=1_000))


def test_a_transaction_times_out_after_its_timeout() -> None:
    assert [is_timed_out(transaction(), wall_ms) for wall_ms in (1_049, 1_050, 1_051)] == [False, False, True]
    assert not is_timed_out(transaction(state=TransactionState.PREPARE_COMMIT), 9_999)
    changing = transaction()
    changing.pending = changing.data
    assert not is_timed_out(changing, 9_999)


def test_an_id_expires_once_it_was_unused_for_its_time() -> None:
    for state in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        idle = transaction(state=state)
        assert [is_expired(idle, wall_ms, 10) for wall_ms in (1_009, 1_010, 1_011)] == [False, True, True]
    for state in (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        assert not is_expired(transaction(state=state), 9_999, 10)


def test_a_sweep_looks_at_a_few_at_a_time() -> None:
    for count, calls in ((CHECKED_AT_ONCE - 1, 1), (CHECKED_AT_ONCE, 1), (CHECKED_AT_ONCE + 1, 2)):
        transactions = {f"{each}": transaction(f"{each}") for each in range(count)}
        sweep = Sweep(100)
        sweep.begin(0)
        assert sweep.next_of(transactions, 99, lambda _: True) == []
        made = 0
        while sweep.due_ms == 100:
            assert sweep.next_of(transactions, 100, lambda _: False) == []
            made += 1
        assert (made, sweep.due_ms) == (calls, 200)


def test_a_sweep_finds_a_few_at_a_time() -> None:
    for count, calls in ((CHANGED_AT_ONCE - 1, 1), (CHANGED_AT_ONCE, 1), (CHANGED_AT_ONCE + 1, 2)):
        transactions = {f"{each}": transaction(f"{each}") for each in range(count)}
        sweep = Sweep(100)
        found = []
        made = 0
        while sweep.due_ms == 0:
            some = sweep.next_of(transactions, 1, lambda _: True)
            assert len(some) <= CHANGED_AT_ONCE
            found += some
            made += 1
        assert (made, len(found)) == (calls, count)


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
