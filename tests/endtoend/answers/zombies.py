"""Producers with an epoch that another has taken over, or that never was."""

import time
from typing import Any, Final

from broker.records.build import NewRecord, build_batch
from tests.endtoend.answers.records import produce
from tests.endtoend.answers.topics import ABSENT, TOPIC
from tests.endtoend.answers.transactions import (
    KEPT,
    PRODUCER,
    WITH_EPOCH,
    add,
    commit,
    end,
    init,
)
from tests.support.kafka_answers import Body, Case, Side, kept

ID: Final = "haunted"
ENDED_BEFORE: Final = "Kafka takes it for a repetition, though an older version had ended the transaction"
OPEN: Final = "haunted-open"
TRANSACTIONAL: Final = 0x10
NOW_MS: Final = int(time.time() * 1_000)


def epoch(change: int) -> Any:
    """The producer's epoch, changed by so much."""
    return lambda side: side.kept["producer_epoch"] + change


ZOMBIE: Final = {"producer_id": kept("producer_id"), "producer_epoch": epoch(-1)}
FUTURE: Final = {"producer_id": kept("producer_id"), "producer_epoch": epoch(1)}


def batch(change: int = 0, sequence: int = 0, attributes: int = TRANSACTIONAL) -> Any:
    def of(side: Side) -> bytes:
        return bytes(
            build_batch(
                [NewRecord(b"key", b"value", NOW_MS)],
                producer_id=side.kept["producer_id"],
                producer_epoch=side.kept["producer_epoch"] + change,
                base_sequence=sequence,
                attributes=attributes,
            )
        )

    return of


def written(change: int = 0, transactional_id: str | None = OPEN, **more: Any) -> Body:
    return produce(batch(change, **more), transactional_id=transactional_id)


def add_in_batch(producer: Body, *transactions: str, **more: Any) -> Body:
    topics = [{"name": TOPIC, "partitions": [0]}]
    return {
        "transactions": [
            {"transactional_id": each, **producer, "topics": topics, **more} for each in transactions
        ]
    }


def add_offsets(producer: Body, group: str = "haunted-group") -> Body:
    return {"transactional_id": OPEN, **producer, "group_id": group}


CASES: Final = (
    # Without a transaction.
    Case("InitProducerId", init(ID), (4,), keeps=KEPT),
    Case("InitProducerId", init(ID), (4,), keeps=KEPT),
    *(Case("EndTxn", end(ID, producer)) for producer in (ZOMBIE, FUTURE)),
    *(Case("AddPartitionsToTxn", add(ID, producer, (TOPIC, [0]))) for producer in (ZOMBIE, FUTURE)),
    *(
        Case("AddOffsetsToTxn", {"transactional_id": ID, **producer, "group_id": "haunted-group"})
        for producer in (ZOMBIE, FUTURE)
    ),
    *(Case("TxnOffsetCommit", commit(ID, "haunted-group", producer)) for producer in (ZOMBIE, FUTURE)),
    *(Case("InitProducerId", init(ID, **producer), WITH_EPOCH) for producer in (FUTURE, PRODUCER)),
    Case("Produce", written(transactional_id=ID), (9,)),
    Case("Produce", written(transactional_id=ID), (12,)),
    Case("Produce", written(transactional_id=None), (9,)),
    # In an open transaction.
    Case("InitProducerId", init(OPEN), (4,), keeps=KEPT),
    Case("InitProducerId", init(OPEN), (4,), keeps=KEPT),
    Case("AddPartitionsToTxn", add(OPEN, PRODUCER, (TOPIC, [0])), (3,)),
    Case("Produce", written(), (9,)),
    Case("Produce", written(), (9,)),
    Case("Produce", written(sequence=7), (9,)),
    Case("Produce", written(attributes=0, sequence=1)),
    Case("Produce", written(-1, sequence=1)),
    Case("Produce", written(1, sequence=0)),
    *(
        Case(api, body)
        for producer in (ZOMBIE, FUTURE)
        for api, body in (
            ("AddPartitionsToTxn", add(OPEN, producer, (TOPIC, [1]))),
            ("AddPartitionsToTxn", add(OPEN, producer, (ABSENT, [0]))),
            ("AddOffsetsToTxn", add_offsets(producer)),
            ("TxnOffsetCommit", commit(OPEN, "haunted-group", producer)),
            ("EndTxn", end(OPEN, producer)),
        )
    ),
    Case("AddPartitionsToTxn", add_in_batch(PRODUCER, OPEN, verify_only=True), (4, 5)),
    Case("AddPartitionsToTxn", add_in_batch(ZOMBIE, OPEN, verify_only=True), (4, 5)),
    Case("AddPartitionsToTxn", add_in_batch(PRODUCER, OPEN, "none", verify_only=True), (4, 5)),
    Case("AddPartitionsToTxn", add_in_batch(PRODUCER, OPEN, OPEN, verify_only=True), (4, 5)),
    Case(
        "AddPartitionsToTxn",
        add_in_batch(PRODUCER, OPEN, verify_only=True)
        | {"transactions": [{"transactional_id": OPEN, **PRODUCER, "topics": [], "verify_only": True}]},
        (4, 5),
    ),
    Case("DescribeProducers", {"topics": [{"name": TOPIC, "partition_indexes": [0, 1]}]}),
    Case("AddOffsetsToTxn", add_offsets(PRODUCER), (3,)),
    Case("EndTxn", end(OPEN, PRODUCER), (3,)),
    Case("EndTxn", end(OPEN, ZOMBIE), range(5)),
    Case("EndTxn", end(OPEN, ZOMBIE), (5,), differs=ENDED_BEFORE),
)
