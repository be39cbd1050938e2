"""Where a share group starts, reset and deleted by an operator, and the group with it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.controller.group_changes import (
    DeleteGroup,
    DeleteGroupOffsets,
    OffsetMove,
    ResetKind,
    ResetOffsets,
    TopicPartitions,
)
from broker.metadata.actor import Role
from tests.controller.world import actor
from tests.webui.log_world import LogWorld


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[LogWorld]:
    """A share group without members, which has read topic "t" up to 4 and 6 of 10 records."""
    world = LogWorld(tmp_path)
    world.topic("t", 2)
    for partition in range(2):
        world.append("t", *((None, str(n)) for n in range(10)), partition=partition, step_ms=1_000)
    world.commit("g", "t", 1)  # so that there is the topic of the groups
    await world.share("s", "t", 4, 6)
    yield world
    world.close()


async def reset(world: LogWorld, kind: ResetKind, value: int = 0, **rest: Any) -> list[OffsetMove]:
    return await world.control.apply(ResetOffsets("s", kind, value, **rest), actor(Role.EDITOR))


def starts(world: LogWorld) -> list[int]:
    return [start for _, start in sorted(world.states.starts.items())]


@pytest.mark.parametrize(
    ("kind", "value", "after"),
    [
        (ResetKind.EARLIEST, 0, [0, 0]),
        (ResetKind.LATEST, 0, [10, 10]),
        (ResetKind.OFFSET, 7, [7, 7]),
        (ResetKind.OFFSET, 11, [10, 10]),
        (ResetKind.SHIFT, -5, [0, 1]),
    ],
)
async def test_an_empty_group_begins_elsewhere(world, kind, value, after):
    moves = await reset(world, kind, value, validate_only=True)
    assert ([each.before for each in moves], [each.after for each in moves]) == ([4, 6], after)
    assert starts(world) == [4, 6]
    assert await reset(world, kind, value) == moves
    assert starts(world) == after


async def test_a_topic_that_the_group_has_not_read_can_be_given_an_offset(world):
    world.topic("u", 1)
    (move,) = await reset(world, ResetKind.EARLIEST, topics=(TopicPartitions("u"),))
    assert (move.topic, move.before, move.after) == ("u", None, 0)
    assert len(starts(world)) == 3


async def test_a_group_with_members_keeps_its_offsets(world):
    world.beat("s", 0, "t")
    for command in (
        ResetOffsets("s", ResetKind.EARLIEST),
        DeleteGroupOffsets("s", "t"),
        DeleteGroup("s"),
    ):
        with pytest.raises(ApiError) as refused:
            await world.control.apply(command, actor(Role.EDITOR))
        assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    assert starts(world) == [4, 6]


async def test_the_offsets_of_a_topic_are_deleted(world):
    assert await world.control.apply(DeleteGroupOffsets("s", "t"), actor(Role.EDITOR)) == 2
    assert starts(world) == []
    with pytest.raises(ApiError) as refused:
        await world.control.apply(DeleteGroupOffsets("s", "t"), actor(Role.EDITOR))
    assert refused.value.code is ErrorCode.RESOURCE_NOT_FOUND


async def test_a_group_is_deleted_with_its_states(world):
    await world.control.apply(DeleteGroup("s"), actor(Role.EDITOR))
    assert starts(world) == []
    assert world.groups.coordinator.overview("s") is None


async def test_a_state_that_cannot_be_changed_is_an_error(world):
    topic_id = world.control.image.topics["t"].topic_id
    world.states.refused[topic_id, 1] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    for command in (
        ResetOffsets("s", ResetKind.EARLIEST),
        DeleteGroupOffsets("s", "t"),
        DeleteGroup("s"),
    ):
        with pytest.raises(ApiError) as refused:
            await world.control.apply(command, actor(Role.EDITOR))
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.groups.coordinator.overview("s") is not None


async def test_a_group_is_shown_with_its_members_and_start_offsets(world):
    row = next(each for each in world.logs.each_group() if each is not None and each.group_id == "s")
    assert (row.state, row.group_type, row.protocol, row.members, row.lag) == (
        "Empty",
        "share",
        "share",
        0,
        10,
    )
    world.beat("s", 0, "t")
    detail = run_through(world.logs.group("s"))
    assert (detail.assignor, detail.group.members) == ("simple", 1)
    (member,) = detail.members
    assert (member.client_id, member.assigned) == ("client", (("t", 0), ("t", 1)))
    assert [(each.partition, each.committed, each.end, each.lag) for each in detail.offsets] == [
        (0, 4, 10, 6),
        (1, 6, 10, 4),
    ]
    world.states.starts[("s", world.control.image.topics["t"].topic_id, 0)] = -1
    assert [each.partition for each in run_through(world.logs.group("s")).offsets] == [1]
