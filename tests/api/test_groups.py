"""DescribeGroups, ListGroups and DeleteGroups."""

import pytest

from broker.errors import ErrorCode
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from broker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.protocol.messages.list_groups import ListGroupsRequest
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
    asked = ["nobody", GROUP, "", "nobody"]
    for version in (0, 5):
        reply = await ready.ask(DescribeGroupsRequest(asked), version)
        assert [(each.group_id, each.error_code, each.group_state) for each in reply.groups] == [
            ("nobody", ErrorCode.NONE, "Dead"),
            (GROUP, ErrorCode.NONE, "Empty"),
            ("", ErrorCode.NONE, "Dead"),
            ("nobody", ErrorCode.NONE, "Dead"),
        ]
    newest = await ready.ask(DescribeGroupsRequest(asked))
    errors = [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE] + [ErrorCode.GROUP_ID_NOT_FOUND] * 2
    assert [each.error_code for each in newest.groups] == errors
    assert newest.groups[0].error_message


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
