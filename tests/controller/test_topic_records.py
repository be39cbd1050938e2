"""Reading and producing records as an operator: roles, where a reading begins, the partition of a key, the
audit trail, refusals.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.common.errors import ApiError, ErrorCode
from broker.controller.topic_records import (
    MAX_PARTITIONS,
    BrowseRecords,
    FoundRecords,
    ProduceRecord,
    Start,
    StartKind,
    murmur2,
    partition_for_key,
)
from broker.metadata.actor import Role
from broker.metadata.changes import AuditFilter, AuditRow
from tests.controller.world import actor
from tests.webui.log_world import WALL_MS, LogWorld

EARLIEST = Start(StartKind.EARLIEST)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    world = LogWorld(tmp_path)
    yield world
    world.close()


async def browse(world: LogWorld, role: Role = Role.EDITOR, topic: str = "t", **rest: Any) -> FoundRecords:
    command = BrowseRecords(topic, rest.pop("start", EARLIEST), **rest)
    return await world.control.apply(command, actor(role))


async def trail(world: LogWorld) -> list[AuditRow]:
    return await world.committer.history(AuditFilter(kind="records"))


def filled(world: LogWorld, count: int = 10, partitions: int = 1) -> None:
    world.topic("t", partitions)
    for partition in range(partitions):
        world.append(
            "t", *((f"k{n}", str(n)) for n in range(count)), partition=partition, step_ms=1_000, at_ms=WALL_MS
        )


@pytest.mark.parametrize(
    ("start", "offsets"),
    [
        (EARLIEST, list(range(10))),
        (Start(StartKind.LATEST, 3), [7, 8, 9]),
        (Start(StartKind.LATEST, 99), list(range(10))),
        (Start(StartKind.OFFSET, 8), [8, 9]),
        (Start(StartKind.OFFSET, 10), []),
        (Start(StartKind.OFFSET, 2**63 - 1), []),
        (Start(StartKind.TIMESTAMP, WALL_MS + 6_999), [7, 8, 9]),
        (Start(StartKind.TIMESTAMP, WALL_MS + 7_000), [7, 8, 9]),
        (Start(StartKind.TIMESTAMP, WALL_MS + 7_001), [8, 9]),
        (Start(StartKind.TIMESTAMP, WALL_MS + 9_001), []),
        (Start(StartKind.TIMESTAMP, 0), list(range(10))),
    ],
)
async def test_a_reading_begins_where_it_is_told(world: LogWorld, start: Start, offsets: list[int]) -> None:
    filled(world)
    found = await browse(world, start=start)
    assert [each.offset for each in found.records] == offsets


async def test_partitions_are_selected_and_a_cursor_goes_on_in_each(world: LogWorld) -> None:
    filled(world, 4, 3)
    found = await browse(world, partitions=(2, 0), limit=3)
    assert {each.partition for each in found.records} <= {0, 2}
    positions = tuple((each.partition, each.next) for each in found.positions)
    rest = await browse(world, positions=positions)
    assert len(found.records) + len(rest.records) == 8


@pytest.mark.parametrize("partitions", [(3,), (-1,), (0, 1, 2, 3)])
async def test_a_partition_that_does_not_exist_is_refused(
    world: LogWorld, partitions: tuple[int, ...]
) -> None:
    filled(world, 1, 3)
    with pytest.raises(ApiError) as refused:
        await browse(world, partitions=partitions)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "it has the partitions 0 to 2" in str(refused.value.message)


async def test_a_topic_that_does_not_exist_is_refused(world: LogWorld) -> None:
    with pytest.raises(ApiError, match="The topic t does not exist"):
        await browse(world)
    assert await trail(world) == []


@pytest.mark.parametrize("limit", [-1, 0, 501])
async def test_the_limit_is_within_the_configured_one(world: LogWorld, limit: int) -> None:
    filled(world)
    with pytest.raises(ApiError, match=r"from 1 to 500 records \(console.browse.max.records\)"):
        await browse(world, limit=limit)
    assert len((await browse(world, limit=500)).records) == 10


@pytest.mark.parametrize("count", [MAX_PARTITIONS, MAX_PARTITIONS + 1])
async def test_too_many_partitions_are_refused(world: LogWorld, count: int) -> None:
    world.topic("t", count)
    if count <= MAX_PARTITIONS:
        assert (await browse(world)).records == []
        return
    with pytest.raises(ApiError, match="1001 partitions are too many for one reading"):
        await browse(world)


@pytest.mark.parametrize("needed", list(Role))
async def test_reading_requires_the_configured_role(tmp_path: Path, needed: Role) -> None:
    world = LogWorld(tmp_path, f"console.browse.role={needed.name.lower()}")
    filled(world)
    for role in Role:
        if role >= needed:
            assert len((await browse(world, role)).records) == 10
            continue
        with pytest.raises(ApiError) as refused:
            await browse(world, role)
        assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    world.close()


async def test_each_reading_is_in_the_audit_trail_without_its_contents(world: LogWorld) -> None:
    filled(world, 3, 2)
    await browse(world, start=Start(StartKind.TIMESTAMP, WALL_MS), limit=2)
    await browse(world, partitions=(1,), start=Start(StartKind.LATEST, 1))
    second, first = await trail(world)
    assert (first.actor, first.role, first.entity, first.key) == ("ann", "editor", "t", "read")
    assert first.new == "2 records of partitions 0, 1, from 2023-11-14T22:13:20.000+00:00"
    assert (second.old, second.new) == (None, "1 record of partition 1, the latest 1")


async def test_a_reading_that_cannot_be_recorded_returns_nothing(world: LogWorld) -> None:
    filled(world)
    world.committer.fault = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "disk full")
    with pytest.raises(ApiError, match="The audit trail cannot be written"):
        await browse(world)


async def test_a_cancelled_reading_is_recorded_or_did_not_happen(world: LogWorld) -> None:
    filled(world)
    with trio.CancelScope() as scope:
        scope.cancel()
        await browse(world)
    assert len(await trail(world)) == 1 if not scope.cancelled_caught else True
    assert len((await browse(world)).records) == 10


async def produce(world: LogWorld, role: Role = Role.EDITOR, topic: str = "t", **rest: Any) -> Any:
    command = ProduceRecord(topic, rest.pop("key", b"k"), rest.pop("value", b"v"), **rest)
    return await world.control.apply(command, actor(role))


async def test_a_record_is_produced_where_kafkas_partitioner_sends_its_key(world: LogWorld) -> None:
    world.topic("t", 7)
    produced = await produce(world, key=b"alice", headers=(("trace", b"1"), ("none", None)))
    assert produced.partition == partition_for_key(b"alice", 7) and produced.offset == 0
    (record,) = (await browse(world)).records
    assert record.key and record.key.kept == b"alice" and record.timestamp == world.clock.wall_ms()
    assert [(name.kept, value and value.kept) for name, value in record.headers] == [
        (b"trace", b"1"),
        (b"none", None),
    ]
    assert [log.index for log in world.grown] == [produced.partition]
    (row, *_) = [each for each in await trail(world) if each.key == "produced"]
    assert row.new == f"partition {produced.partition}, offset 0" and "alice" not in str(row)


async def test_a_partition_is_named_and_records_without_a_key_take_turns(world: LogWorld) -> None:
    world.topic("t", 3)
    assert (await produce(world, partition=2)).partition == 2
    taken = [(await produce(world, key=None)).partition for _ in range(6)]
    assert sorted(taken) == [0, 0, 1, 1, 2, 2]


async def test_a_null_value_is_a_tombstone(world: LogWorld) -> None:
    world.topic("t", cleanup_policy="compact")
    await produce(world, value=None)
    (record,) = (await browse(world)).records
    assert record.value is None


@pytest.mark.parametrize(
    ("topic", "given", "code"),
    [
        ("missing", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", {"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", {"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__consumer_offsets", {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("compacted", {"key": None}, ErrorCode.INVALID_RECORD),
        ("small", {"value": b"x" * 400}, ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
async def test_what_a_producer_could_not_write_is_refused(
    world: LogWorld, topic: str, given: dict[str, Any], code: ErrorCode
) -> None:
    world.topic("t")
    world.topic("__consumer_offsets")
    world.topic("compacted", cleanup_policy="compact")
    world.topic("small", max_message_bytes="200")
    with pytest.raises(ApiError) as refused:
        await produce(world, topic=topic, **given)
    assert refused.value.code is code
    assert await trail(world) == [] and world.grown == []


async def test_a_viewer_produces_nothing(world: LogWorld) -> None:
    world.topic("t")
    with pytest.raises(ApiError) as refused:
        await produce(world, Role.VIEWER)
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_record_that_was_produced_and_not_recorded_says_both(world: LogWorld) -> None:
    world.topic("t")
    world.committer.fault = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "disk full")
    with pytest.raises(ApiError, match=r"cannot be written .*, but: produced t: partition 0, offset 0"):
        await produce(world)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas(key: bytes, expected: int) -> None:
    """The vectors of Kafka's UtilsTest.testMurmur2."""
    assert murmur2(key) == expected & 0xFFFF_FFFF


@pytest.mark.parametrize(("key", "partition"), [(b"", 681), (b"abc", 107), (b"21", 340)])
def test_the_partition_is_the_hash_without_its_sign(key: bytes, partition: int) -> None:
    assert partition_for_key(key, 1_000) == partition
    assert partition_for_key(key, 1) == 0
