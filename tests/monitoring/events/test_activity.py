"""Transactions that the broker aborts are events; those that producers end are not."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from broker.controller.transaction_changes import AbortTransaction
from broker.coordinator.transaction.state import CoordinatorAbort, TransactionData
from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.monitoring.events.activity import MAX_PARTITIONS, TransactionEvents
from broker.protocol.messages.end_txn import EndTxnRequest
from tests.monitoring.events.transacting import TOPIC, begin, time_out
from tests.monitoring.events.written import event_records, second_passes, written
from tests.support.produce import create_topic
from tests.support.running import RunningBroker, running_broker


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, "events.topics=transactions") as running:
        admin = await running.connect("admin")
        await admin.ask(create_topic(partitions=3), 5)
        yield running


async def test_a_timed_out_transaction_is_an_event(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect("payer")
    producer_id = await begin(client, "payments", timeout_ms=1, partitions=2)
    await time_out(broker, mock_clock)
    await second_passes(broker, mock_clock)
    [event] = written(broker, "transactions")
    assert event.pop("started_ms") > 0 and event.pop("open_ms") > 0
    assert event == {
        "event": "aborted",
        "reason": "timed_out",
        "transactional_id": "payments",
        "producer_id": producer_id,
        "producer_epoch": 0,
        "principal": "ANONYMOUS",
        "client_id": "payer",
        "address": "127.0.0.1",
        "timeout_ms": 1,
        "partitions": {TOPIC: [0, 1]},
        "partition_count": 2,
    }
    [record] = event_records(broker, "__weir_transactions")
    assert record.key == b"payments"


async def test_one_that_an_operator_aborts_is_an_event(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect("payer")
    await begin(client, "payments", timeout_ms=60_000)
    operator = Actor("olga", Role.ADMIN, "10.0.0.7", ChangeOrigin.REST)
    await broker.server.control.apply(AbortTransaction("payments"), operator)
    await second_passes(broker, mock_clock)
    [event] = written(broker, "transactions")
    assert (event["reason"], event["transactional_id"]) == ("aborted_by_operator", "payments")


async def test_one_that_the_producer_ends_is_not(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect("payer")
    producer_id = await begin(client, "payments", timeout_ms=60_000)
    ended = await client.ask(EndTxnRequest("payments", producer_id, 0, committed=False), 3)
    assert ended.error_code == 0
    await second_passes(broker, mock_clock)
    assert written(broker, "transactions") == []


async def test_none_are_collected_while_the_topic_is_not_selected(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, "events.topics=requests") as broker:
        client = await broker.connect("payer")
        await client.ask(create_topic(), 5)
        await begin(client, "payments", timeout_ms=1)
        await time_out(broker, mock_clock)
        await second_passes(broker, mock_clock)
        assert written(broker, "transactions") == []


def abort_of(count: int) -> CoordinatorAbort:
    data = TransactionData(7, 3, 100, partitions=frozenset(("t", index) for index in range(count)))
    return CoordinatorAbort("id", "timed_out", data, None, 50)


@pytest.mark.parametrize("count", [MAX_PARTITIONS - 1, MAX_PARTITIONS, MAX_PARTITIONS + 1])
def test_an_event_names_the_first_partitions_and_counts_all(count: int) -> None:
    source = TransactionEvents(1)
    source.aborted(abort_of(count))
    [event] = source.drain(60)
    fields = json.loads(event.value)
    assert fields["partitions"] == {"t": list(range(min(count, MAX_PARTITIONS)))}
    assert (fields["partition_count"], fields["principal"]) == (count, "")


@pytest.mark.parametrize(("aborts", "left_out"), [(1, 0), (2, 0), (3, 1)])
def test_more_than_the_rows_of_a_second_are_counted(aborts: int, left_out: int) -> None:
    source = TransactionEvents(2)
    for _ in range(aborts):
        source.aborted(abort_of(1))
    assert (len(list(source.drain(60))), source.left_out) == (aborts - left_out, left_out)
