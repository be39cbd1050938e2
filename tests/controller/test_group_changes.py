"""Resetting and deleting offsets of groups, and groups: targets, dry runs, members that forbid it, the audit
trail.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.controller.group_changes import (
    MAX_PARTITIONS,
    DeleteGroup,
    DeleteGroupOffsets,
    OffsetMove,
    ResetKind,
    ResetOffsets,
    TopicPartitions,
)
from broker.metadata.actor import Role
from broker.metadata.changes import AuditFilter, AuditRow
from tests.controller.world import actor
from tests.support.view_rows import group_rows
from tests.webui.log_world import WALL_MS, LogWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    world = LogWorld(tmp_path)
    world.topic("t", 2)
    for partition in range(2):
        world.append("t", *((None, str(n)) for n in range(10)), partition=partition, step_ms=1_000)
    world.commit("g", "t", 4, 6)
    yield world
    world.close()


async def reset(world: LogWorld, kind: ResetKind, value: int = 0, **rest: Any) -> list[OffsetMove]:
    role = rest.pop("role", Role.EDITOR)
    return await world.control.apply(ResetOffsets("g", kind, value, **rest), actor(role))


async def trail(world: LogWorld) -> list[AuditRow]:
    return await world.committer.history(AuditFilter(kind="group"))


@pytest.mark.parametrize(
    ("kind", "value", "after"),
    [
        (ResetKind.EARLIEST, 0, {0: 0, 1: 0}),
        (ResetKind.LATEST, 0, {0: 10, 1: 10}),
        (ResetKind.OFFSET, 7, {0: 7, 1: 7}),
        (ResetKind.OFFSET, 11, {0: 10, 1: 10}),
        (ResetKind.OFFSET, 2**63 - 1, {0: 10, 1: 10}),
        (ResetKind.SHIFT, -4, {0: 0, 1: 2}),
        (ResetKind.SHIFT, -5, {0: 0, 1: 1}),
        (ResetKind.SHIFT, 4, {0: 8, 1: 10}),
        (ResetKind.SHIFT, 5, {0: 9, 1: 10}),
        (ResetKind.SHIFT, 0, {0: 4, 1: 6}),
        (ResetKind.TIMESTAMP, WALL_MS + 2_999, {0: 3, 1: 3}),
        (ResetKind.TIMESTAMP, WALL_MS + 3_000, {0: 3, 1: 3}),
        (ResetKind.TIMESTAMP, WALL_MS + 3_001, {0: 4, 1: 4}),
        (ResetKind.TIMESTAMP, WALL_MS + 9_001, {0: 10, 1: 10}),
    ],
)
async def test_offsets_are_reset_within_those_that_exist(
    world: LogWorld, kind: ResetKind, value: int, after: dict[int, int]
) -> None:
    moves = await reset(world, kind, value)
    assert world.committed("g", "t") == after
    assert [(each.before, each.after, each.end) for each in moves] == [(4, after[0], 10), (6, after[1], 10)]


async def test_a_dry_run_says_the_same_and_changes_nothing(world: LogWorld) -> None:
    dry = await reset(world, ResetKind.EARLIEST, validate_only=True)
    assert world.committed("g", "t") == {0: 4, 1: 6} and await trail(world) == []
    assert dry == await reset(world, ResetKind.EARLIEST)


async def test_selected_partitions_alone_are_reset(world: LogWorld) -> None:
    world.topic("u", 3)
    moves = await reset(world, ResetKind.LATEST, topics=(TopicPartitions("t", (1,)), TopicPartitions("u")))
    assert world.committed("g", "t") == {0: 4, 1: 10} and world.committed("g", "u") == {0: 0, 1: 0, 2: 0}
    assert [(each.topic, each.partition, each.before) for each in moves] == [
        ("t", 1, 6),
        ("u", 0, None),
        ("u", 1, None),
        ("u", 2, None),
    ]


async def test_the_trail_has_the_old_and_the_new_offsets(world: LogWorld) -> None:
    await reset(world, ResetKind.LATEST)
    (row,) = await trail(world)
    assert (row.entity, row.key, row.old, row.new) == (
        "g",
        "offsets reset",
        None,
        "t, 0: 4 to 10, 1: 6 to 10",
    )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_with_members_keeps_its_offsets_and_names_them(world: LogWorld, protocol: str) -> None:
    if protocol == "classic":
        world.join("g", "billing", "/10.0.0.9")
    else:
        world.consume("g", "t", "billing", "/10.0.0.9")
    for command in (ResetOffsets("g", ResetKind.EARLIEST), DeleteGroup("g")):
        with pytest.raises(ApiError) as refused:
            await world.control.apply(command, actor(Role.EDITOR))
        assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
        assert "billing at 10.0.0.9" in str(refused.value.message)
    assert world.committed("g", "t") == {0: 4, 1: 6} and await trail(world) == []


async def test_a_member_that_joins_during_the_look_up_stops_the_reset(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = world.partitions.log("t", 1)
    assert log is not None
    find = log.offset_for_timestamp

    def joining(timestamp: int) -> Any:
        world.join("g")
        return find(timestamp)

    monkeypatch.setattr(log, "offset_for_timestamp", joining)
    with pytest.raises(ApiError) as refused:
        await reset(world, ResetKind.TIMESTAMP, WALL_MS)
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    assert world.committed("g", "t") == {0: 4, 1: 6} and await trail(world) == []


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (ResetOffsets("nobody", ResetKind.EARLIEST), ErrorCode.GROUP_ID_NOT_FOUND),
        (DeleteGroup("nobody"), ErrorCode.GROUP_ID_NOT_FOUND),
        (DeleteGroupOffsets("nobody", "t"), ErrorCode.GROUP_ID_NOT_FOUND),
        (DeleteGroupOffsets("g", "missing"), ErrorCode.RESOURCE_NOT_FOUND),
        (
            ResetOffsets("g", ResetKind.EARLIEST, topics=(TopicPartitions("missing"),)),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (
            ResetOffsets("g", ResetKind.EARLIEST, topics=(TopicPartitions("t", (0, 2)),)),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (ResetOffsets("g", ResetKind.SHIFT, 1, (TopicPartitions("u"),)), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_does_not_exist_is_refused(world: LogWorld, command: Any, code: ErrorCode) -> None:
    world.topic("u")
    with pytest.raises(ApiError) as refused:
        await world.control.apply(command, actor(Role.EDITOR))
    assert refused.value.code is code
    assert world.committed("g", "t") == {0: 4, 1: 6} and await trail(world) == []


@pytest.mark.parametrize("count", [MAX_PARTITIONS - 1, MAX_PARTITIONS, MAX_PARTITIONS + 1])
async def test_a_reset_is_one_write_of_a_limited_number_of_partitions(world: LogWorld, count: int) -> None:
    world.topic("wide", count)
    selected = (TopicPartitions("wide"),)
    if count > MAX_PARTITIONS:
        with pytest.raises(ApiError, match="The reset concerns 501 partitions; at most 500"):
            await reset(world, ResetKind.EARLIEST, topics=selected)
        assert world.committed("g", "wide") == {}
        return
    await reset(world, ResetKind.EARLIEST, topics=selected)
    assert len(world.committed("g", "wide")) == count
    (row,) = await trail(world)
    assert row.new is not None and row.new.endswith(f"... ({count} partitions)") and len(row.new) < 1_100


async def test_a_reset_that_cannot_be_written_changes_nothing(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = world.partitions.log("__consumer_offsets", 0)
    assert log is not None

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("broker.log.disk.write_at", full)
    with pytest.raises(ApiError):
        await reset(world, ResetKind.EARLIEST)
    assert world.committed("g", "t") == {0: 4, 1: 6} and await trail(world) == []


async def test_offsets_survive_a_restart(world: LogWorld, tmp_path: Path) -> None:
    await reset(world, ResetKind.OFFSET, 3)
    world.close()
    again = LogWorld(tmp_path)
    again.partitions.on_metadata_update(again.control.image, again.control.image.topics)
    again.groups.load(again.now())
    assert again.committed("g", "t") == {0: 3, 1: 3}
    again.close()


async def test_a_group_is_deleted_with_its_offsets(world: LogWorld) -> None:
    await world.control.apply(DeleteGroup("g"), actor(Role.EDITOR))
    assert group_rows(world.views) == []
    (row,) = await trail(world)
    assert (row.entity, row.key) == ("g", "deleted")


@pytest.mark.parametrize("count", [MAX_PARTITIONS, MAX_PARTITIONS + 1])
async def test_a_group_with_many_offsets_is_deleted(world: LogWorld, count: int) -> None:
    world.topic("wide", count)
    world.commit("big", "wide", *range(count))
    await world.control.apply(DeleteGroup("big"), actor(Role.EDITOR))
    assert [row.group_id for row in group_rows(world.views)] == ["g"]


@pytest.mark.parametrize("count", [MAX_PARTITIONS, MAX_PARTITIONS + 1])
async def test_many_offsets_of_one_topic_are_deleted(world: LogWorld, count: int) -> None:
    world.topic("wide", count)
    world.commit("g", "wide", *range(count))
    assert await world.control.apply(DeleteGroupOffsets("g", "wide"), actor(Role.EDITOR)) == count
    assert world.committed("g", "wide") == {} and len(await trail(world)) == 1


async def test_offsets_of_one_topic_are_deleted(world: LogWorld) -> None:
    world.topic("u")
    world.commit("g", "u", 0)
    assert await world.control.apply(DeleteGroupOffsets("g", "t"), actor(Role.EDITOR)) == 2
    assert world.committed("g", "t") == {} and world.committed("g", "u") == {0: 0}
    (row,) = await trail(world)
    assert (row.key, row.new) == ("offsets deleted", "t, 2 partitions")


@pytest.mark.parametrize(
    "command", [ResetOffsets("g", ResetKind.EARLIEST), DeleteGroup("g"), DeleteGroupOffsets("g", "t")]
)
async def test_a_viewer_changes_nothing(world: LogWorld, command: Any) -> None:
    with pytest.raises(ApiError) as refused:
        await world.control.apply(command, actor(Role.VIEWER))
    assert refused.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert world.committed("g", "t") == {0: 4, 1: 6}


async def test_without_any_group_there_is_none_to_change(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    world = LogWorld(tmp_path / "other")
    with pytest.raises(ApiError) as refused:
        await world.control.apply(DeleteGroup("g"), actor())
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    world.close()
