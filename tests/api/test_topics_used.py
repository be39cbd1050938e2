"""Which topics a connection is known to use: with and without fast paths, and only what it may use."""

from pathlib import Path

import pytest

from broker.api.requests.topics_used import MAX_TOPICS, note_read, note_written
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.records.build import NewRecord, build_batch
from broker.security.acl.acl import Operation
from tests.api.harness import WALL_MS, Connection, Harness
from tests.api.test_authorization import grant
from tests.controller.world import AUTHORIZER
from tests.security.acl.acls import allow

BY_NAME = 9
"""A version of both APIs in which topics have names."""


def produce(*topics: str) -> ProduceRequest:
    batch = build_batch([NewRecord(None, b"value", WALL_MS)])
    data = [TopicProduceData(name, partition_data=[PartitionProduceData(0, batch)]) for name in topics]
    return ProduceRequest(None, 1, 1_000, data)


def fetch(*topics: str, epoch: int = -1) -> FetchRequest:
    wanted = [FetchTopic(name, partitions=[FetchPartition(0, partition_max_bytes=10_000)]) for name in topics]
    return FetchRequest(min_bytes=1, max_bytes=100_000, session_epoch=epoch, topics=wanted)


async def broker(directory: Path, *overrides: str, is_fast: bool = True) -> Harness:
    harness = Harness(directory, *overrides)
    harness.uses_fast_paths = is_fast
    for name in ("orders", "clicks"):
        made = await harness.ask(
            CreateTopicsRequest([CreatableTopic(name, 1, 1)]), connection=connection("root")
        )
        assert made.topics[0].error_code == 0
    return harness


def connection(principal: str = "alice") -> Connection:
    made = Connection()
    made.principal = principal
    return made


@pytest.mark.parametrize("is_fast", [True, False])
async def test_what_a_connection_writes_to_and_reads_from_is_noted(tmp_path: Path, is_fast: bool) -> None:
    harness = await broker(tmp_path, is_fast=is_fast)
    producer, consumer, session = Connection(), Connection(), Connection()
    for topics in (("orders",), ("orders",), ("clicks", "orders"), ("missing",)):
        await harness.put(produce(*topics), BY_NAME, connection=producer)
    for topics in (("orders",), ("orders",), ("orders", "clicks")):
        await harness.put(fetch(*topics), BY_NAME, connection=consumer)
    await harness.put(fetch("clicks", epoch=0), BY_NAME, connection=session)
    await harness.put(fetch("orders"), BY_NAME, connection=session)
    assert producer.topics_written == {"orders", "clicks"} and producer.topics_read == frozenset()
    assert consumer.topics_read == {"orders", "clicks"} and consumer.topics_written == frozenset()
    assert session.topics_read == {"orders", "clicks"}
    harness.close()


@pytest.mark.parametrize("is_fast", [True, False])
async def test_a_refused_use_is_not_noted(tmp_path: Path, is_fast: bool) -> None:
    harness = await broker(tmp_path, AUTHORIZER, "super.users=User:root", is_fast=is_fast)
    await harness.put(produce("orders", "clicks"), BY_NAME, connection=connection("root"))
    alice = connection()
    for message in (produce("orders"), fetch("orders"), produce("orders"), fetch("orders")):
        await harness.put(message, BY_NAME, connection=alice)
    assert alice.topics_written == alice.topics_read == frozenset()
    grant(harness, allow(Operation.WRITE), allow(Operation.READ))
    await harness.put(produce("orders", "clicks"), BY_NAME, connection=alice)
    await harness.put(fetch("orders", "clicks"), BY_NAME, connection=alice)
    assert alice.topics_written == alice.topics_read == {"orders"}
    harness.close()


@pytest.mark.parametrize(("others", "is_noted"), [(-1, True), (0, False), (1, False)])
def test_the_topics_of_a_connection_are_limited(others: int, is_noted: bool) -> None:
    used = Connection()
    for number in range(MAX_TOPICS + others):
        note_written(used, f"t{number}")
        note_read(used, f"t{number}")
    for note in (note_written, note_read):
        note(used, "last")
        note(used, "t0")
    assert ("last" in used.topics_written) is ("last" in used.topics_read) is is_noted
    assert len(used.topics_written) == len(used.topics_read) == MAX_TOPICS
