"""ShareGroupHeartbeat, ShareGroupDescribe and the offsets of share groups, with the states in memory."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.api.security.client_security import EVERY_OPERATION
from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.group_service import NO_LEADER
from broker.protocol.messages.acls import AclCreation, CreateAclsRequest
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from broker.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from broker.protocol.messages.share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from broker.security.acl.acl import ResourceType
from broker.server.parts.share_groups import STATES_AT_ONCE
from tests.api.group import GROUP, find_coordinator
from tests.api.harness import Connection, Harness

GROUP_KIND, TOPIC_KIND = 3, 2
READ, DELETE, DESCRIBE = 3, 6, 8
ZERO = bytes(16)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(tmp_path)
    await harness.ask(CreateTopicsRequest([CreatableTopic("orders", 2, 1), CreatableTopic("other", 1, 1)]))
    await find_coordinator(harness)
    yield harness
    harness.close()


def heartbeat(
    member_id: str, epoch: int, topics: list[str] | None = None, group: str = GROUP
) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(group, member_id, epoch, None, topics)


async def ready(harness: Harness, *topics: str) -> None:
    """Let the member "m" have the partitions of the topics."""
    await harness.ask(heartbeat("m", 0, list(topics or ("orders",))))
    await harness.finish_states()
    assert (await harness.ask(heartbeat("m", 2))).member_epoch == 3


async def emptied(harness: Harness, *topics: str) -> None:
    """Have a group with states, and without members."""
    await ready(harness, *topics)
    await harness.ask(heartbeat("m", -1))


async def describe(harness: Harness, group: str = GROUP, **more: Any) -> DescribedGroup:
    (found,) = (await harness.ask(ShareGroupDescribeRequest([group]), **more)).groups
    assert isinstance(found, DescribedGroup)
    return found


def partitions(reply: ShareGroupHeartbeatResponse) -> list[list[int]]:
    assert reply.assignment is not None
    return [each.partitions for each in reply.assignment.topic_partitions]


async def offsets(
    harness: Harness, topics: dict[str, list[int]] | None = None, group: str = GROUP, **more: Any
) -> list[tuple[str, int, int, int]]:
    """Return topic, partition, start offset and error."""
    named = topics and [DescribeShareGroupOffsetsRequestTopic(*each) for each in topics.items()]
    wanted = DescribeShareGroupOffsetsRequestGroup(group, named)
    (found,) = (await harness.ask(DescribeShareGroupOffsetsRequest([wanted]), **more)).groups
    assert (found.group_id, found.error_code) == (group, 0)
    return [
        (topic.topic_name, each.partition_index, each.start_offset, each.error_code)
        for topic in found.topics
        for each in topic.partitions
    ]


def alter(topic: str, *starts: tuple[int, int], group: str = GROUP) -> AlterShareGroupOffsetsRequest:
    wanted = [AlterShareGroupOffsetsRequestPartition(*each) for each in starts]
    return AlterShareGroupOffsetsRequest(group, [AlterShareGroupOffsetsRequestTopic(topic, wanted)])


def delete(*topics: str, group: str = GROUP) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(
        group, [DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
    )


async def test_a_member_joins_and_is_described(harness):
    reply = await harness.ask(heartbeat("m", 0, ["orders"]))
    assert (reply.error_code, reply.error_message, reply.member_id) == (0, None, "m")
    assert (reply.member_epoch, reply.heartbeat_interval_ms, partitions(reply)) == (2, 5_000, [])
    await harness.finish_states()
    assert partitions(await harness.ask(heartbeat("m", 2))) == [[0, 1]]
    (found,) = (await harness.ask(ShareGroupDescribeRequest([GROUP], True))).groups
    assert (found.error_code, found.group_state, found.group_epoch, found.assignment_epoch) == (
        0,
        "Stable",
        3,
        3,
    )
    assert (found.assignor_name, found.authorized_operations) == (
        "simple",
        EVERY_OPERATION[ResourceType.GROUP],
    )
    (member,) = found.members
    assert (member.member_id, member.member_epoch, member.client_id, member.client_host) == (
        "m",
        3,
        "test",
        "/127.0.0.1",
    )
    assert member.subscribed_topic_names == ["orders"]
    assert [(each.topic_name, each.partitions) for each in member.assignment.topic_partitions] == [
        ("orders", [0, 1])
    ]
    (listed,) = (await harness.ask(ListGroupsRequest(types_filter=["Share"]))).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        GROUP,
        "share",
        "Stable",
        "share",
    )


async def test_the_states_of_a_restarted_broker_are_completed(tmp_path):
    harness = Harness(tmp_path)
    await harness.create_topic("orders", 2)
    await find_coordinator(harness)
    await harness.ask(heartbeat("m", 0, ["orders"]))
    harness.close()
    again = Harness(tmp_path)
    # One of them was initialized before the kill: it keeps its start offset.
    topic_id = again.control.image.topics["orders"].topic_id
    again.states.starts[GROUP, topic_id, 1] = 7
    await again.finish_states()
    assert again.states.calls == [("initialize", GROUP, topic_id, 0)]
    assert partitions(await again.ask(heartbeat("m", 2))) == [[0, 1]]
    assert await offsets(again) == [("orders", 0, -1, 0), ("orders", 1, 7, 0)]
    again.close()


async def test_a_state_that_cannot_be_initialized_is_tried_again(harness):
    topic_id = harness.control.image.topics["orders"].topic_id
    harness.states.refused[topic_id, 0] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    await harness.ask(heartbeat("m", 0, ["orders"]))
    await harness.finish_states()
    assert partitions(await harness.ask(heartbeat("m", 2))) == [[1]]
    harness.states.refused.clear()
    await harness.finish_states()
    assert partitions(await harness.ask(heartbeat("m", 3))) == [[0, 1]]


async def test_many_states_are_initialized_a_few_at_a_time(harness):
    await harness.create_topic("wide", 130)
    harness.states.gate = trio.Event()
    await harness.ask(heartbeat("m", 0, ["wide"]))
    harness.share_states.begin(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.share_states.run)
        await wait_all_tasks_blocked()
        assert len(harness.states.calls) == STATES_AT_ONCE
        harness.states.gate.set()
        await wait_all_tasks_blocked()
        assert len(harness.states.calls) == 130
        nursery.cancel_scope.cancel()
    assert len(await offsets(harness)) == 130


async def test_offsets_are_described(harness):
    await ready(harness)
    topic_id = harness.control.image.topics["orders"].topic_id
    harness.states.starts[GROUP, topic_id, 1] = 5
    assert await offsets(harness) == [("orders", 0, -1, 0), ("orders", 1, 5, 0)]
    assert await offsets(harness, {"orders": [1, 9], "other": [0], "none": [0]}) == [
        ("orders", 1, 5, 0),
        ("orders", 9, -1, 0),
        ("other", 0, -1, 0),
        ("none", 0, -1, 0),
    ]
    assert await offsets(harness, {}) == []
    assert await offsets(harness, None, "unknown") == []


@pytest.mark.parametrize(
    ("start", "complete", "lag"),
    [(4, 0, 6), (4, 6, 0), (4, 3, 3), (10, 0, 0), (15, 0, -5), (4, -1, -1), (2**63 - 1, 2**31 - 1, -(2**63))],
)
async def test_version_1_has_the_lag(harness, start, complete, lag):
    await ready(harness)
    harness.append("orders", *range(10))
    key = GROUP, harness.control.image.topics["orders"].topic_id, 0
    harness.states.starts[key], harness.states.complete[key] = start, complete
    wanted = DescribeShareGroupOffsetsRequestGroup(
        GROUP, [DescribeShareGroupOffsetsRequestTopic("orders", [0, 9])]
    )
    for version, told in ((1, [lag, -1]), (0, [-1, -1])):
        (found,) = (await harness.ask(DescribeShareGroupOffsetsRequest([wanted]), version)).groups
        assert [each.lag for each in found.topics[0].partitions] == told


async def lags(harness, version=1):
    wanted = DescribeShareGroupOffsetsRequestGroup(GROUP, None)
    (found,) = (await harness.ask(DescribeShareGroupOffsetsRequest([wanted]), version)).groups
    return [
        (each.partition_index, each.start_offset, each.lag, each.error_code, each.error_message)
        for each in found.topics[0].partitions
    ]


async def test_a_log_that_is_not_open_has_a_lag(harness):
    await ready(harness)
    harness.append("orders", *range(10))
    topic_id = harness.control.image.topics["orders"].topic_id
    for index in range(2):
        harness.states.starts[GROUP, topic_id, index] = 4 * (1 - index)
        harness.states.complete[GROUP, topic_id, index] = 0
    open_logs = harness.partitions.by_name["orders"].open_logs
    open_logs.clear()
    assert await lags(harness) == [(0, 4, 6, 0, None), (1, 0, 0, 0, None)]
    assert list(open_logs) == [0]  # the other has no files


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("is_open", [True, False])
async def test_an_offline_partition_has_an_error_as_in_kafka(harness, monkeypatch, version, is_open):
    await ready(harness)
    harness.append("orders", *range(10))
    topic_id = harness.control.image.topics["orders"].topic_id
    for index, (start, complete) in enumerate([(4, 0), (-1, -1)]):
        harness.states.starts[GROUP, topic_id, index] = start
        harness.states.complete[GROUP, topic_id, index] = complete
    error = ErrorCode.LEADER_NOT_AVAILABLE
    if is_open:
        for index in range(2):
            harness.partitions.log("orders", index).go_offline(OSError("broken"))
    else:
        harness.partitions.by_name["orders"].open_logs.clear()

        def fails(*_arguments):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

        monkeypatch.setattr(harness.log, "create_partition", fails)
    assert await lags(harness, version) == [(0, 0, -1, error, NO_LEADER), (1, -1, -1, 0, None)]


async def test_a_repeated_group_is_refused(harness):
    await ready(harness)
    groups = [DescribeShareGroupOffsetsRequestGroup(GROUP)] * 2
    first, second = (await harness.ask(DescribeShareGroupOffsetsRequest(groups))).groups
    assert (first.error_code, len(first.topics)) == (0, 1)
    assert (second.error_code, second.topics) == (ErrorCode.INVALID_REQUEST, [])
    found = (await harness.ask(ShareGroupDescribeRequest([GROUP, GROUP, "", "none"]))).groups
    assert [each.error_code for each in found] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]


async def test_an_empty_group_begins_elsewhere(harness):
    await emptied(harness)
    reply = await harness.ask(alter("orders", (0, 42), (1, -1), (2, 0), (-1, 0), (0, 7)))
    assert reply.error_code == 0
    (topic,) = reply.responses
    assert topic.topic_id == harness.control.image.topics["orders"].topic_id
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, 0),
        (1, 0),
        (2, unknown),
        (-1, unknown),
        (0, ErrorCode.INVALID_REQUEST),
    ]
    assert await offsets(harness) == [("orders", 0, 42, 0), ("orders", 1, -1, 0)]
    # A topic that the group has not read.
    assert (await harness.ask(alter("other", (0, 3)))).error_code == 0
    assert ("other", 0, 3, 0) in await offsets(harness)
    (topic,) = (await harness.ask(alter("none", (0, 3)))).responses
    assert (topic.topic_id, topic.partitions[0].error_code) == (ZERO, unknown)
    assert not harness.groups.coordinator.share.states(GROUP).is_pending


@pytest.mark.parametrize(("start", "error"), [(-2, ErrorCode.INVALID_REQUEST), (-1, 0), (0, 0)])
async def test_a_start_offset_is_at_least_minus_one(harness, start, error):
    await emptied(harness)
    (topic,) = (await harness.ask(alter("orders", (0, start)))).responses
    assert topic.partitions[0].error_code == error


async def test_a_state_that_cannot_be_altered_keeps_its_offset(harness):
    await emptied(harness)
    topic_id = harness.control.image.topics["orders"].topic_id
    harness.states.refused[topic_id, 0] = ErrorCode.FENCED_STATE_EPOCH
    (topic,) = (await harness.ask(alter("orders", (0, 8), (1, 9)))).responses
    assert [each.error_code for each in topic.partitions] == [ErrorCode.FENCED_STATE_EPOCH, 0]
    assert await offsets(harness) == [("orders", 0, -1, 0), ("orders", 1, 9, 0)]


async def test_two_requests_for_a_group_are_served_in_turn(harness):
    await emptied(harness)
    harness.states.gate = trio.Event()
    replies = []

    async def ask(start: int) -> None:
        replies.append((await harness.ask(alter("orders", (0, start)))).error_code)

    async with trio.open_nursery() as nursery:
        for start in (1, 2, 3):
            nursery.start_soon(ask, start)
            await wait_all_tasks_blocked()
        assert len(harness.states.calls) == 3  # two of the first heartbeat, one of the first request
        harness.states.gate.set()
    assert replies == [0, 0, 0]
    assert await offsets(harness, {"orders": [0]}) == [("orders", 0, 3, 0)]


async def test_a_group_with_members_and_another_type_are_refused(harness):
    await ready(harness)
    for request in (alter("orders", (0, 1)), delete("orders")):
        reply = await harness.ask(request)
        assert (reply.error_code, reply.responses) == (ErrorCode.NON_EMPTY_GROUP, [])
    for request in (alter("orders", (0, 1), group=""), delete("orders", group="")):
        assert (await harness.ask(request)).error_code == ErrorCode.INVALID_GROUP_ID
    reply = await harness.ask(delete("orders", group="none"))
    assert reply.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert await offsets(harness) == [("orders", 0, -1, 0), ("orders", 1, -1, 0)]


async def test_offsets_can_be_set_before_a_group_has_members(harness):
    await harness.create_topic("jobs", 2)
    assert (await harness.ask(alter("jobs", (7, 5), group="new"))).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    reply = await harness.ask(alter("jobs", (0, 5), (2, 5), group="new"))
    assert [each.error_code for each in reply.responses[0].partitions] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert await offsets(harness, {"jobs": [0]}, "new") == [("jobs", 0, 5, 0)]
    listed = await harness.ask(ListGroupsRequest(types_filter=["share"]))
    assert [(each.group_id, each.group_state) for each in listed.groups] == [("new", "Empty")]


async def test_an_empty_group_forgets_a_topic(harness):
    await emptied(harness, "orders", "other")
    reply = await harness.ask(delete("orders", "none", "orders"))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(each.topic_name, each.error_code) for each in reply.responses] == [
        ("orders", 0),
        ("none", unknown),
        ("orders", ErrorCode.INVALID_REQUEST),
    ]
    assert await offsets(harness) == [("other", 0, -1, 0)]
    assert {key[1] for key in harness.states.starts} == {harness.control.image.topics["other"].topic_id}
    (topic,) = (await harness.ask(delete("orders"))).responses
    assert (topic.error_code, topic.error_message) == (
        unknown,
        "There is no offset information to delete.",
    )


async def test_states_that_cannot_be_deleted_are_deleted_later(harness):
    await emptied(harness)
    topic_id = harness.control.image.topics["orders"].topic_id
    harness.states.refused[topic_id, 1] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    (topic,) = (await harness.ask(delete("orders"))).responses
    assert topic.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await harness.ask(DeleteGroupsRequest([GROUP]))).results[0].error_code == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    assert (await describe(harness)).error_code == 0
    harness.states.refused.clear()
    # A member that joins makes the broker try again; its states then begin anew.
    await harness.ask(heartbeat("m", 0, ["orders"]))
    await harness.finish_states()
    assert harness.states.starts == {}
    assert (await harness.ask(heartbeat("m", 5))).error_code == 0
    await harness.finish_states()
    assert await offsets(harness) == [("orders", 0, -1, 0), ("orders", 1, -1, 0)]


async def test_a_group_is_deleted_with_its_states(harness):
    await ready(harness)
    request = DeleteGroupsRequest([GROUP, "none"])
    assert {each.group_id: each.error_code for each in (await harness.ask(request)).results} == {
        GROUP: ErrorCode.NON_EMPTY_GROUP,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert len(harness.states.starts) == 2
    await harness.ask(heartbeat("m", -1))
    assert {each.group_id: each.error_code for each in (await harness.ask(request)).results} == {
        GROUP: ErrorCode.NONE,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert harness.states.starts == {}
    assert (await describe(harness)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_deleted_topic_is_forgotten(harness):
    await ready(harness, "orders", "other")
    await harness.ask(DeleteTopicsRequest(topics=[DeleteTopicState("orders")]))
    assert [each[0] for each in await offsets(harness)] == ["other"]
    assert partitions(await harness.ask(heartbeat("m", 3))) == [[0]]


@pytest.mark.parametrize(("count", "error"), [(10_000, 0), (10_001, ErrorCode.INVALID_REQUEST)])
async def test_the_number_of_subscribed_names_is_limited(harness, count, error):
    names = [f"t{number}" for number in range(count)]
    assert (await harness.ask(heartbeat("m", 0, names))).error_code == error


@pytest.mark.parametrize(("length", "error"), [(8_000, 0), (8_001, ErrorCode.INVALID_REQUEST)])
async def test_the_length_of_names_is_limited(harness, length, error):
    assert (await harness.ask(heartbeat("m" * length, 0, ["orders"]))).error_code == error
    reply = await harness.ask(ShareGroupHeartbeatRequest(GROUP, "r", 0, "r" * length, ["orders"]))
    assert reply.error_code == error
    reply = await harness.ask(heartbeat("m", 0, ["orders"], "g" * length))
    assert reply.error_code == (error and ErrorCode.INVALID_GROUP_ID)


async def test_the_members_session_ends_on_the_brokers_clock(harness):
    await harness.ask(heartbeat("m", 0, ["orders"]))
    harness.advance(44_999)
    assert (await describe(harness)).group_state == "Stable"
    harness.advance(1)
    assert (await describe(harness)).group_state == "Empty"


async def test_without_the_offsets_topic_there_is_no_coordinator(tmp_path):
    harness = Harness(tmp_path)
    for request in (heartbeat("m", 0, ["orders"]), alter("orders", (0, 1)), delete("orders")):
        assert (await harness.ask(request)).error_code == ErrorCode.NOT_COORDINATOR
    assert (await describe(harness)).error_code == ErrorCode.NOT_COORDINATOR
    wanted = DescribeShareGroupOffsetsRequestGroup(GROUP)
    (found,) = (await harness.ask(DescribeShareGroupOffsetsRequest([wanted]))).groups
    assert found.error_code == ErrorCode.NOT_COORDINATOR
    harness.close()


async def test_share_groups_are_a_finalized_feature(harness):
    reply = await harness.ask(ApiVersionsRequest("test", "1"))
    finalized = {each.name: each.max_version_level for each in reply.finalized_features}
    supported = {each.name: (each.min_version, each.max_version) for each in reply.supported_features}
    assert finalized["share.version"] == 2
    assert supported["share.version"] == (0, 2)


async def test_topics_that_the_client_may_not_describe_stay_hidden(tmp_path):
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    harness = Harness(tmp_path, f"authorizer.class.name={authorizer}", "super.users=User:root")
    root, alice = Connection(), Connection()
    root.principal, alice.principal = "root", "alice"
    topics = [CreatableTopic("orders", 1, 1), CreatableTopic("secret", 1, 1)]
    await harness.ask(CreateTopicsRequest(topics), connection=root)

    async def allow(kind: int, name: str, operation: int) -> None:
        creation = AclCreation(kind, name, 3, "User:alice", "*", operation, 3)
        (result,) = (await harness.ask(CreateAclsRequest([creation]), connection=root)).results
        assert result.error_code == 0

    await allow(GROUP_KIND, GROUP, READ)
    await allow(GROUP_KIND, GROUP, DELETE)
    await allow(TOPIC_KIND, "orders", READ)
    await harness.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), connection=root)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    reply = await harness.ask(heartbeat("m", 0, ["orders", "secret"]), connection=alice)
    assert reply.error_code == denied
    await harness.ask(heartbeat("m", 0, ["orders"]), connection=alice)
    assert (await describe(harness, connection=alice)).error_code == ErrorCode.NONE
    # A member of another user reads the secret topic: now the group is hidden from alice.
    await harness.ask(heartbeat("n", 0, ["orders", "secret"]), connection=root)
    await harness.finish_states()
    await harness.ask(heartbeat("m", 2), connection=alice)
    await harness.ask(heartbeat("n", 3), connection=root)
    hidden = await describe(harness, connection=alice)
    assert (hidden.error_code, hidden.members) == (denied, [])
    assert len((await describe(harness, connection=root)).members) == 2
    assert [each[0] for each in await offsets(harness, connection=alice)] == ["orders"]
    named = await offsets(harness, {"secret": [0], "orders": [0]}, connection=alice)
    assert [(name, error) for name, _, _, error in named] == [("secret", denied), ("orders", 0)]
    for member in "mn":
        await harness.ask(heartbeat(member, -1), connection=root)
    (topic,) = (await harness.ask(alter("secret", (0, 1)), connection=alice)).responses
    assert (topic.topic_id, topic.partitions[0].error_code) == (ZERO, denied)
    (topic,) = (await harness.ask(delete("secret"), connection=alice)).responses
    assert (topic.topic_id, topic.error_code) == (ZERO, denied)
    (topic,) = (await harness.ask(alter("orders", (0, 1)), connection=alice)).responses
    assert topic.partitions[0].error_code == 0
    (topic,) = (await harness.ask(delete("orders"), connection=alice)).responses
    assert topic.error_code == 0
    harness.close()


async def test_many_partitions_are_described_and_altered_in_slices(harness):
    await emptied(harness)
    many = list(range(20_000))
    group = DescribeShareGroupOffsetsRequestGroup(
        GROUP, [DescribeShareGroupOffsetsRequestTopic("orders", many)]
    )
    asking = await harness.put(DescribeShareGroupOffsetsRequest([group]))
    assert asking.pauses > 30
    assert len(harness.answer(asking).groups[0].topics[0].partitions) == 20_000
    asking = await harness.put(alter("orders", *((index, 0) for index in many)))
    assert asking.pauses > 30
    errors = [each.error_code for each in harness.answer(asking).responses[0].partitions]
    assert errors.count(0) == 2
