"""Records of aborted transactions: the broker's own, as the pipeline reads them."""

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from broker.coordinator.transaction.state import CoordinatorAbort, TransactionClient, TransactionData
from broker.monitoring.events.activity import TransactionEvents
from pipeline import silver
from pipeline.formats import TRANSACTIONS
from tests.pipeline.events import NOON_MS, abort, raw, record, rows_of


def test_a_record_of_the_broker_becomes_a_row(spark):
    data = TransactionData(
        7,
        3,
        60_000,
        started_ms=NOON_MS - 61_000,
        partitions=frozenset([("orders", 3), ("orders", 0), ("sums", 1)]),
    )
    client = TransactionClient("User:alice", "payer", "10.0.0.1")
    source = TransactionEvents(1)
    source.aborted(CoordinatorAbort("payments", "timed_out", data, client, NOON_MS))
    [event] = source.drain(NOON_MS)
    rows = silver.valid_rows(
        silver.parse_events(raw(spark, [record(TRANSACTIONS, 5, event.value)]), TRANSACTIONS)
    )
    (row,) = rows.collect()
    assert row["partitions"] == {"orders": [0, 3], "sums": [1]}
    plain = row.asDict()
    expected = {
        "event": "aborted",
        "reason": "timed_out",
        "transactional_id": "payments",
        "producer_id": 7,
        "producer_epoch": 3,
        "principal": "alice",
        "client_id": "payer",
        "address": "10.0.0.1",
        "timeout_ms": 60_000,
        "started_ms": NOON_MS - 61_000,
        "open_ms": 61_000,
        "partition_count": 3,
        "offset": 5,
        "node": 1,
    }
    assert {name: plain[name] for name in expected} == expected
    assert rows_of(rows, "time") == [("12:00",)]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({}, None),
        ({"partition_count": 0}, None),
        ({"partition_count": -1}, "partition_count is not a count"),
        ({"partition_count": None}, "partition_count is not a count"),
        ({"open_ms": -1}, "open_ms is not a count"),
        ({"timeout_ms": 2**40}, None),
        ({"timeout_ms": 2**40 + 1}, "timeout_ms is not a count"),
        ({"v": 2}, "unknown version"),
    ],
)
def test_one_that_is_not_right_is_reported_with_its_reason(spark, wrong, reason):
    rows = raw(spark, [record(TRANSACTIONS, 0, abort(0) | wrong)])
    (found,) = silver.parse_events(rows, TRANSACTIONS).select("reason").collect()
    assert found["reason"] == reason
