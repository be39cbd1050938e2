"""AlterReplicaLogDirs: started, replaced, cancelled and refused moves, as DescribeLogDirs shows them."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
from broker.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from broker.records.build import NewRecord, build_batch
from tests.api.harness import WALL_MS, Harness

SIZE = len(build_batch([NewRecord(b"key", b"value", WALL_MS)]))


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path, f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}")
    yield harness
    harness.close()


async def alter(
    harness: Harness, path: Path | str, topic: str = "orders", *partitions: int, version: int = 2
) -> list[ErrorCode]:
    topics = [AlterReplicaLogDirTopic(topic, list(partitions or (0,)))]
    answer = await harness.ask(AlterReplicaLogDirsRequest([AlterReplicaLogDir(str(path), topics)]), version)
    (result,) = answer.results
    assert result.topic_name == topic
    return [ErrorCode(each.error_code) for each in result.partitions]


async def described(harness: Harness, version: int = 4) -> list[DescribeLogDirsResult]:
    return list((await harness.ask(DescribeLogDirsRequest(None), version)).results)


async def futures(harness: Harness) -> dict[str, list[tuple[int, int, int]]]:
    """Return (partition, bytes, lag) of the copies in each directory."""
    return {
        Path(result.log_dir).name: [
            (each.partition_index, each.partition_size, each.offset_lag)
            for topic in result.topics
            for each in topic.partitions
            if each.is_future_key
        ]
        for result in await described(harness)
    }


async def filled(harness: Harness, count: int = 4) -> None:
    await harness.create_topic("orders", 2)
    for _ in range(count):
        harness.append("orders", WALL_MS)


@pytest.mark.parametrize("version", [1, 2])
async def test_a_move_is_begun_and_shown_as_a_future_replica(
    two: Harness, tmp_path: Path, version: int
) -> None:
    await filled(two)
    assert await alter(two, tmp_path / "b", version=version) == [ErrorCode.NONE]
    assert await futures(two) == {"a": [], "b": [(0, 0, 4)]}
    (move,) = two.log.moves.running.values()
    step = two.log.moves.next_step(move, SIZE, two.log.directories.of(move.partition))
    assert step is not None
    step.run()
    step.finish()
    assert await futures(two) == {"a": [], "b": [(0, SIZE, 4)]}, "no index says yet that a batch is whole"
    (of_a, _) = await described(two)
    sizes = {each.partition_index: each.partition_size for each in of_a.topics[0].partitions}
    assert sizes == {0: 4 * SIZE, 1: 0}


async def test_to_where_it_is_ends_the_move_and_to_where_it_goes_goes_on(
    two: Harness, tmp_path: Path
) -> None:
    await filled(two)
    assert await alter(two, tmp_path / "a") == [ErrorCode.NONE]
    assert two.log.moves.running == {}
    await alter(two, tmp_path / "b")
    (move,) = two.log.moves.running.values()
    assert await alter(two, tmp_path / "b") == [ErrorCode.NONE]
    assert list(two.log.moves.running.values()) == [move]
    assert await alter(two, tmp_path / "a") == [ErrorCode.NONE]
    assert two.log.moves.running == {} and await futures(two) == {"a": [], "b": []}


async def test_another_directory_replaces_the_one_that_it_goes_to(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "log.dirs=" + ",".join(str(tmp_path / name) for name in "abc"))
    await filled(harness)
    await alter(harness, tmp_path / "b")
    await alter(harness, tmp_path / "c")
    assert await futures(harness) == {"a": [], "b": [], "c": [(0, 0, 4)]}
    harness.close()


@pytest.mark.parametrize("path", ["{}/c", "", "b", "{}/b/", "{}/a/../b", "/"])
async def test_a_path_that_is_not_one_of_ours_is_not_found(two: Harness, tmp_path: Path, path: str) -> None:
    await filled(two)
    assert await alter(two, path.format(tmp_path)) == [ErrorCode.LOG_DIR_NOT_FOUND]
    assert two.log.moves.running == {}


async def test_a_partition_that_does_not_exist_is_made_there_later(two: Harness, tmp_path: Path) -> None:
    missing = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert await alter(two, tmp_path / "b", "orders", 0, 1) == missing
    await filled(two)
    house_of = {log.index: two.log.directories.of(log).path for log in two.log}
    assert house_of[0] == str(tmp_path / "b")
    assert await alter(two, tmp_path / "a", "orders", 2) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_partitions_fail_each_for_itself(two: Harness, tmp_path: Path) -> None:
    await filled(two)
    assert await alter(two, tmp_path / "b", "orders", 0, 7) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    log = two.partitions.log("orders", 1)
    assert log is not None
    log.go_offline(OSError("broken"))
    assert await alter(two, tmp_path / "b", "orders", 1) == [ErrorCode.KAFKA_STORAGE_ERROR]


async def test_only_administrators_move(tmp_path: Path) -> None:
    harness = Harness(tmp_path, f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}", "wire.role=editor")
    await filled(harness)
    assert await alter(harness, tmp_path / "b") == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    assert harness.log.moves.running == {}
    harness.close()


@pytest.mark.parametrize(("cordoned", "expected"), [("", []), ("{}/b", ["b"]), ("*", ["a", "b"])])
async def test_a_cordoned_directory_is_reported_from_version_5_on(
    tmp_path: Path, cordoned: str, expected: list[str]
) -> None:
    dirs = f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}"
    harness = Harness(tmp_path, dirs, f"cordoned.log.dirs={cordoned.format(tmp_path)}")
    for version, names in ((5, expected), (4, [])):
        found = await described(harness, version)
        assert [Path(each.log_dir).name for each in found if each.is_cordoned] == names
    harness.close()


async def test_nothing_moves_to_a_cordoned_directory(tmp_path: Path) -> None:
    dirs = f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}"
    harness = Harness(tmp_path, dirs, f"cordoned.log.dirs={tmp_path / 'b'}")
    await filled(harness)
    refused = [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert await alter(harness, tmp_path / "b") == refused
    assert await alter(harness, tmp_path / "b", "missing") == refused
    assert await alter(harness, tmp_path / "a") == [ErrorCode.NONE]
    assert harness.log.moves.running == {}
    harness.log.reconfigure(replace(harness.log.config, cordoned_dirs=()))
    assert await alter(harness, tmp_path / "b") == [ErrorCode.NONE]
    assert len(harness.log.moves.running) == 1
    harness.close()


async def test_the_volume_is_reported_from_version_4_on(two: Harness, tmp_path: Path) -> None:
    volume = os.statvfs(tmp_path)
    for result in await described(two):
        assert result.total_bytes == volume.f_blocks * volume.f_frsize
        assert 0 < result.usable_bytes <= result.total_bytes
    assert [each.total_bytes for each in await described(two, 3)] == [-1, -1]


async def test_a_directory_that_cannot_be_read_takes_its_partitions_offline(tmp_path: Path) -> None:
    """The second directory is a file; partitions found nowhere else may have been in it."""
    harness = Harness(tmp_path, f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}")
    await harness.create_topic("orders", 4)
    for partition in range(4):
        harness.append("orders", WALL_MS, partition=partition)
    harness.close()
    (tmp_path / "b").rename(tmp_path / "unplugged")
    (tmp_path / "b").write_text("not a directory")
    harness = Harness(tmp_path, f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}")
    harness.partitions.begin(harness.control.image)
    assert [each.error_code for each in await described(harness)] == [0, ErrorCode.KAFKA_STORAGE_ERROR]
    logs = [harness.partitions.log("orders", index) for index in range(4)]
    assert [log is not None and log.offline is None for log in logs] == [True, False, True, False]
    assert await alter(harness, tmp_path / "b", "orders", 0) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert await alter(harness, tmp_path / "a", "orders", 1) == [ErrorCode.KAFKA_STORAGE_ERROR]
    await harness.create_topic("new", 2)
    assert [harness.append("new", WALL_MS, partition=partition) for partition in range(2)] == [0, 0]
    harness.close()
    (tmp_path / "b").unlink()
    (tmp_path / "unplugged").rename(tmp_path / "b")
    harness = Harness(tmp_path, f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}")
    harness.partitions.begin(harness.control.image)
    assert [log.high_watermark for log in harness.log if log.topic == "orders"] == [1] * 4
    harness.close()


async def test_a_topic_of_which_a_part_is_offline_can_be_deleted(tmp_path: Path) -> None:
    harness = Harness(tmp_path, f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}")
    await harness.create_topic("orders", 2)
    for partition in range(2):
        harness.append("orders", WALL_MS, partition=partition)
    harness.close()
    (tmp_path / "b").rename(tmp_path / "unplugged")
    (tmp_path / "b").write_text("not a directory")
    harness = Harness(tmp_path, f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}")
    harness.partitions.begin(harness.control.image)
    for index in range(2):
        harness.log.delete_partition("orders", index)
    assert len(harness.log) == 0
    harness.close()


async def test_a_directory_that_another_broker_uses_ends_the_start(two: Harness, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(BlockingIOError):
        Harness(other, f"log.dirs={other / 'a'},{tmp_path / 'b'}")
