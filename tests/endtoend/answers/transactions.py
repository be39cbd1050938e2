"""Producer ids and transactions."""

from typing import Any, Final

from tests.endtoend.answers.topics import ABSENT, COMPACTED, TOPIC
from tests.support.kafka_answers import Body, Case, kept, topic_id

ID: Final = "transferred"
PRODUCER: Final = {"producer_id": kept("producer_id"), "producer_epoch": kept("producer_epoch")}
KEPT: Final = ("producer_id", "producer_epoch")
WITH_EPOCH: Final = (3, 4, 5)

NO_EPOCH: Final = "Kafka fails with UNKNOWN_SERVER_ERROR on an epoch below 0"
EMPTY_GROUP: Final = "Kafka lets a group without a name take part"


def init(transactional_id: str | None = ID, timeout_ms: int = 60_000, **more: Any) -> dict[str, Any]:
    return {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms, **more}


def add(transactional_id: str, producer: Body, *topics: tuple[str, list[int]]) -> dict[str, Any]:
    rows = [{"name": name, "partitions": indexes} for name, indexes in topics]
    one = {"transactional_id": transactional_id, **producer, "topics": rows}
    return {f"v3_and_below_{name}": value for name, value in one.items()} | {"transactions": [one]}


def end(transactional_id: str, producer: Body) -> dict[str, Any]:
    return {"transactional_id": transactional_id, **producer, "committed": True}


def commit(transactional_id: str, group: str, producer: Body, **more: Any) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    topics = [{"name": TOPIC, "topic_id": topic_id(TOPIC), "partitions": partitions}]
    return {"transactional_id": transactional_id, "group_id": group, **producer, "topics": topics, **more}


UNKNOWN_TOPIC: Final = {"topic_id": b"\7" * 16, "partitions": [{"partition_index": 0}]}


def marker(producer: Body, version: int, epoch: int) -> dict[str, Any]:
    """The end of a transaction of this version, with the producer's epoch changed by so much."""
    return {
        **producer,
        "producer_epoch": lambda side: side.kept["producer_epoch"] + epoch,
        "transaction_result": True,
        "topics": [{"name": COMPACTED, "partition_indexes": [0]}],
        "transaction_version": version,
    }


OTHER: Final = {"producer_id": 123_456, "producer_epoch": 0}
OTHER_EPOCH: Final = {"producer_id": kept("producer_id"), "producer_epoch": 77}

CASES: Final = (
    Case("InitProducerId", init(None)),
    Case("InitProducerId", init("")),
    *(Case("InitProducerId", init(timeout_ms=timeout)) for timeout in (0, -1, 900_001)),
    *(
        Case("InitProducerId", init(name, producer_id=producer, producer_epoch=epoch), WITH_EPOCH)
        for name, producer, epoch in ((ID, 5, -1), (ID, -1, 5), (None, 5, 5))
    ),
    Case("InitProducerId", init(), keeps=KEPT),
    Case("InitProducerId", init(producer_id=999_999, producer_epoch=5), WITH_EPOCH),
    Case("AddPartitionsToTxn", add("none", OTHER, (TOPIC, [0]))),
    Case("AddPartitionsToTxn", add(ID, OTHER_EPOCH, (TOPIC, [0]))),
    Case("AddPartitionsToTxn", add(ID, PRODUCER, (TOPIC, [0, 9]), (ABSENT, [0]))),
    Case("AddOffsetsToTxn", {"transactional_id": "none", **OTHER, "group_id": "g"}),
    Case("EndTxn", end("none", OTHER)),
    Case("EndTxn", end(ID, OTHER)),
    Case("EndTxn", end("", OTHER)),
    Case("EndTxn", end(ID, OTHER_EPOCH)),
    Case("EndTxn", end(ID, PRODUCER), range(5)),
    Case("TxnOffsetCommit", commit("none", "", OTHER)),
    Case("TxnOffsetCommit", commit(ID, "of-txn", PRODUCER), range(4)),
    Case("TxnOffsetCommit", commit(ID, "of-txn", PRODUCER, generation_id=4, member_id="m"), (3, 4)),
    Case("DescribeTransactions", {"transactional_ids": ["none", ""]}),
    Case("DescribeTransactions", {"transactional_ids": ["none", "none"]}),
    Case("DescribeTransactions", {"transactional_ids": []}),
    Case("ListTransactions", {"state_filters": ["no such state", "Ongoing"]}),
    Case("ListTransactions", {"producer_id_filters": [123]}),
    Case("ListTransactions", {"transactional_id_pattern": "("}, (2,)),
    Case(
        "WriteTxnMarkers",
        {
            "markers": [
                {
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "transaction_result": True,
                    "topics": [
                        {"name": ABSENT, "partition_indexes": [0]},
                        {"name": TOPIC, "partition_indexes": [9]},
                    ],
                }
            ]
        },
    ),
    Case("AddOffsetsToTxn", {"transactional_id": ID, **PRODUCER, "group_id": ""}, differs=EMPTY_GROUP),
    Case("InitProducerId", init("by-id"), (5,), keeps=KEPT),
    Case("TxnOffsetCommit", commit("by-id", "of-ids", PRODUCER, generation_id=4, member_id="m"), (5, 6)),
    Case("TxnOffsetCommit", commit("by-id", "of-ids", PRODUCER, topics=[UNKNOWN_TOPIC]), (6,)),
    Case("TxnOffsetCommit", commit("by-id", "of-ids", PRODUCER), (6,)),
    Case("WriteTxnMarkers", {"markers": [marker(PRODUCER, 2, -1)]}, differs=NO_EPOCH),
    *(
        Case("WriteTxnMarkers", {"markers": [marker(PRODUCER, version, epoch)]}, (2,))
        for version, epoch in ((1, 0), (2, 0), (2, 0), (2, 1), (2, 1), (0, 0))
    ),
)
