"""DescribeLogDirs and DescribeProducers."""

from pathlib import Path

import pytest

from broker.api.a61_describe_producers import handle
from broker.api.requests.services import PartitionServices
from broker.common.errors import ErrorCode
from broker.common.slices import SLICE
from broker.log.producer_state import BatchMetadata
from broker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from broker.protocol.messages.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from broker.records.build import NewRecord, build_batch
from tests.api.harness import WALL_MS, Harness

Sizes = dict[str, dict[str, dict[int, int]]]


async def sizes(
    harness: Harness, topics: list[DescribableLogDirTopic] | None = None, version: int = 4
) -> Sizes:
    reply = await harness.ask(DescribeLogDirsRequest(topics), version)
    assert {each.error_code for each in (reply, *reply.results)} == {ErrorCode.NONE}
    assert not any(each.is_cordoned for each in reply.results)
    return {
        result.log_dir: {
            topic.name: {each.partition_index: each.partition_size for each in topic.partitions}
            for topic in result.topics
        }
        for result in reply.results
    }


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
async def test_a_directory_without_partitions_has_an_entry(
    harness: Harness, tmp_path: Path, version: int
) -> None:
    assert await sizes(harness, version=version) == {str(tmp_path): {}}


async def test_partitions_are_found_in_their_directories_with_their_sizes(tmp_path: Path) -> None:
    directories = [tmp_path / "one", tmp_path / "two"]
    for directory in directories:
        directory.mkdir()
    harness = Harness(tmp_path, f"log.dirs={directories[0]},{directories[1]}")
    await harness.create_topic("orders", 2)
    for partition in range(2):
        harness.append("orders", WALL_MS, partition=partition)
    size = len(build_batch([NewRecord(b"key", b"value", WALL_MS)]))
    found = await sizes(harness)
    assert set(found) == {str(directory) for directory in directories}
    assert sorted(index for topics in found.values() for index in topics["orders"]) == [0, 1]
    assert {each for topics in found.values() for each in topics["orders"].values()} == {size}
    harness.close()


async def test_a_partition_without_files_has_size_0(harness: Harness, tmp_path: Path) -> None:
    await harness.create_topic("orders", 3)
    harness.append("orders", WALL_MS, partition=1)
    found = (await sizes(harness))[str(tmp_path)]["orders"]
    assert found[0] == found[2] == 0 < found[1] and len(found) == 3
    wanted = [DescribableLogDirTopic("orders", [-1, 0, 2, 3])]
    assert await sizes(harness, wanted) == {str(tmp_path): {"orders": {0: 0, 2: 0}}}


async def test_a_partition_without_files_is_where_it_would_be_created(tmp_path: Path) -> None:
    directories = [tmp_path / "one", tmp_path / "two"]
    for directory in directories:
        directory.mkdir()
    harness = Harness(tmp_path, f"log.dirs={directories[0]},{directories[1]}")
    await harness.create_topic("orders", 2)
    store = harness.partitions.store
    store.directories.prefer("orders", 1, store.directories.named(str(directories[1])))
    described = await sizes(harness)
    assert described == {str(directories[0]): {"orders": {0: 0}}, str(directories[1]): {"orders": {1: 0}}}
    assert store.directories.place("orders", 1).path == str(directories[1])
    harness.close()


async def test_only_what_was_asked_for_is_answered(harness: Harness, tmp_path: Path) -> None:
    await harness.create_topic("orders", 2)
    for partition in range(2):
        harness.append("orders", WALL_MS, partition=partition)
    wanted = [DescribableLogDirTopic("orders", [1, 5]), DescribableLogDirTopic("missing", [0])]
    assert set((await sizes(harness, wanted))[str(tmp_path)]["orders"]) == {1}
    assert await sizes(harness, []) == {str(tmp_path): {}}


async def test_producers_are_described_with_what_they_wrote_last(harness: Harness) -> None:
    await harness.create_topic("orders")
    log = harness.partitions.log("orders", 0)
    assert log is not None
    for sequence in (0, 2):
        records = [NewRecord(None, b"value", WALL_MS + sequence + each) for each in range(2)]
        batch = build_batch(records, producer_id=7, producer_epoch=3, base_sequence=sequence)
        log.stage(batch, now_wall_ms=WALL_MS)
    harness.partitions.commit()
    request = DescribeProducersRequest([TopicRequest("orders", [0, 1]), TopicRequest("missing", [0])])
    orders, missing = (await harness.ask(request)).topics
    assert [each.error_code for each in (*orders.partitions, *missing.partitions)] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    (active,) = orders.partitions[0].active_producers
    assert (active.producer_id, active.producer_epoch) == (7, 3)
    assert (active.last_sequence, active.last_timestamp) == (3, WALL_MS + 3)
    assert (active.coordinator_epoch, active.current_txn_start_offset) == (-1, -1)


async def test_many_producers_are_described_in_slices(harness: Harness) -> None:
    await harness.create_topic("orders")
    log = harness.partitions.log("orders", 0)
    assert log is not None
    for producer_id in range(3 * SLICE):
        log.producers.add(producer_id, 0, BatchMetadata(0, 0, 0, 0, WALL_MS), WALL_MS)
    request = DescribeProducersRequest([TopicRequest("orders", [0])])
    context = (await harness.put(request)).context
    slices = handle(request, context, harness.services[PartitionServices])
    assert sum(1 for _ in slices) == 3 * SLICE + 2, "one for each, the partition, and the topic"
    (topic,) = (await harness.ask(request)).topics
    found = [each.producer_id for each in topic.partitions[0].active_producers]
    assert found == list(range(3 * SLICE))
