"""The first request for a partition creates its log, and each creation of files has its own slice."""

from typing import Any

import pytest

from broker.api.a00_produce import _append_all
from broker.api.a01_fetch import SOME_BYTES
from broker.api.a02_list_offsets import _respond
from broker.api.context import RequestContext
from broker.api.fetch_many import fetch_many
from broker.api.services import FetchServices, PartitionServices, ProduceServices
from broker.log.store import LogStore
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.protocol.schema import Message
from broker.records.slices import Slices
from tests.api.harness import Harness
from tests.support.produce import batch_of

PARTITIONS = 20


def fetch() -> FetchRequest:
    asked = [FetchPartition(at, fetch_offset=0, partition_max_bytes=1_000) for at in range(PARTITIONS)]
    return FetchRequest(
        max_wait_ms=0, session_id=0, session_epoch=-1, topics=[FetchTopic("wide", partitions=asked)]
    )


def list_offsets() -> ListOffsetsRequest:
    asked = [ListOffsetsPartition(at, -1, -1) for at in range(PARTITIONS)]
    return ListOffsetsRequest(-1, 0, [ListOffsetsTopic("wide", asked)])


def produce() -> ProduceRequest:
    data = [PartitionProduceData(at, batch_of(b"x")) for at in range(PARTITIONS)]
    return ProduceRequest(None, 1, 30_000, [TopicProduceData("wide", partition_data=data)])


@pytest.fixture
def made(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of logs created since the test cleared it."""
    made: list[int] = []
    create = LogStore.create_partition

    def counted(store: LogStore, topic: str, topic_id: bytes, index: int, *rest: Any) -> Any:
        made.append(index)
        return create(store, topic, topic_id, index, *rest)

    monkeypatch.setattr(LogStore, "create_partition", counted)
    return made


@pytest.mark.parametrize("api", ["fetch", "list offsets", "produce"])
async def test_a_slice_makes_one_log_at_most(harness: Harness, made: list[int], api: str) -> None:
    await harness.create_topic("wide", PARTITIONS)
    made.clear()
    message: Message = {"fetch": fetch, "list offsets": list_offsets, "produce": produce}[api]()
    context: RequestContext = await harness.put(ListOffsetsRequest(-1, 0, []), 7)
    slices: Slices[Any] = {
        "fetch": lambda: fetch_many(message, -1, context, harness.services[FetchServices]),  # type: ignore[arg-type]
        "list offsets": lambda: _respond(message, context, harness.services[PartitionServices]),  # type: ignore[arg-type]
        "produce": lambda: _append_all(message, context, harness.services[ProduceServices]),  # type: ignore[arg-type]
    }[api]()
    most = before = 0
    for _ in slices:
        most, before = max(most, len(made) - before), len(made)
    assert most == 1 and sorted(made) == list(range(PARTITIONS))


async def test_a_small_fetch_that_makes_logs_is_read_in_slices(
    harness: Harness, made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.create_topic("wide", PARTITIONS)
    made.clear()
    in_slices: list[int] = []

    def seen(*args: Any) -> Any:
        in_slices.append(len(made))
        return fetch_many(*args)

    monkeypatch.setattr("broker.api.a01_fetch.fetch_many", seen)
    assert (await harness.put(fetch(), 12)).size > SOME_BYTES
    assert in_slices == [0] and len(made) == PARTITIONS
    await harness.put(fetch(), 12)
    assert in_slices == [0], "they are there now"
