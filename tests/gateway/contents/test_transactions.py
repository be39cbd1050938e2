"""Transactional ids of the upstream cluster at a gateway: read, and an open transaction aborted."""

from pathlib import Path

from broker.controller.commands import NewTopic
from broker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.gateway.contents.world import World, world

ORDERS = NewTopic("orders", 2, 1)


async def begin(found: World, name: str) -> tuple[int, int]:
    """Begin a transaction with one partition, without a record. Return the producer."""
    client = await found.broker.connect()
    await client.ask(FindCoordinatorRequest(name, 1, [name]), 4)
    producer = await client.ask(InitProducerIdRequest(name, 60_000), 4)
    assert producer.error_code == 0
    ids = producer.producer_id, producer.producer_epoch
    topics = [AddPartitionsToTxnTopic("orders", [0])]
    added = await client.ask(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=ids[0],
            v3_and_below_producer_epoch=ids[1],
            v3_and_below_topics=topics,
        ),
        3,
    )
    assert {
        each.partition_error_code
        for topic in added.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    } == {0}
    return ids


async def test_a_transaction_is_listed_and_aborted(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        producer_id, epoch = await begin(found, "payer")
        page = await found.get("transactions")
        (row,) = page["items"]
        assert (row["transactional_id"], row["state"], row["partitions"]) == ("payer", "Ongoing", 1)
        assert (row["producer_id"], row["producer_epoch"], row["timeout_ms"]) == (producer_id, epoch, 60_000)
        assert row["open_since"] is not None and row["updated_at"] is None
        assert (await found.get("transactions?filter=open"))["total"] == 1
        one = await found.get("transactions/payer")
        assert [(each["topic"], each["partition"]) for each in one["partition_list"]] == [("orders", 0)]
        await found.get("transactions/none", 404)
        body = {"producer_id": producer_id, "producer_epoch": epoch + 7}
        await found.ask("POST", "transactions/payer:abort", 412, body)
        body = {"producer_id": producer_id, "producer_epoch": epoch}
        preview = await found.ask("POST", "transactions/payer:abort?validate_only=true", 200, body)
        assert preview["partitions"] == 1
        assert (await found.get("transactions/payer"))["state"] == "Ongoing"
        await found.ask("POST", "transactions/payer:abort", 200, body)
        await found.until("transactions/payer", lambda answer: answer["state"] != "Ongoing")
        (note,) = (await found.get("audit?kind=transaction"))["items"]
        assert (note["actor"], note["entity"], note["key"]) == ("administrator", "payer", "aborted")
        problem = await found.ask("POST", "transactions/payer:abort", 409, body)
        assert "no open transaction" in problem["detail"]
