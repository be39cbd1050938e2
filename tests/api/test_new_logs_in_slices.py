"""The first request for a partition creates its log, and each creation of files has its own slice."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.api.a00_produce import _append_all
from broker.api.a01_fetch import fetch as fetch_usual
from broker.api.a02_list_offsets import handle as list_offsets_in_slices
from broker.api.a21_delete_records import handle as delete_records_in_slices
from broker.api.a23_offset_for_leader_epoch import handle as epochs_in_slices
from broker.api.a34_alter_replica_log_dirs import handle as moves_in_slices
from broker.api.a61_describe_producers import handle as producers_in_slices
from broker.api.produce.pending import APPEND_COST, CHUNK
from broker.api.requests.services import FetchServices, PartitionServices, ProduceServices
from broker.common import slices as common_slices
from broker.common.slices import SLICE, SLICE_S, Slices
from broker.log.checkpoints import OffsetFile
from broker.log.moves import Moves
from broker.log.partition import PartitionLog
from broker.log.store import LogStore
from broker.partitions.partitions import Partitions
from broker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from broker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.server.compiled import COMPILED
from tests.api.harness import WALL_MS, Harness
from tests.support.produce import PRODUCE_VERSION, batch_of

PARTITIONS = 20

APIS = [
    "fetch",
    "list offsets",
    "produce",
    "delete records",
    "offset for leader epoch",
    "describe producers",
    "alter replica log dirs",
]


def fetch() -> FetchRequest:
    partitions = [FetchPartition(at, fetch_offset=0, partition_max_bytes=1_000) for at in range(PARTITIONS)]
    return FetchRequest(
        max_wait_ms=0, session_id=0, session_epoch=-1, topics=[FetchTopic("wide", partitions=partitions)]
    )


def list_offsets() -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(at, -1, -1) for at in range(PARTITIONS)]
    return ListOffsetsRequest(-1, 0, [ListOffsetsTopic("wide", partitions)])


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


def delete_records() -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(at, -1) for at in range(PARTITIONS)]
    return DeleteRecordsRequest([DeleteRecordsTopic("wide", partitions)], 1_000)


def epochs() -> OffsetForLeaderEpochRequest:
    partitions = [OffsetForLeaderPartition(at, -1, 0) for at in range(PARTITIONS)]
    return OffsetForLeaderEpochRequest(-2, [OffsetForLeaderTopic("wide", partitions)])


def producers() -> DescribeProducersRequest:
    return DescribeProducersRequest([TopicRequest("wide", list(range(PARTITIONS)))])


def moves(harness: Harness, *directories: int) -> AlterReplicaLogDirsRequest:
    """Move every partition to each of the directories in turn."""
    paths = [each.path for each in harness.log.directories]
    topics = [AlterReplicaLogDirTopic("wide", list(range(PARTITIONS)))]
    return AlterReplicaLogDirsRequest([AlterReplicaLogDir(paths[at], topics) for at in directories])


@pytest.fixture
def two_directories(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path, f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}")
    yield harness
    harness.close()


async def slices_of(harness: Harness, api: str) -> Slices[Any]:
    context = (await harness.put(ListOffsetsRequest(-1, 0, []), 7)).context
    services = harness.services[PartitionServices]
    make: Callable[[], Slices[Any]] = {
        "fetch": lambda: fetch_usual(fetch(), -1, context, harness.services[FetchServices]),
        "list offsets": lambda: list_offsets_in_slices(list_offsets(), context, services),
        "produce": lambda: _append_all(produce(), context, harness.services[ProduceServices]),
        "delete records": lambda: delete_records_in_slices(delete_records(), context, services),
        "offset for leader epoch": lambda: epochs_in_slices(epochs(), context, services),
        "describe producers": lambda: producers_in_slices(producers(), context, services),
        "alter replica log dirs": lambda: moves_in_slices(moves(harness, 0), context, services),
    }[api]
    return make()


@pytest.mark.parametrize("api", APIS)
async def test_a_slice_makes_one_log_at_most(harness: Harness, made: list[int], api: str) -> None:
    await harness.create_topic("wide", PARTITIONS)
    made.clear()
    most = before = 0
    for _ in await slices_of(harness, api):
        most, before = max(most, len(made) - before), len(made)
    most = max(most, len(made) - before)
    assert most == 1 and sorted(made) == list(range(PARTITIONS))


@pytest.mark.parametrize("api", APIS)
async def test_a_topic_that_is_deleted_between_two_slices_gets_no_more_logs(
    harness: Harness, made: list[int], api: str
) -> None:
    await harness.create_topic("wide", PARTITIONS)
    made.clear()
    slices = await slices_of(harness, api)
    while len(made) < 3:
        next(slices)
    await harness.ask(DeleteTopicsRequest(topic_names=["wide"], timeout_ms=1_000), 5)
    for _ in slices:
        assert len(made) == 3
    assert len(harness.log) == 0


async def test_a_slice_begins_or_cancels_one_move_at_most(
    two_directories: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, begun = two_directories, list[PartitionLog]()
    request = Moves.request

    def counted(moves: Moves, partition: PartitionLog, *rest: Any) -> None:
        begun.append(partition)
        request(moves, partition, *rest)

    await harness.create_topic("wide", PARTITIONS)
    await harness.ask(moves(harness, 0), 2)
    monkeypatch.setattr(Moves, "request", counted)
    context = (await harness.put(ListOffsetsRequest(-1, 0, []), 7)).context
    before, most = 0, 0
    for _ in moves_in_slices(moves(harness, 1, 0), context, harness.services[PartitionServices]):
        most, before = max(most, len(begun) - before), len(begun)
    assert most == 1 and len(begun) == 2 * PARTITIONS


async def test_a_slice_writes_one_start_offset_at_most(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.create_topic("wide", PARTITIONS)
    for at in range(PARTITIONS):
        harness.append("wide", WALL_MS, partition=at)
    written: list[Any] = []
    write = OffsetFile.set

    def counted(file: OffsetFile, *args: Any) -> None:
        written.append(args)
        write(file, *args)

    monkeypatch.setattr(OffsetFile, "set", counted)
    most = before = 0
    for _ in await slices_of(harness, "delete records"):
        most, before = max(most, len(written) - before), len(written)
    assert most == 1 and len(written) == PARTITIONS


class Commits:
    """What was staged and rolled between two commits, each time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.staged: list[int] = [0]
        self.rolled: list[int] = [0]
        stage, roll, commit = PartitionLog.stage, PartitionLog.roll, Partitions.commit

        def staged(log: PartitionLog, *args: Any, **kwargs: Any) -> Any:
            self.staged[-1] += 1
            return stage(log, *args, **kwargs)

        def rolled(log: PartitionLog) -> None:
            self.rolled[-1] += 1
            roll(log)

        def committed(partitions: Partitions) -> None:
            self.staged.append(0)
            self.rolled.append(0)
            commit(partitions)

        if COMPILED:
            pytest.skip("a method of a compiled class cannot be replaced")
        monkeypatch.setattr(PartitionLog, "stage", staged)
        monkeypatch.setattr(PartitionLog, "roll", rolled)
        monkeypatch.setattr(Partitions, "commit", committed)


def produce_to(count: int, timestamp: int) -> ProduceRequest:
    data = [PartitionProduceData(at, batch_of(b"x", timestamp=timestamp)) for at in range(count)]
    return ProduceRequest(None, 1, 30_000, [TopicProduceData("wide", partition_data=data)])


async def produced(harness: Harness, message: ProduceRequest) -> None:
    """Produce, and check that each partition has its own response."""
    reply = await harness.ask(message, PRODUCE_VERSION)
    (topic,) = reply.responses
    count = len(message.topic_data[0].partition_data)
    assert [each.index for each in topic.partition_responses] == list(range(count))
    assert not any(each.error_code for each in topic.partition_responses)


@pytest.mark.parametrize("count", [CHUNK - 1, CHUNK, CHUNK + 1, PARTITIONS])
async def test_a_piece_of_a_produce_rolls_a_few_logs_at_most(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    topic = CreatableTopic("wide", count, 1, configs=[CreatableTopicConfig("segment.ms", "1")])
    await harness.ask(CreateTopicsRequest([topic], 1_000, False), 5)
    await produced(harness, produce_to(count, 1_000))
    commits = Commits(monkeypatch)
    await produced(harness, produce_to(count, 2_000))
    assert [each for each in commits.rolled if each] == [CHUNK] * (count // CHUNK) + [count % CHUNK] * (
        count % CHUNK > 0
    )


@pytest.mark.parametrize("over", [-CHUNK, 0, CHUNK])
async def test_a_piece_of_a_produce_stages_so_many_appends(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, over: int
) -> None:
    """Each has its own system call at the commit."""
    most = -(-SLICE // (APPEND_COST * CHUNK + CHUNK + 1)) * CHUNK
    await harness.create_topic("wide", most + over)
    await produced(harness, produce_to(most + over, 1_000))
    commits = Commits(monkeypatch)
    await produced(harness, produce_to(most + over, 2_000))
    assert most == 128
    assert [each for each in commits.staged if each] == [min(most + over, most)] + [over] * (over > 0)


class CreationClock:
    """Stands for the module `time`: each log takes as long as a slice, and nothing else takes time."""

    def __init__(self, made: list[int]) -> None:
        self._made = made

    def perf_counter(self) -> float:
        return 2 * SLICE_S * len(self._made)


async def test_a_small_fetch_that_makes_logs_is_read_in_slices(
    harness: Harness, made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.create_topic("wide", PARTITIONS)
    made.clear()
    monkeypatch.setattr(common_slices, "time", CreationClock(made))
    asking = await harness.put(fetch(), 12)
    assert len(made) == PARTITIONS and asking.pauses >= PARTITIONS - 1, "one between two of them"
    assert (await harness.put(fetch(), 12)).pauses == 0, "they are there now"
