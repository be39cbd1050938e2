"""The console's rows of topics and groups, from a real coordinator and real logs."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.common.slices import run_through
from broker.controller.rows.topics import CommittedRow, GroupRow, PartitionRow
from broker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.views.topics import assigned_partitions, group_detail, group_rows, partition_rows
from tests.api.group import GROUP, commit, find_coordinator, stable_member
from tests.api.harness import WALL_MS, Harness


def assignment(*topics: tuple[str, tuple[int, ...]]) -> bytes:
    """Encode an assignment like consumers: version 0, topics with their partitions, no user data."""
    parts = b"".join(
        struct.pack(f">h{len(name)}si{len(indexes)}i", len(name), name.encode(), len(indexes), *indexes)
        for name, indexes in topics
    )
    return struct.pack(">hi", 0, len(topics)) + parts + struct.pack(">i", -1)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path)
    yield harness
    harness.close()


async def test_a_group_is_reported_with_members_and_offsets(harness: Harness) -> None:
    await harness.create_topic("orders", 2)
    await find_coordinator(harness)
    member_id, generation = await stable_member(harness)
    await commit(harness, 0, member_id=member_id, generation=generation)
    detail = run_through(group_detail(harness.groups, harness.partitions, GROUP))
    assert detail is not None
    assert detail.group == GroupRow(GROUP, "Stable", "consumer", 1, 0, lost=0) and detail.assignor == "range"
    assert [member.member_id for member in detail.members] == [member_id]
    assert detail.offsets == (CommittedRow("orders", 0, 0, 0, 0, 0),)
    assert list(partition_rows(harness.partitions, "orders"))[1] == PartitionRow(1, 0, 0, 0, 0)


async def test_a_consumer_group_is_reported_with_members_and_offsets(harness: Harness) -> None:
    await harness.create_topic("orders", 2)
    await find_coordinator(harness)
    joined = ConsumerGroupHeartbeatRequest(GROUP, "m", 0, None, None, 1_000, ["orders"], None, None, [])
    assert (await harness.ask(joined)).error_code == 0
    await commit(harness, 0, member_id="m", generation=2)
    detail = run_through(group_detail(harness.groups, harness.partitions, GROUP))
    assert detail is not None
    assert detail.group == GroupRow(GROUP, "Stable", "consumer", 1, 0, "consumer", lost=0)
    assert detail.assignor == "uniform"
    (member,) = detail.members
    assert (member.member_id, member.assigned) == ("m", (("orders", 0), ("orders", 1)))
    assert detail.offsets == (CommittedRow("orders", 0, 0, 0, 0, 0),)


async def test_unknown_topics_and_groups_have_no_rows(harness: Harness) -> None:
    await find_coordinator(harness)
    assert run_through(group_detail(harness.groups, harness.partitions, "nobody")) is None
    assert list(partition_rows(harness.partitions, "nothing")) == []


def test_an_assignment_is_read_topic_by_topic() -> None:
    data = assignment(("orders", (0, 2)), ("clicks", (1,)))
    assert run_through(assigned_partitions(data)) == (("orders", 0), ("orders", 2), ("clicks", 1))


def test_an_assignment_that_does_not_decode_has_no_partitions() -> None:
    whole = assignment(("orders", (0, 2)), ("clicks", (1,)))
    for end in range(len(whole)):
        assert run_through(assigned_partitions(whole[:end])) == ()
    assert run_through(assigned_partitions(struct.pack(">hi", 0, 2**31 - 1))) == ()
    assert run_through(assigned_partitions(struct.pack(">hihi", 0, 1, -1, -1))) == ()


def test_a_long_assignment_is_read_in_pieces() -> None:
    """There is a pause after each topic is read, and one after it is freed."""
    count = 1_024
    steps = assigned_partitions(assignment(*((f"t{number}", (0,)) for number in range(count))))
    assert sum(1 for _ in steps) >= 2 * count


async def test_a_group_with_many_offsets_is_described_in_pieces_and_opens_no_log(harness: Harness) -> None:
    count = 512
    await harness.create_topic("wide", count)
    await harness.create_topic("other")
    await find_coordinator(harness)
    for topic, parts in (("other", 1), ("wide", count)):
        offsets = [OffsetCommitRequestPartition(index, 1) for index in range(parts)]
        request = OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic(topic, partitions=offsets)])
        await harness.ask(request)
    harness.append("wide", WALL_MS, WALL_MS, partition=3)
    logs = len(harness.log)
    assert sum(1 for _ in group_detail(harness.groups, harness.partitions, GROUP)) >= count + 1
    detail = run_through(group_detail(harness.groups, harness.partitions, GROUP))
    assert detail is not None
    assert [(row.topic, row.partition) for row in detail.offsets] == [("other", 0)] + [
        ("wide", index) for index in range(count)
    ]
    assert [row.lag for row in detail.offsets if row.lag] == [1] and detail.group.lag == 1
    rows = list(group_rows(harness.groups))
    assert [row.lag for row in rows if row is not None] == [1] and rows.count(None) >= count + 1
    assert len(harness.log) == logs
