"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

import pytest

from broker.api.a11_join_group import MAX_PROTOCOLS
from broker.common.errors import ErrorCode
from broker.common.slices import SLICE
from broker.protocol.messages.heartbeat import HeartbeatRequest
from broker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.protocol.messages.sync_group import SyncGroupRequest
from broker.protocol.schema import Message
from tests.api.group import (
    GROUP,
    INITIAL_DELAY_MS,
    SESSION_MS,
    begin_join,
    find_coordinator,
    heartbeat,
    join_request,
    stable_member,
    sync_request,
)
from tests.api.harness import Harness


@pytest.fixture
async def ready(harness: Harness) -> Harness:
    await find_coordinator(harness)
    return harness


@pytest.mark.parametrize(
    "request_",
    [join_request(), sync_request(1, "m"), HeartbeatRequest(GROUP, 1, "m"), LeaveGroupRequest(GROUP)],
)
async def test_before_any_client_found_the_coordinator_there_is_none(
    harness: Harness, request_: Message
) -> None:
    assert (await harness.ask(request_)).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_new_member_is_given_its_id_first(ready: Harness) -> None:
    reply = await ready.ask(join_request(), client_id="app")
    assert (reply.error_code, reply.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    assert reply.member_id.startswith("app-")


async def test_the_first_rebalance_waits_for_the_initial_delay(ready: Harness) -> None:
    member_id, joining = await begin_join(ready)
    ready.advance(INITIAL_DELAY_MS - 1)
    assert joining.outcome is None
    ready.advance(1)
    reply = ready.answer(joining)
    assert (reply.error_code, reply.generation_id, reply.leader) == (ErrorCode.NONE, 1, member_id)
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")
    assert [(each.member_id, bytes(each.metadata)) for each in reply.members] == [
        (member_id, b"subscription")
    ]


@pytest.mark.parametrize("version", range(4))
async def test_before_version_4_a_member_joins_at_once(ready: Harness, version: int) -> None:
    joining = await ready.put(join_request(), version)
    ready.advance(INITIAL_DELAY_MS)
    reply = ready.answer(joining)
    assert (reply.error_code, reply.generation_id, reply.protocol_name) == (ErrorCode.NONE, 1, "range")
    assert reply.leader == reply.member_id != ""


@pytest.mark.parametrize("version", range(10))
async def test_a_refusal_can_be_said_in_every_version(ready: Harness, version: int) -> None:
    reply = await ready.ask(join_request("stranger"), version)
    assert (reply.error_code, reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "stranger")
    assert reply.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (join_request(group=""), ErrorCode.INVALID_GROUP_ID),
        (join_request(group="x" * 8_000), ErrorCode.MEMBER_ID_REQUIRED),
        (join_request(group="x" * 8_001), ErrorCode.INVALID_GROUP_ID),
        (join_request(instance_id="x" * 8_001), ErrorCode.INVALID_REQUEST),
        (JoinGroupRequest(GROUP, 5_999, 60_000, "", None, "consumer"), ErrorCode.INVALID_SESSION_TIMEOUT),
        (JoinGroupRequest(GROUP, 1_800_001, 60_000, "", None, "consumer"), ErrorCode.INVALID_SESSION_TIMEOUT),
        (JoinGroupRequest(GROUP, 6_000, 60_000, "", None, "consumer"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (
            JoinGroupRequest(GROUP, 6_000, 6_000, "", None, "", [JoinGroupRequestProtocol("range", b"")]),
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
    ],
)
async def test_a_refused_join_gets_the_reason(
    ready: Harness, request_: JoinGroupRequest, error: ErrorCode
) -> None:
    assert (await ready.ask(request_)).error_code == error


async def test_members_get_the_parts_that_the_leader_hands_out(ready: Harness) -> None:
    (first, one), (second, two) = await begin_join(ready), await begin_join(ready)
    ready.advance(2 * INITIAL_DELAY_MS)
    replies = {first: ready.answer(one), second: ready.answer(two)}
    leader = replies[first].leader
    follower = second if leader == first else first
    assert [len(replies[each].members) for each in (leader, follower)] == [2, 0]
    waiting = await ready.put(sync_request(1, follower))
    assert waiting.outcome is None
    led = await ready.ask(sync_request(1, leader, {leader: b"a", follower: b"b"}))
    followed = ready.answer(waiting)
    assert (bytes(led.assignment), bytes(followed.assignment)) == (b"a", b"b")
    assert (followed.error_code, followed.protocol_type, followed.protocol_name) == (0, "consumer", "range")


async def test_a_third_member_starts_a_rebalance(ready: Harness) -> None:
    member_id, generation = await stable_member(ready)
    newcomer, joining = await begin_join(ready)
    assert await heartbeat(ready, member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    again = await ready.put(join_request(member_id))
    assert ready.answer(again).generation_id == ready.answer(joining).generation_id == generation + 1
    assert {each.member_id for each in ready.answer(again).members} == {member_id, newcomer}


@pytest.mark.parametrize("version", [0, 3, 5])
async def test_a_sync_for_another_generation_or_member_is_refused(ready: Harness, version: int) -> None:
    member_id, generation = await stable_member(ready)
    late = await ready.ask(sync_request(generation - 1, member_id), version)
    strange = await ready.ask(sync_request(generation, "stranger"), version)
    assert (late.error_code, strange.error_code) == (
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
    )


async def test_a_sync_says_the_protocol_from_version_5_on(ready: Harness) -> None:
    member_id, generation = await stable_member(ready)
    for kind, name in ((None, "range"), ("consumer", None), ("connect", "range"), ("consumer", "sticky")):
        request = SyncGroupRequest(GROUP, generation, member_id, None, kind, name)
        assert (await ready.ask(request)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await ready.ask(SyncGroupRequest(GROUP, generation, member_id), 4)).error_code == ErrorCode.NONE


async def test_heartbeats_keep_a_member_alive_to_the_millisecond(ready: Harness) -> None:
    member_id, generation = await stable_member(ready)
    for _ in range(3):
        ready.advance(SESSION_MS - 1)
        assert await heartbeat(ready, member_id, generation) == ErrorCode.NONE
    ready.advance(SESSION_MS)
    assert await heartbeat(ready, member_id, generation) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_heartbeat_says_what_is_wrong(ready: Harness) -> None:
    member_id, generation = await stable_member(ready)
    assert await heartbeat(ready, member_id, generation + 1) == ErrorCode.ILLEGAL_GENERATION
    assert await heartbeat(ready, "stranger", generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await heartbeat(ready, member_id, generation, group="other") == ErrorCode.UNKNOWN_MEMBER_ID
    assert await heartbeat(ready, member_id, generation, group="") == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(3))
async def test_one_member_leaves_and_its_error_is_the_answers(ready: Harness, version: int) -> None:
    member_id, generation = await stable_member(ready)
    assert (await ready.ask(LeaveGroupRequest(GROUP, member_id), version)).error_code == ErrorCode.NONE
    again = await ready.ask(LeaveGroupRequest(GROUP, member_id), version)
    assert again.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert await heartbeat(ready, member_id, generation) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_several_members_leave_each_with_an_error_of_its_own(ready: Harness, version: int) -> None:
    member_id, _ = await stable_member(ready)
    members = [MemberIdentity(member_id), MemberIdentity("stranger"), MemberIdentity("", "static")]
    reply = await ready.ask(LeaveGroupRequest(GROUP, members=members), version)
    assert reply.error_code == ErrorCode.NONE
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in reply.members] == [
        (member_id, None, ErrorCode.NONE),
        ("stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "static", ErrorCode.UNKNOWN_MEMBER_ID),
    ]


async def test_leaving_no_group_is_an_invalid_group(ready: Harness) -> None:
    reply = await ready.ask(LeaveGroupRequest("", members=[MemberIdentity("m")]))
    assert (reply.error_code, reply.members) == (ErrorCode.INVALID_GROUP_ID, [])


async def test_a_member_that_leaves_causes_a_rebalance(ready: Harness) -> None:
    (first, one), (second, two) = await begin_join(ready), await begin_join(ready)
    ready.advance(2 * INITIAL_DELAY_MS)
    await ready.ask(sync_request(1, ready.answer(one).leader, {first: b"a", second: b"b"}))
    await ready.ask(LeaveGroupRequest(GROUP, members=[MemberIdentity(first)]))
    assert await heartbeat(ready, second, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = await ready.ask(join_request(second))
    assert (rejoined.generation_id, rejoined.leader) == (2, second)
    assert ready.answer(two).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("count", "error"),
    [
        (MAX_PROTOCOLS - 1, ErrorCode.MEMBER_ID_REQUIRED),
        (MAX_PROTOCOLS, ErrorCode.MEMBER_ID_REQUIRED),
        (MAX_PROTOCOLS + 1, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_member_has_a_maximum_number_of_protocols(
    ready: Harness, count: int, error: ErrorCode
) -> None:
    request = join_request()
    request.protocols = [JoinGroupRequestProtocol(f"p{number}", b"") for number in range(count)]
    assert (await ready.ask(request)).error_code == error


@pytest.mark.parametrize("members", [SLICE - 1, SLICE, 1_000])
async def test_many_members_join_and_leave_together(ready: Harness, members: int) -> None:
    """Their responses wait in the queue of callbacks, which takes 500; the leader's is built in slices."""
    joining = [await ready.put(join_request("", f"i{number}")) for number in range(members)]
    ready.advance(3 * INITIAL_DELAY_MS)
    replies = [ready.answer(each) for each in joining]
    (leader,) = [each for each in replies if each.member_id == each.leader]
    assert [asking.pauses for asking in joining if asking.outcome is not None] == [
        members // SLICE if each is leader else 0 for each in replies
    ]
    listed = {each.member_id: each.group_instance_id for each in leader.members}
    assert listed == {each.member_id: f"i{number}" for number, each in enumerate(replies)}
    followers = [each for each in replies if each is not leader]
    waiting = [await ready.put(sync_request(1, each.member_id)) for each in followers]
    await ready.ask(sync_request(1, leader.member_id, {each.member_id: b"x" for each in replies}))
    assert all(bytes(ready.answer(each).assignment) == b"x" for each in waiting)
    leaving = [MemberIdentity(each.member_id, None) for each in replies]
    left = await ready.ask(LeaveGroupRequest(GROUP, "", leaving))
    assert [each.error_code for each in left.members] == [0] * members
