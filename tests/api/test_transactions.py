"""Transactions: begun, written, ended, fenced, timed out, and killed at any point."""

import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker.api.requests.outcome import EncodedResponse
from broker.common.errors import ErrorCode
from broker.common.limited_lines import LINES_OF_CLIENT, WINDOW_MS
from broker.coordinator import transaction_service
from broker.coordinator.transaction.coordinator import RETRY_MS
from broker.coordinator.transaction.records import encode_key
from broker.coordinator.transaction.state import TransactionState
from broker.coordinator.transaction_service import TransactionService
from broker.log import disk
from broker.log.layout import TXN_INDEX
from broker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from broker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from broker.protocol.messages.end_txn import EndTxnRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.protocol.messages.list_transactions import ListTransactionsRequest
from broker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from broker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.api.group import commit
from tests.api.harness import Harness
from tests.api.leaving import leaving_after
from tests.api.transacting import TransactionalProducer, fetch_of, fetched, visible

MAX_TIMEOUT_MS = 900_000
CHECK_MS = 10_000

VERSIONS = pytest.mark.parametrize("client_version", [1, 2])


async def producer_on(harness: Harness, client_version: int = 2, **settings: Any) -> TransactionalProducer:
    await harness.create_topic("events", 2)
    return await TransactionalProducer(harness, client_version=client_version).begin(**settings)


@VERSIONS
@pytest.mark.parametrize("commit", [True, False])
async def test_records_are_visible_once_committed(
    harness: Harness, client_version: int, commit: bool
) -> None:
    producer = await producer_on(harness, client_version)
    await producer.write(b"a", b"b")
    await producer.write(b"c", partition=1)
    assert (await visible(harness), await visible(harness, 1)) == ([], [])
    assert await visible(harness, committed=False) == [b"a", b"b"]
    assert await producer.end(commit=commit) == 0
    assert await visible(harness) == ([b"a", b"b"] if commit else [])
    assert await visible(harness, 1) == ([b"c"] if commit else [])
    await producer.write(b"next")
    assert await producer.end(commit=True) == 0
    assert (await visible(harness))[-1:] == [b"next"]


@pytest.mark.parametrize("committed", [True, False])
async def test_the_fast_path_serves_committed_records(harness: Harness, committed: bool) -> None:
    producer = await producer_on(harness)

    async def is_fast() -> bool:
        asking = await harness.put(fetch_of(0, 0, committed=committed), 12)
        return isinstance(asking.outcome, EncodedResponse)

    harness.append("events", 1_000)
    assert await is_fast()
    await producer.write(b"a")
    assert await is_fast() is not committed
    await producer.end(commit=True)
    assert await is_fast()
    await producer.write(b"b")
    await producer.end(commit=False)
    assert await is_fast() is not committed


async def test_the_last_stable_offset_is_returned_and_wakes_a_waiting_fetch(harness: Harness) -> None:
    producer = await producer_on(harness)
    harness.append("events", 1_000)
    await producer.write(b"a")
    found = await fetched(harness)
    assert (found.high_watermark, found.last_stable_offset) == (2, 1)
    waiting = await harness.put(fetch_of(0, 1, committed=True, max_wait_ms=1_000), 12)
    assert waiting.outcome is None
    harness.append("events", 1_000)
    log = harness.partitions.log("events", 0)
    harness.fetches.complete(log)
    harness.deliver()
    assert waiting.outcome is None  # the append is behind the open transaction
    await producer.end(commit=False)
    reply = harness.answer(waiting).responses[0].partitions[0]
    assert (reply.high_watermark, reply.last_stable_offset) == (4, 4)
    assert [(each.producer_id, each.first_offset) for each in reply.aborted_transactions] == [
        (producer.producer_id, 1)
    ]


@pytest.mark.parametrize(("isolation", "latest"), [(0, 2), (1, 1)])
async def test_list_offsets_ends_at_the_last_stable_offset(
    harness: Harness, isolation: int, latest: int
) -> None:
    producer = await producer_on(harness)
    harness.append("events", 1_000)
    await producer.write(b"a")

    async def offset(timestamp: int) -> int:
        topics = [ListOffsetsTopic("events", [ListOffsetsPartition(0, timestamp=timestamp)])]
        reply = await harness.ask(ListOffsetsRequest(-1, isolation, topics))
        return int(reply.topics[0].partitions[0].offset)

    assert await offset(-1) == latest
    assert await offset(1_001) == (1 if isolation == 0 else -1)


@pytest.mark.parametrize(
    ("timeout_ms", "error"),
    [
        (0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (1, 0),
        (MAX_TIMEOUT_MS, 0),
        (MAX_TIMEOUT_MS + 1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
async def test_the_timeout_has_a_range(harness: Harness, timeout_ms: int, error: int) -> None:
    producer = TransactionalProducer(harness)
    await producer.find()
    assert await producer.init(timeout_ms) == error


async def test_an_empty_transactional_id_is_invalid(harness: Harness) -> None:
    producer = TransactionalProducer(harness)
    await producer.find()
    producer.transactional_id = ""
    assert await producer.init() == ErrorCode.INVALID_REQUEST


async def test_without_the_topic_there_is_no_coordinator(harness: Harness) -> None:
    assert await TransactionalProducer(harness).init() == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("version", "error"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)]
)
async def test_a_known_epoch_goes_on_and_a_fenced_one_does_not(
    harness: Harness, version: int, error: ErrorCode
) -> None:
    producer = await producer_on(harness)
    assert await producer.init(resume=True) == 0
    assert producer.epoch == 1
    before = producer.epoch
    producer.epoch = 0
    assert await producer.init(resume=True) == 0  # a request that is repeated gets the same answer
    assert producer.epoch == before
    other = TransactionalProducer(harness)
    assert await other.init() == 0
    assert (other.producer_id, other.epoch) == (producer.producer_id, 2)
    assert await producer.init(resume=True, version=version) == error


async def test_an_operators_abort_fences_the_producer_and_leaves_nothing_to_readers(harness: Harness) -> None:
    zombie = await producer_on(harness)
    await zombie.write(b"zombie")
    transaction = harness.transactions.coordinator.get("t")
    assert transaction is not None and transaction.client is not None
    assert transaction.client == ("User:ANONYMOUS", "test", "127.0.0.1")
    assert harness.transactions.abort(transaction, harness.now) == ErrorCode.NONE
    harness.run_transactions()
    log = harness.partitions.log("events", 0)
    assert log is not None and log.last_stable_offset == log.high_watermark
    assert await zombie.send(b"more") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await zombie.end(commit=True) == ErrorCode.INVALID_TXN_STATE
    second = TransactionalProducer(harness)
    assert await second.init() == 0
    assert (second.producer_id, second.epoch) == (zombie.producer_id, zombie.epoch + 2)
    assert await zombie.end(commit=False) == ErrorCode.PRODUCER_FENCED


async def test_a_second_producer_aborts_the_transaction_of_the_first(harness: Harness) -> None:
    zombie = await producer_on(harness)
    await zombie.write(b"zombie")
    second = TransactionalProducer(harness)
    assert await second.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    harness.run_transactions()
    assert await second.init() == 0
    assert second.epoch == 2  # the abort took one
    assert await zombie.send(b"again") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await zombie.end(commit=True) == ErrorCode.PRODUCER_FENCED
    await second.write(b"alive")
    assert await second.end(commit=True) == 0
    assert await visible(harness) == [b"alive"]


@pytest.mark.parametrize("commit", [True, False])
async def test_an_end_from_before_the_last_init_is_fenced(harness: Harness, commit: bool) -> None:
    """It repeats no end: the transaction that it could have ended is forgotten."""
    zombie = await producer_on(harness)
    await zombie.write(b"a")
    assert await zombie.end(commit=True) == 0
    second = TransactionalProducer(harness)
    assert await second.init() == 0
    assert second.epoch == zombie.epoch + 1
    assert await zombie.end(commit=commit) == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("commit", [True, False])
async def test_so_is_one_of_the_producer_id_before(harness: Harness, commit: bool) -> None:
    zombie = await producer_on(harness)
    transaction = harness.transactions.coordinator.get("t")
    assert transaction is not None
    transaction.data = replace(transaction.data, producer_epoch=32_766, client_version=2)
    second = TransactionalProducer(harness)
    assert await second.init() == 0
    assert second.producer_id != zombie.producer_id and second.epoch == 0
    zombie.epoch = 32_766
    assert await zombie.end(commit=commit) == ErrorCode.PRODUCER_FENCED


async def test_the_second_batch_does_not_overtake_one_that_is_tried_again(harness: Harness) -> None:
    """Both are in flight when the markers of the last transaction are written."""
    producer = await producer_on(harness)
    await producer.write(b"a")
    assert await producer.end(commit=True, run=False) == 0
    assert await producer.send(b"first", partition=1) == ErrorCode.CONCURRENT_TRANSACTIONS
    harness.run_transactions()
    key = "events", 1
    producer.sequences[key] = 1
    assert await producer.send(b"second", partition=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.sequences[key] = 0
    assert await producer.send(b"first", partition=1) == 0
    assert await producer.send(b"second", partition=1) == 0
    assert await producer.end(commit=True) == 0
    assert await visible(harness, 1) == [b"first", b"second"]


async def test_a_new_producer_id_follows_the_last_epoch(harness: Harness) -> None:
    producer = await producer_on(harness)
    transaction = harness.transactions.coordinator.get("t")
    assert transaction is not None
    first = producer.producer_id
    for epoch, expected in ((32_765, (first, 32_766)), (32_766, (first + 1, 0))):
        transaction.data = replace(transaction.data, producer_epoch=epoch)
        producer.epoch = epoch
        producer.sequences.clear()
        await producer.write(b"a")
        assert await producer.end(commit=True) == 0
        assert (producer.producer_id, producer.epoch) == expected
    await producer.write(b"b")
    assert await producer.end(commit=True) == 0
    assert await visible(harness) == [b"a", b"a", b"b"]


@VERSIONS
async def test_a_repeated_end_has_the_same_answer(harness: Harness, client_version: int) -> None:
    producer = await producer_on(harness, client_version)
    await producer.write(b"a")
    old = producer.epoch
    assert await producer.end(commit=True, run=False) == 0
    new, producer.epoch = producer.epoch, old
    assert await producer.end(commit=True, run=False) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await producer.end(commit=False) == ErrorCode.INVALID_TXN_STATE
    assert await producer.end(commit=True) == 0
    assert producer.epoch == new
    producer.epoch = old
    assert await producer.end(commit=False) == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("commit", [True, False])
async def test_the_next_transaction_ends_after_the_markers_of_the_last_one(
    harness: Harness, commit: bool
) -> None:
    """franz-go aborts at once where it could not begin to produce."""
    producer = await producer_on(harness, 2)
    await producer.write(b"a")
    assert await producer.end(commit=commit, run=False) == 0
    assert await producer.end(commit=True, run=False) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await producer.end(commit=False) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await producer.end(commit=True) == ErrorCode.INVALID_TXN_STATE
    assert await producer.end(commit=False) == 0
    assert await visible(harness) == ([b"a"] if commit else [])


@pytest.mark.parametrize(("client_version", "error"), [(1, ErrorCode.INVALID_TXN_STATE), (2, 0)])
async def test_an_abort_without_partitions(harness: Harness, client_version: int, error: int) -> None:
    producer = await producer_on(harness, client_version)
    assert await producer.end(commit=True) == ErrorCode.INVALID_TXN_STATE
    assert await producer.end(commit=False) == error
    await producer.write(b"a")
    assert await producer.end(commit=True) == 0
    assert await visible(harness) == [b"a"]


@pytest.mark.parametrize(
    ("version", "error"),
    [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE), (12, 0)],
)
async def test_a_partition_outside_the_transaction(harness: Harness, version: int, error: int) -> None:
    producer = await producer_on(harness, 1)
    assert await producer.add(0) == [0]
    assert await producer.send(b"x", partition=1, version=version) == error
    log = harness.partitions.log("events", 1)
    assert log is not None and log.high_watermark == (0 if error else 1)


async def test_writes_of_unknown_and_ended_transactions_are_refused(harness: Harness) -> None:
    producer = await producer_on(harness, 1)
    stranger = TransactionalProducer(harness, "stranger")
    stranger.producer_id, stranger.epoch = 77, 0
    assert await stranger.send(b"x") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await stranger.add(0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert await stranger.end(commit=True) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    await producer.write(b"a")
    assert await producer.end(commit=True, run=False) == 0
    assert await producer.add(1) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert await producer.send(b"x", partition=1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert await producer.send(b"x", partition=1, version=12) == ErrorCode.CONCURRENT_TRANSACTIONS
    harness.run_transactions()
    assert await producer.send(b"late") == ErrorCode.TRANSACTION_ABORTABLE
    assert await visible(harness) == [b"a"]


@pytest.mark.parametrize("offsets", [False, True])
async def test_each_refused_request_of_a_transactional_id_has_a_line(
    harness: Harness, caplog: pytest.LogCaptureFixture, offsets: bool
) -> None:
    producer = await producer_on(harness, 1)
    await harness.ask(FindCoordinatorRequest("readers"), 3)
    fenced = TransactionalProducer(harness, client_version=1)
    fenced.producer_id, fenced.epoch = producer.producer_id, producer.epoch
    assert await producer.init() == 0
    with caplog.at_level("WARNING", transaction_service.logger.name):
        if offsets:
            await fenced.add_group("readers")
            await fenced.commit_offset("readers", 5)
        else:
            await fenced.add(0)
            await fenced.send(b"x")
            await fenced.end(commit=True)
            await fenced.init(resume=True)
            await fenced.init(timeout_ms=MAX_TIMEOUT_MS + 1)
            await producer.end(commit=True)
    lines = [(each.request, each.error, each.epoch) for each in caplog.records]  # type: ignore[attr-defined]
    assert lines == (
        [("AddOffsetsToTxn", "PRODUCER_FENCED", 0), ("TxnOffsetCommit", "PRODUCER_FENCED", 0)]
        if offsets
        else [
            ("AddPartitionsToTxn", "PRODUCER_FENCED", 0),
            ("Produce", "PRODUCER_FENCED", 0),
            ("EndTxn", "PRODUCER_FENCED", 0),
            ("InitProducerId", "PRODUCER_FENCED", 0),
            ("InitProducerId", "INVALID_TRANSACTION_TIMEOUT", -1),
            ("EndTxn", "INVALID_TXN_STATE", 1),
        ]
    )
    assert {(each.transactional_id, each.principal) for each in caplog.records} == {  # type: ignore[attr-defined]
        ("t", "User:ANONYMOUS")
    }


async def test_the_refusals_of_a_client_cannot_fill_the_log(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    producer = await producer_on(harness, 1)
    with caplog.at_level("WARNING", transaction_service.logger.name):
        for _ in range(LINES_OF_CLIENT + 5):
            assert await producer.end(commit=True) == ErrorCode.INVALID_TXN_STATE
        assert len(caplog.records) == LINES_OF_CLIENT
        harness.clock.advance(WINDOW_MS)
        await producer.end(commit=True)
    assert caplog.records[-1].left_out == 5  # type: ignore[attr-defined]


async def test_a_plain_batch_may_not_be_in_a_transaction(harness: Harness) -> None:
    producer = await producer_on(harness)
    await producer.write(b"a")
    log = harness.partitions.log("events", 0)
    assert log is not None
    plain = memoryview(bytearray(producer.batch([b"x"], 1, flags=0)))
    with pytest.raises(Exception, match="Expected transactional write"):
        log.stage(plain, harness.clock.wall_ms())
    producer.epoch += 1  # no marker of the transaction could follow
    plain = memoryview(bytearray(producer.batch([b"x"], 0, flags=0)))
    with pytest.raises(Exception, match="Expected transactional write"):
        log.stage(plain, harness.clock.wall_ms())


async def test_an_unknown_partition_fails_the_whole_request(harness: Harness) -> None:
    producer = await producer_on(harness, 1)
    expected = [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await producer.add(0, 2) == expected
    assert await producer.end(commit=True) == ErrorCode.INVALID_TXN_STATE


async def test_batched_requests_add_and_verify(harness: Harness) -> None:
    producer = await producer_on(harness)

    async def batched(partition: int, *, verify: bool) -> int:
        transaction = AddPartitionsToTxnTransaction(
            "t",
            producer.producer_id,
            producer.epoch,
            verify,
            [AddPartitionsToTxnTopic("events", [partition])],
        )
        reply = await harness.ask(AddPartitionsToTxnRequest(transactions=[transaction]), 5)
        assert reply.error_code == 0
        return int(
            reply.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code
        )

    assert await batched(0, verify=True) == ErrorCode.TRANSACTION_ABORTABLE
    assert await batched(0, verify=False) == 0
    assert await batched(0, verify=True) == 0
    assert await batched(1, verify=True) == ErrorCode.TRANSACTION_ABORTABLE


@pytest.mark.parametrize(("late_ms", "is_aborted"), [(0, False), (1, True)])
async def test_a_transaction_times_out(harness: Harness, late_ms: int, is_aborted: bool) -> None:
    producer = await producer_on(harness, timeout_ms=CHECK_MS - late_ms)
    await producer.write(b"a")
    harness.advance(CHECK_MS)
    assert await producer.end(commit=True) == (ErrorCode.INVALID_TXN_STATE if is_aborted else 0)
    assert await visible(harness) == ([] if is_aborted else [b"a"])


@pytest.mark.parametrize(("client_version", "error"), [(1, ErrorCode.PRODUCER_FENCED), (2, ErrorCode.NONE)])
async def test_a_producer_goes_on_with_an_abort_after_a_timeout(
    harness: Harness, client_version: int, error: ErrorCode
) -> None:
    """Java's applications abort and begin again. Before KIP-890 they need a new producer."""
    producer = await producer_on(harness, client_version, timeout_ms=CHECK_MS - 1)
    await producer.write(b"late")
    epoch = producer.epoch
    harness.advance(CHECK_MS)
    assert await producer.send(b"later") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.end(commit=False) == error
    if error:
        return
    assert producer.epoch == epoch + 1
    await producer.write(b"again")
    assert await producer.end(commit=True) == 0
    assert await visible(harness) == [b"again"]


async def test_an_abort_while_the_timeout_is_applied_is_concurrent(harness: Harness) -> None:
    producer = await producer_on(harness)
    await producer.write(b"late")
    transaction = harness.transactions.coordinator.get("t")
    assert transaction is not None
    assert harness.transactions.abort(transaction, harness.now) == ErrorCode.NONE
    assert await producer.end(commit=False, run=False) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await producer.end(commit=True, run=False) == ErrorCode.INVALID_TXN_STATE
    harness.run_transactions()
    assert await producer.end(commit=False) == 0


async def test_no_abort_ends_the_transaction_of_the_producer_that_has_begun(harness: Harness) -> None:
    zombie = await producer_on(harness)
    await zombie.write(b"zombie")
    second = TransactionalProducer(harness)
    assert await second.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    harness.run_transactions()
    assert await second.init() == 0
    assert await zombie.end(commit=False) == ErrorCode.PRODUCER_FENCED
    await second.write(b"alive")
    assert await zombie.end(commit=False) == ErrorCode.PRODUCER_FENCED
    assert await second.end(commit=True) == 0
    assert await zombie.end(commit=False) == ErrorCode.PRODUCER_FENCED
    assert await visible(harness) == [b"alive"]


@pytest.mark.parametrize(("early_ms", "is_known"), [(1, True), (0, False)])
async def test_an_unused_id_expires(tmp_path: Path, early_ms: int, is_known: bool) -> None:
    hour = 3_600_000
    harness = Harness(tmp_path, f"transactional.id.expiration.ms={hour + early_ms}")
    await producer_on(harness)
    harness.advance(hour)
    (state,) = (await harness.ask(DescribeTransactionsRequest(["t"]))).transaction_states
    assert state.error_code == (0 if is_known else ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    harness.close()
    again = Harness(tmp_path)
    assert len(again.transactions.coordinator) == int(is_known)
    again.close()


@VERSIONS
@pytest.mark.parametrize("commit", [True, False])
async def test_offsets_take_effect_with_the_commit(
    harness: Harness, client_version: int, commit: bool
) -> None:
    producer = await producer_on(harness, client_version)
    if client_version == 1:
        assert await producer.commit_offset("g", 5) == ErrorCode.TRANSACTION_ABORTABLE
        assert await producer.add_group("g") == 0
    assert await producer.commit_offset("g", 5) == 0
    assert await _offset(harness, "g") == (-1, 0)
    assert await _offset(harness, "g", stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert await producer.end(commit=commit) == 0
    assert await _offset(harness, "g", stable=True) == (5 if commit else -1, 0)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("order", list(permutations(["outside", "first", "second"])))
async def test_the_offset_that_was_committed_last_counts(
    tmp_path: Path, order: tuple[str, ...], restarts: bool
) -> None:
    """Not the one whose marker was written last, as in Kafka."""
    harness = Harness(tmp_path)
    first = await producer_on(harness)
    second = await TransactionalProducer(harness, "u").begin()
    for number, each in enumerate(order, 1):
        if each == "outside":
            await commit(harness, number, topic="events", group="g")
        else:
            producer = first if each == "first" else second
            assert await producer.commit_offset("g", number) == 0
    if restarts:
        harness.close()
        harness = first.harness = second.harness = Harness(tmp_path)
    assert (await _offset(harness, "g", stable=True))[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    for producer in (second, first):
        assert await producer.end(commit=True) == 0
    assert await _offset(harness, "g", stable=True) == (3, 0)
    harness.close()
    again = Harness(tmp_path)
    assert await _offset(again, "g", stable=True) == (3, 0)
    again.close()


async def test_offsets_of_unknown_members_are_refused(harness: Harness) -> None:
    producer = await producer_on(harness)
    assert (
        await producer.commit_offset("g", 5, generation_id=3, member_id="m") == ErrorCode.ILLEGAL_GENERATION
    )
    assert await producer.commit_offset("g", 5, partition=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await producer.commit_offset("", 5) == ErrorCode.INVALID_GROUP_ID


async def test_version_6_names_topics_by_id_and_knows_the_errors_of_members(harness: Harness) -> None:
    producer = await producer_on(harness)
    topic_id = harness.control.image.topics["events"].topic_id
    commit = partial(producer.commit_offset, "g", 5, version=6)
    assert await commit(topic=b"\1" * 16) == ErrorCode.UNKNOWN_TOPIC_ID
    assert await commit(topic=bytes(16)) == ErrorCode.UNKNOWN_TOPIC_ID
    assert await commit(topic=topic_id, partition=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit(topic=topic_id, generation_id=3, member_id="m") == ErrorCode.GROUP_ID_NOT_FOUND
    assert await commit(topic=topic_id) == 0
    assert await producer.end(commit=True) == 0
    assert await _offset(harness, "g") == (5, 0)


async def delete_topic(harness: Harness) -> None:
    await harness.ask(DeleteTopicsRequest(topics=[DeleteTopicState("events")]))
    await harness.create_topic("events", 2)


async def delete_group(harness: Harness) -> None:
    assert (await harness.ask(DeleteGroupsRequest(["g"]))).results[0].error_code == 0


async def delete_offset(harness: Harness) -> None:
    topics = [OffsetDeleteRequestTopic("events", [OffsetDeleteRequestPartition(0)])]
    assert (await harness.ask(OffsetDeleteRequest("g", topics))).error_code == 0


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("delete", [delete_topic, delete_group, delete_offset])
async def test_an_offset_that_is_deleted_does_not_come_back_with_the_commit(
    tmp_path: Path, delete: Callable[[Harness], Awaitable[None]], restarts: bool
) -> None:
    harness = Harness(tmp_path)
    producer = await producer_on(harness)
    await commit(harness, 3, topic="events", group="g")  # the group exists
    for number in range(2):
        assert await producer.commit_offset("g", 5 + number) == 0
    await delete(harness)
    assert await _offset(harness, "g", stable=True) == (-1, 0)
    if restarts:
        harness.close()
        harness = producer.harness = Harness(tmp_path)
    assert await producer.end(commit=True) == 0
    assert await _offset(harness, "g", stable=True) == (-1, 0)
    harness.close()


async def test_an_offset_with_a_pending_one_does_not_expire(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "offsets.retention.minutes=1", "transaction.max.timeout.ms=1000000")
    await harness.create_topic("events", 2)
    producer = await TransactionalProducer(harness, client_version=2).begin(timeout_ms=1_000_000)
    await commit(harness, 3, topic="events", group="g")
    assert await producer.commit_offset("g", 5) == 0
    harness.advance(700_000)  # the check runs every 10 minutes
    assert await _offset(harness, "g") == (3, 0)
    assert await producer.end(commit=False) == 0
    harness.advance(600_000)
    assert await _offset(harness, "g") == (-1, 0)
    harness.close()


async def _offset(harness: Harness, group: str, *, stable: bool = False) -> tuple[int, int]:
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics("events", partition_indexes=[0])])
        ],
        require_stable=stable,
    )
    (found,) = (await harness.ask(request)).groups[0].topics[0].partitions
    return found.committed_offset, found.error_code


async def test_transactions_are_listed_and_described(harness: Harness) -> None:
    producer = await producer_on(harness)
    await TransactionalProducer(harness, "idle").init()
    await producer.write(b"a")
    harness.clock.now_ms += 100

    async def listed(**filters: Any) -> list[str]:
        reply = await harness.ask(ListTransactionsRequest(**filters))
        assert reply.error_code == 0
        return sorted(each.transactional_id for each in reply.transaction_states)

    assert await listed() == ["idle", "t"]
    assert await listed(state_filters=["Ongoing"]) == ["t"]
    assert await listed(producer_id_filters=[producer.producer_id + 1]) == ["idle"]
    assert await listed(state_filters=["Broken"]) == []
    # Kafka subtracts the start of a transaction that there is not, which is -1.
    durations = [await listed(duration_filter=each) for each in (-1, 0, 99, 100)]
    assert durations == [["idle", "t"], ["idle", "t"], ["idle", "t"], ["idle"]]
    assert await listed(transactional_id_pattern="i.*e") == ["idle"]
    assert await listed(transactional_id_pattern="i") == []
    reply = await harness.ask(ListTransactionsRequest(transactional_id_pattern="("))
    assert reply.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    reply = await harness.ask(ListTransactionsRequest(["Empty", "Broken"]))
    assert reply.unknown_state_filters == ["Broken"]
    known, unknown = (await harness.ask(DescribeTransactionsRequest(["t", "no"]))).transaction_states
    assert (known.transaction_state, known.producer_epoch) == ("Ongoing", 0)
    assert [(each.topic, each.partitions) for each in known.topics] == [("events", [0])]
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    state = await _producer(harness)
    assert (state.current_txn_start_offset, state.coordinator_epoch) == (0, -1)
    await producer.end(commit=True)
    state = await _producer(harness)
    assert (state.current_txn_start_offset, state.coordinator_epoch) == (-1, 0)


async def _producer(harness: Harness) -> Any:
    reply = await harness.ask(DescribeProducersRequest([TopicRequest("events", [0])]))
    return reply.topics[0].partitions[0].active_producers[0]


async def test_an_operator_ends_a_transaction_with_markers(harness: Harness) -> None:
    producer = await producer_on(harness)
    await producer.write(b"a")

    async def mark(epoch: int, coordinator_epoch: int, partition: int = 0) -> int:
        topics = [WritableTxnMarkerTopic("events", [partition])]
        marker = WritableTxnMarker(producer.producer_id, epoch, False, topics, coordinator_epoch)
        reply = await harness.ask(WriteTxnMarkersRequest([marker]))
        return int(reply.markers[0].topics[0].partitions[0].error_code)

    assert await mark(0, 3, partition=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await mark(-1, 3) == ErrorCode.INVALID_REQUEST
    assert await mark(0, 3) == 0
    assert (await visible(harness), (await fetched(harness)).last_stable_offset) == ([], 2)
    assert await mark(0, 2) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await mark(1, 3) == 0
    assert await mark(0, 3) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_marker_of_transaction_version_2_has_a_new_epoch(harness: Harness, version: int) -> None:
    """KIP-1228."""
    producer = await producer_on(harness)
    await producer.write(b"a")

    async def mark(epoch: int) -> int:
        topics = [WritableTxnMarkerTopic("events", [0])]
        marker = WritableTxnMarker(producer.producer_id, epoch, False, topics, 0, version)
        reply = await harness.ask(WriteTxnMarkersRequest([marker]), 2)
        return int(reply.markers[0].topics[0].partitions[0].error_code)

    assert await mark(0) == (ErrorCode.INVALID_PRODUCER_EPOCH if version == 2 else 0)
    assert await mark(1) == 0
    assert await mark(1) == 0  # again, of a transaction that has ended
    assert await mark(0) == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_deleted_records_may_be_of_an_open_transaction(harness: Harness) -> None:
    producer = await producer_on(harness)
    await producer.write(b"a")
    await producer.write(b"b")
    topics = [DeleteRecordsTopic("events", [DeleteRecordsPartition(0, 1)])]
    assert (await harness.ask(DeleteRecordsRequest(topics))).topics[0].partitions[0].error_code == 0
    log = harness.partitions.log("events", 0)
    assert log is not None and log.last_stable_offset == 1
    await producer.end(commit=True)
    assert log.last_stable_offset == log.high_watermark == 3


async def test_a_deleted_topic_does_not_hold_up_the_end(harness: Harness) -> None:
    producer = await producer_on(harness)
    await harness.create_topic("gone")
    await producer.write(b"a")
    assert await producer.send(b"x", topic="gone") == 0
    await harness.ask(DeleteTopicsRequest([DeleteTopicState("gone")]))
    assert await producer.end(commit=True) == 0
    assert await visible(harness) == [b"a"]
    await producer.write(b"b")


async def test_a_marker_that_cannot_be_written_is_tried_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    producer = await producer_on(harness)
    await producer.write(b"a")
    assert await producer.end(commit=True, run=False) == 0
    monkeypatch.setattr(disk, "write_at", _full_disk)
    harness.run_transactions()
    harness.run_transactions()
    assert [each.message for each in caplog.records].count(
        "a transaction cannot be completed, and is tried again"
    ) == 1
    monkeypatch.undo()
    assert await visible(harness) == []
    harness.advance(RETRY_MS)
    assert await visible(harness) == [b"a"]


def _full_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


async def test_a_change_that_is_not_written_is_withdrawn(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await producer_on(harness, 1)
    with monkeypatch.context() as full:
        full.setattr(disk, "write_at", _full_disk)
        assert await producer.add(0) == [ErrorCode.NOT_COORDINATOR]
    await producer.write(b"a")
    with monkeypatch.context() as full:
        full.setattr(disk, "write_at", _full_disk)
        assert await producer.end(commit=True) == ErrorCode.NOT_COORDINATOR
    assert await producer.end(commit=True) == 0
    assert await visible(harness) == [b"a"]


async def test_a_damaged_record_is_skipped_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = Harness(tmp_path)
    producer = await producer_on(first)
    await producer.write(b"a")
    hosted = first.partitions.by_name["__transaction_state"]
    log = first.transactions._logs.at(hosted, 0)
    log.stage([(encode_key("bad"), b"\0\1short"), (b"\0\0\0\x09x", b"x")], 1)
    first.partitions.commit()
    first.close()
    again = Harness(tmp_path)
    lines = [each for each in caplog.records if "unreadable record" in each.message]
    assert len(lines) == 2 and len(again.transactions.coordinator) == 1
    producer.harness = again
    assert await producer.end(commit=True) == 0
    assert await visible(again) == [b"a"]
    again.close()


# Kills: each point is a copy of the files at that moment, opened again.

POINTS = ("initialized", "added", "written", "decided", "one marker", "all markers", "completed")
"""Between two writes of a transaction with two partitions and offsets."""


@pytest.fixture
def copies(tmp_path: Path) -> tuple[Path, Callable[[str], None]]:
    live = tmp_path / "live"
    live.mkdir()

    def copy(point: str) -> None:
        shutil.copytree(live, tmp_path / point)

    return live, copy


@VERSIONS
@pytest.mark.parametrize("commit", [True, False])
async def test_a_kill_at_any_point(
    tmp_path: Path,
    copies: tuple[Path, Callable[[str], None]],
    monkeypatch: pytest.MonkeyPatch,
    client_version: int,
    commit: bool,
) -> None:
    live, copy = copies
    harness = Harness(live)
    producer = await producer_on(harness, client_version)
    copy("initialized")
    if client_version == 1:
        assert await producer.add(0, 1) == [0, 0]
        assert await producer.add_group("g") == 0
        copy("added")
        assert await producer.send(b"a") == 0
    else:
        settle, settled = TransactionService.settle, []

        def settle_and_copy(self: TransactionService, *arguments: Any) -> ErrorCode:
            if not settled:
                copy("added")
            settled.append(1)
            return settle(self, *arguments)

        with monkeypatch.context() as hooked:
            hooked.setattr(TransactionService, "settle", settle_and_copy)
            assert await producer.send(b"a") == 0
    assert await producer.send(b"b", partition=1) == 0
    assert await producer.commit_offset("g", 5) == 0
    copy("written")
    monkeypatch.setattr(transaction_service, "MARKERS_AT_ONCE", 2)
    assert await producer.end(commit=commit, run=False) == 0
    copy("decided")
    harness.run_transactions()
    copy("one marker")
    write_now = TransactionService._write_now

    def copy_first(self: TransactionService, changes: Any, *rest: Any) -> Any:
        if changes and changes[0].data.state in (
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        ):
            copy("all markers")
        return write_now(self, changes, *rest)

    monkeypatch.setattr(TransactionService, "_write_now", copy_first)
    harness.run_transactions()
    harness.run_transactions()
    copy("completed")
    harness.close()
    monkeypatch.undo()
    for point in POINTS:
        await _check_after(tmp_path / point, point, is_committed=commit)


async def _check_after(directory: Path, point: str, *, is_committed: bool) -> None:
    """What a reader of committed records sees at the start, and once the coordinator has gone on."""
    decided = POINTS.index(point) >= POINTS.index("decided")
    harness = Harness(directory)
    try:
        values = {partition: await visible(harness, partition) for partition in (0, 1)}
        for partition, value in ((0, b"a"), (1, b"b")):
            assert values[partition] in ([], [value]), point
            assert not values[partition] or (decided and is_committed), point
        harness.advance(120_000)
        expected = decided and is_committed
        assert await visible(harness) == ([b"a"] if expected else []), point
        assert await visible(harness, 1) == ([b"b"] if expected else []), point
        assert await _offset(harness, "g", stable=True) == (5 if expected else -1, 0), point
        for partition in (0, 1):
            found = await fetched(harness, partition)
            assert found.last_stable_offset == found.high_watermark, point
        producer = TransactionalProducer(harness)
        assert await producer.init() == 0
        await producer.write(b"new")
        assert await producer.end(commit=True) == 0
        assert (await visible(harness))[-1:] == [b"new"], point
    finally:
        harness.close()


def _indexes(directory: Path) -> list[Path]:
    return list(directory.rglob(f"*{TXN_INDEX}"))


@pytest.mark.parametrize("is_clean", [True, False])
async def test_aborted_transactions_are_known_after_a_restart(
    tmp_path: Path, copies: tuple[Path, Callable[[str], None]], is_clean: bool
) -> None:
    live, copy = copies
    harness = Harness(live)
    producer = await producer_on(harness)
    other = TransactionalProducer(harness, "other")
    await other.init()
    await other.write(b"open")
    for number in range(3):
        await producer.write(b"lost")
        await producer.end(commit=False)
        await producer.write(b"%d" % number)
        await producer.end(commit=True)
        log = harness.partitions.log("events", 0)
        assert log is not None
        log.roll()
    copy("killed")
    harness.close()
    directory = live if is_clean else tmp_path / "killed"
    again = Harness(directory)
    log = again.partitions.log("events", 0)
    assert log is not None and log.last_stable_offset == 0
    assert sum(len(segment.aborted) for segment in log.segments) == 3
    assert len(_indexes(directory)) == 3
    other.harness = again
    assert await other.end(commit=True) == 0
    assert await visible(again) == [b"open", b"0"]  # of the first segment
    again.close()


async def test_an_index_that_is_damaged_is_built_again(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    producer = await producer_on(harness)
    await producer.write(b"lost")
    await producer.end(commit=False)
    harness.close()
    (index,) = _indexes(tmp_path)
    whole = index.read_bytes()
    index.write_bytes(whole[:-1])
    again = Harness(tmp_path)
    log = again.partitions.log("events", 0)
    assert log is not None and log.has_aborted
    assert index.read_bytes() == whole
    assert await visible(again) == []
    again.close()


async def test_end_before_version_2_has_the_older_code(harness: Harness) -> None:
    producer = await producer_on(harness, 1)
    await producer.write(b"a")
    request = EndTxnRequest("t", producer.producer_id, producer.epoch + 1, True)
    codes = [(await harness.ask(request, version)).error_code for version in (1, 2)]
    assert codes == [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED]


async def test_a_client_that_goes_away_in_any_pause_leaves_no_transaction_pending(harness: Harness) -> None:
    producer = await producer_on(harness, client_version=1)
    pauses = 0
    while True:
        with leaving_after(pauses) as gone:
            request = AddPartitionsToTxnRequest(
                producer.transactional_id,
                producer.producer_id,
                producer.epoch,
                [AddPartitionsToTxnTopic("events", [0, 1])],
            )
            await harness.put(request, 3)
        assert await producer.add(0, 1) == [0, 0]
        assert await producer.end(commit=True) == 0
        if not gone:
            break
        pauses += 1
    assert pauses > 2
