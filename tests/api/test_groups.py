"""DescribeGroups, ListGroups and DeleteGroups."""

from typing import Any

import pytest

from broker.common.errors import ErrorCode
from broker.common.slices import SLICE, run_through
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.coordinator.group.messages import Effects, JoinRequest, Now
from broker.coordinator.group.offsets import OFFSETS_AT_ONCE
from broker.coordinator.group_service import GroupService, Writing
from broker.log import disk
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from broker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.api.group import GROUP, commit, committed, find_coordinator, stable_member
from tests.api.harness import Harness


@pytest.fixture
async def ready(harness: Harness) -> Harness:
    await harness.create_topic("orders")
    await find_coordinator(harness)
    return harness


@pytest.mark.parametrize("version", range(7))
async def test_a_group_is_described_with_its_members(ready: Harness, version: int) -> None:
    member_id, _ = await stable_member(ready)
    (group,) = (await ready.ask(DescribeGroupsRequest([GROUP]), version)).groups
    assert (group.error_code, group.group_id, group.group_state) == (ErrorCode.NONE, GROUP, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "test", "/127.0.0.1")
    assert (bytes(member.member_metadata), bytes(member.member_assignment)) == (b"subscription", b"all")


async def test_every_group_asked_for_has_an_entry(ready: Harness) -> None:
    await commit(ready, 1)
    group_ids = ["nobody", GROUP, "", "nobody"]
    for version in (0, 5):
        reply = await ready.ask(DescribeGroupsRequest(group_ids), version)
        assert [(each.group_id, each.error_code, each.group_state) for each in reply.groups] == [
            ("nobody", ErrorCode.NONE, "Dead"),
            (GROUP, ErrorCode.NONE, "Empty"),
            ("", ErrorCode.NONE, "Dead"),
            ("nobody", ErrorCode.INVALID_REQUEST, ""),
        ]
    newest = await ready.ask(DescribeGroupsRequest(group_ids))
    missing = ErrorCode.GROUP_ID_NOT_FOUND
    errors = [missing, ErrorCode.NONE, missing, ErrorCode.INVALID_REQUEST]
    assert [each.error_code for each in newest.groups] == errors
    assert newest.groups[3].error_message == "The request names the group more than once."
    assert newest.groups[0].error_message


async def test_a_group_that_is_named_often_lists_its_members_once(ready: Harness) -> None:
    await stable_member(ready)
    reply = await ready.ask(DescribeGroupsRequest([GROUP] * 3))
    assert [len(each.members) for each in reply.groups] == [1, 0, 0]


@pytest.mark.parametrize(
    ("members", "pauses"),
    [(SLICE - 2, 0), (SLICE - 1, 1), (SLICE, 1), (1_000, 1)],
)
async def test_a_group_with_many_members_is_described_in_slices(
    ready: Harness, members: int, pauses: int
) -> None:
    """One in each step; the group itself and the response take a step each."""
    coordinator = ready.groups.coordinator
    for number in range(members):
        request = JoinRequest(
            GROUP, "", f"i{number}", "c", "/h", 10_000, 10_000, "consumer", (("r", b""),), False, False
        )
        run_through(coordinator.classic.join(request, number, ready.now))
    asking = await ready.stage(DescribeGroupsRequest([GROUP]))
    assert len(ready.answer(asking).groups[0].members) == members
    assert asking.pauses == pauses


async def test_without_a_coordinator_every_entry_says_so(harness: Harness) -> None:
    reply = await harness.ask(DescribeGroupsRequest(["a", "b"]))
    assert [each.error_code for each in reply.groups] == [ErrorCode.NOT_COORDINATOR] * 2
    deleted = await harness.ask(DeleteGroupsRequest(["a"]))
    assert [each.error_code for each in deleted.results] == [ErrorCode.NOT_COORDINATOR]
    assert (await harness.ask(ListGroupsRequest())).groups == []


@pytest.mark.parametrize("version", range(6))
async def test_groups_are_listed(ready: Harness, version: int) -> None:
    await stable_member(ready)
    await commit(ready, 1, group="assigned by hand")
    reply = await ready.ask(ListGroupsRequest(), version)
    listed = {each.group_id: (each.protocol_type, each.group_state, each.group_type) for each in reply.groups}
    assert listed == {
        GROUP: ("consumer", "Stable" if version >= 4 else "", "classic" if version >= 5 else ""),
        "assigned by hand": ("", "Empty" if version >= 4 else "", "classic" if version >= 5 else ""),
    }


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ([], [], [GROUP, "simple"]),
        (["Stable"], [], [GROUP]),
        (["stable", "Empty"], [], [GROUP, "simple"]),
        (["Dead"], [], []),
        (["unheard of"], [], []),
        ([], ["classic"], [GROUP, "simple"]),
        ([], ["Classic"], [GROUP, "simple"]),
        ([], ["consumer"], []),
        (["Empty"], ["classic"], ["simple"]),
    ],
)
async def test_lists_are_filtered_by_state_and_type(
    ready: Harness, states: list[str], types: list[str], expected: list[str]
) -> None:
    await stable_member(ready)
    await commit(ready, 1, group="simple")
    reply = await ready.ask(ListGroupsRequest(states, types))
    assert sorted(each.group_id for each in reply.groups) == expected


@pytest.mark.parametrize("version", range(3))
async def test_empty_groups_are_deleted_with_their_offsets(ready: Harness, version: int) -> None:
    member_id, generation = await stable_member(ready)
    await commit(ready, 5, member_id=member_id, generation=generation)
    await commit(ready, 6, group="simple")
    reply = await ready.ask(DeleteGroupsRequest([GROUP, "simple", "nobody", "simple"]), version)
    assert [(each.group_id, each.error_code) for each in reply.results] == [
        (GROUP, ErrorCode.NON_EMPTY_GROUP),
        ("simple", ErrorCode.NONE),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert (await committed(ready), await committed(ready, group="simple")) == (5, -1)
    await ready.ask(LeaveGroupRequest(GROUP, members=[MemberIdentity(member_id)]))
    assert (await ready.ask(DeleteGroupsRequest([GROUP]))).results[0].error_code == ErrorCode.NONE
    assert (await ready.ask(ListGroupsRequest())).groups == []


MANY = 3 * OFFSETS_AT_ONCE + 1


async def commit_many(harness: Harness, count: int, group: str) -> None:
    parts = [OffsetCommitRequestPartition(partition, 1) for partition in range(count)]
    reply = await harness.ask(
        OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("wide", partitions=parts)])
    )
    assert not any(each.error_code for each in reply.topics[0].partitions)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of records of each call to the coordinator that wrote any."""
    written: list[int] = []
    write = GroupService.write

    def counted(
        service: GroupService, effects: Effects, now: Now, producer: tuple[int, int] | None = None
    ) -> Writing:
        written.append(len(effects.records))
        return write(service, effects, now, producer)

    monkeypatch.setattr(GroupService, "write", counted)
    return written


@pytest.mark.parametrize(
    ("count", "calls"),
    [
        (OFFSETS_AT_ONCE - 1, [OFFSETS_AT_ONCE]),
        (OFFSETS_AT_ONCE, [OFFSETS_AT_ONCE + 1]),
        (OFFSETS_AT_ONCE + 1, [OFFSETS_AT_ONCE, 2]),
        (MANY, [OFFSETS_AT_ONCE] * 3 + [2]),
    ],
)
async def test_a_group_with_many_offsets_is_deleted_in_several_calls(
    ready: Harness, written: list[int], count: int, calls: list[int]
) -> None:
    await ready.create_topic("wide", MANY)
    await commit_many(ready, count, "large")
    written.clear()
    reply = await ready.ask(DeleteGroupsRequest(["large"]))
    assert [(each.group_id, each.error_code) for each in reply.results] == [("large", ErrorCode.NONE)]
    assert written == calls and (await ready.ask(ListGroupsRequest())).groups == []


async def test_small_groups_beside_a_large_one_are_deleted_in_the_order_of_the_request(
    ready: Harness, written: list[int]
) -> None:
    await ready.create_topic("wide", MANY)
    await commit_many(ready, MANY, "large")
    names = [f"small-{number}" for number in range(OFFSETS_AT_ONCE)]
    for name in names:
        await commit(ready, 1, group=name)
    written.clear()
    group_ids = [*names[:3], "nobody", "large", *names[3:]]
    reply = await ready.ask(DeleteGroupsRequest(group_ids))
    assert [each.group_id for each in reply.results] == group_ids
    assert [each.group_id for each in reply.results if each.error_code] == ["nobody"]
    assert max(written) <= OFFSETS_AT_ONCE + 2
    assert sum(written) == MANY + 1 + 2 * len(names)


async def test_a_large_group_that_gets_a_member_meanwhile_is_not_deleted(
    ready: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ready.create_topic("wide", MANY)
    await commit_many(ready, MANY, GROUP)
    coordinator = ready.groups.coordinator
    drop = GroupCoordinator.delete_some_offsets

    def joined_after(self: GroupCoordinator, *args: Any) -> Effects:
        effects = drop(self, *args)
        request = JoinRequest(
            GROUP, "", None, "c", "/h", 10_000, 10_000, "consumer", (("r", b""),), False, False
        )
        run_through(coordinator.classic.join(request, object(), args[-1]))
        return effects

    monkeypatch.setattr(GroupCoordinator, "delete_some_offsets", joined_after)
    reply = await ready.ask(DeleteGroupsRequest(["nobody", GROUP, "somebody"]))
    assert [each.error_code for each in reply.results] == [
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert coordinator.offsets.count(GROUP, MANY) == MANY - OFFSETS_AT_ONCE


async def test_a_large_group_that_cannot_be_written_keeps_what_is_left(
    ready: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ready.create_topic("wide", MANY)
    await commit_many(ready, MANY, "large")
    calls = 0
    write_at = disk.write_at

    def refuse_the_second(*args: Any) -> int:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(28, "No space left on device")
        return write_at(*args)

    monkeypatch.setattr(disk, "write_at", refuse_the_second)
    reply = await ready.ask(DeleteGroupsRequest(["large"]))
    assert [each.error_code for each in reply.results] == [ErrorCode.NOT_COORDINATOR]
    assert ready.groups.coordinator.offsets.count("large", MANY) == MANY - OFFSETS_AT_ONCE
