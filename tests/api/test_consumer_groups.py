"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, and how the other group APIs meet consumer groups."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.api.security.client_security import EVERY_OPERATION
from broker.common import slices as common_slices
from broker.common.errors import ErrorCode
from broker.common.slices import SLICE
from broker.protocol.messages.acls import AclCreation, CreateAclsRequest
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from broker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from broker.security.acl.acl import ResourceType
from tests.api.group import GROUP, commit, committed, find_coordinator, join_request
from tests.api.harness import Connection, Harness

ORDERS = 4
GROUP_KIND, TOPIC_KIND = 3, 2
READ, DESCRIBE = 3, 8


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(tmp_path)
    await harness.ask(
        CreateTopicsRequest([CreatableTopic("orders", ORDERS, 1), CreatableTopic("other", 1, 1)])
    )
    await find_coordinator(harness)
    yield harness
    harness.close()


def heartbeat(
    member_id: str,
    epoch: int,
    *,
    topics: list[str] | None = None,
    regex: str | None = None,
    owned: list[TopicPartitions] | None = None,
    group: str = GROUP,
    **more: Any,
) -> ConsumerGroupHeartbeatRequest:
    timeout_ms = 60_000 if epoch == 0 else -1
    owned = [] if epoch == 0 else owned
    return ConsumerGroupHeartbeatRequest(
        group,
        member_id,
        epoch,
        more.get("instance_id"),
        None,
        timeout_ms,
        topics,
        regex,
        more.get("assignor"),
        owned,
    )


async def describe(harness: Harness, group: str = GROUP, **more: Any) -> DescribedGroup:
    (found,) = (await harness.ask(ConsumerGroupDescribeRequest([group]), **more)).groups
    assert isinstance(found, DescribedGroup)
    return found


def partitions(reply: ConsumerGroupHeartbeatResponse) -> list[list[int]]:
    assert reply.assignment is not None
    return [each.partitions for each in reply.assignment.topic_partitions]


@pytest.mark.parametrize("version", [0, 1])
async def test_a_member_joins_and_is_described(harness, version):
    reply = await harness.ask(heartbeat("m", 0, topics=["orders"]), version)
    assert (reply.error_code, reply.error_message, reply.member_id) == (0, None, "m")
    assert (reply.member_epoch, reply.heartbeat_interval_ms) == (2, 5_000)
    assert partitions(reply) == [[0, 1, 2, 3]]
    (found,) = (await harness.ask(ConsumerGroupDescribeRequest([GROUP], True), version)).groups
    assert (found.error_code, found.group_state, found.group_epoch, found.assignment_epoch) == (
        0,
        "Stable",
        2,
        2,
    )
    assert (found.assignor_name, found.authorized_operations) == (
        "uniform",
        EVERY_OPERATION[ResourceType.GROUP],
    )
    (member,) = found.members
    assert (member.member_id, member.member_epoch, member.client_host) == ("m", 2, "/127.0.0.1")
    assert member.subscribed_topic_names == ["orders"]
    assert [(each.topic_name, each.partitions) for each in member.assignment.topic_partitions] == [
        ("orders", [0, 1, 2, 3])
    ]
    assert member.target_assignment.topic_partitions[0].partitions == [0, 1, 2, 3]
    assert member.member_type == (1 if version else -1)


async def test_version_0_makes_the_member_id(harness):
    reply = await harness.ask(heartbeat("", 0, topics=["orders"]), 0)
    assert reply.error_code == 0 and len(reply.member_id) > 10
    assert (await harness.ask(heartbeat("", 0, topics=["orders"]), 1)).error_code == (
        ErrorCode.INVALID_REQUEST
    )


async def test_two_members_divide_a_topic(harness):
    topic_id = harness.control.image.topics["orders"].topic_id
    await harness.ask(heartbeat("a", 0, topics=["orders"]))
    assert partitions(await harness.ask(heartbeat("b", 0, topics=["orders"]))) == []
    assert partitions(await harness.ask(heartbeat("a", 2))) == [[0, 1]]
    owned = [TopicPartitions(topic_id, [0]), TopicPartitions(topic_id, [1])]
    assert (await harness.ask(heartbeat("a", 2, owned=owned))).member_epoch == 3
    assert partitions(await harness.ask(heartbeat("b", 3))) == [[2, 3]]
    assert (await harness.ask(heartbeat("b", -1))).member_epoch == -1


async def test_partitions_that_do_not_exist_are_no_partitions_of_the_member(harness, monkeypatch):
    monkeypatch.setattr(common_slices, "SLICE_S", 0.0)  # each step is a slice
    monkeypatch.setattr(common_slices, "FIRST_STEPS", 0)
    topic_id = harness.control.image.topics["orders"].topic_id
    await harness.ask(heartbeat("a", 0, topics=["orders"]))
    await harness.ask(heartbeat("b", 0, topics=["orders"]))
    await harness.ask(heartbeat("a", 2))
    asking = await harness.put(heartbeat("a", 2, owned=[TopicPartitions(topic_id, list(range(90_000)))]))
    assert asking.pauses >= 90_000 // SLICE
    assert harness.answer(asking).member_epoch == 2  # it states partitions that it has to revoke
    owned = [TopicPartitions(topic_id, [0, 1]), TopicPartitions(b"\1" * 16, [-5, 7, 2_000])]
    assert (await harness.ask(heartbeat("a", 2, owned=owned))).member_epoch == 3
    # It repeats the request: what it has not been assigned fences it.
    fenced = await harness.ask(heartbeat("a", 2, owned=owned))
    assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH


async def test_an_error_has_a_message(harness):
    reply = await harness.ask(heartbeat("m", 4))
    assert (reply.error_code, reply.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Consumer group {GROUP} not found.",
    )


@pytest.mark.parametrize("regex", ["(", r"(a)\1", "((a{1000}){1000}){1000}"])
async def test_an_invalid_expression_is_refused(harness, regex):
    reply = await harness.ask(heartbeat("m", 0, regex=regex))
    assert reply.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert (await describe(harness)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_an_expression_selects_topics(harness):
    assert partitions(await harness.ask(heartbeat("m", 0, regex="ord.*"))) == [[0, 1, 2, 3]]
    await harness.ask(CreateTopicsRequest([CreatableTopic("ordinary", 1, 1)]))
    harness.advance(10_000)
    assert sorted(partitions(await harness.ask(heartbeat("m", 2)))) == [[0], [0, 1, 2, 3]]


async def test_many_names_and_topics_are_matched_in_slices(harness):
    names = [CreatableTopic(f"topic-{number}", 1, 1) for number in range(600)]
    await harness.ask(CreateTopicsRequest(names))
    asking = await harness.put(heartbeat("m", 0, regex="topic-.*"))
    assert asking.pauses >= 4
    assert len(partitions(harness.answer(asking))) == 600


@pytest.mark.parametrize(("count", "error"), [(10_000, 0), (10_001, ErrorCode.INVALID_REQUEST)])
async def test_the_number_of_subscribed_names_is_limited(harness, count, error):
    names = [f"t{number}" for number in range(count)]
    assert (await harness.ask(heartbeat("m", 0, topics=names))).error_code == error


@pytest.mark.parametrize(("length", "error"), [(8_000, 0), (8_001, ErrorCode.INVALID_REQUEST)])
async def test_the_length_of_names_is_limited(harness, length, error):
    reply = await harness.ask(heartbeat("m" * length, 0, topics=["orders"]))
    assert reply.error_code == error


async def test_the_members_session_ends_on_the_brokers_clock(harness):
    await harness.ask(heartbeat("m", 0, topics=["orders"]))
    harness.advance(44_999)
    assert (await describe(harness)).group_state == "Stable"
    harness.advance(1)
    assert (await describe(harness)).group_state == "Empty"


async def test_a_member_commits_and_fetches_with_its_epoch(harness):
    await harness.ask(heartbeat("m", 0, topics=["orders"]))
    assert await commit(harness, 7, member_id="m", generation=2) == ErrorCode.NONE
    assert await commit(harness, 8, member_id="m", generation=3) == ErrorCode.STALE_MEMBER_EPOCH
    assert await commit(harness, 8, member_id="x", generation=2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await commit(harness, 8, 8, member_id="m", generation=2) == ErrorCode.UNSUPPORTED_VERSION
    assert await committed(harness) == 7
    for member_id, epoch, error in (
        ("m", 2, ErrorCode.NONE),
        ("m", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, -1, ErrorCode.NONE),
    ):
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, member_id, epoch)])
        (found,) = (await harness.ask(request)).groups
        assert found.error_code == error
        assert bool(found.topics) is (error is ErrorCode.NONE)


async def test_the_other_group_apis_know_the_type(harness):
    await harness.ask(heartbeat("m", 0, topics=["orders"]))
    (listed,) = (await harness.ask(ListGroupsRequest(types_filter=["consumer"]))).groups
    assert (listed.group_id, listed.protocol_type) == (GROUP, "consumer")
    assert (listed.group_state, listed.group_type) == ("Stable", "consumer")
    assert (await harness.ask(ListGroupsRequest(types_filter=["classic"]))).groups == []
    (described,) = (await harness.ask(DescribeGroupsRequest([GROUP]))).groups
    assert (described.error_code, described.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    (described,) = (await harness.ask(DescribeGroupsRequest([GROUP]), 5)).groups
    assert (described.error_code, described.group_state) == (ErrorCode.NONE, "Dead")
    (deleted,) = (await harness.ask(DeleteGroupsRequest([GROUP]))).results
    assert deleted.error_code == ErrorCode.NON_EMPTY_GROUP
    await harness.ask(heartbeat("m", -1))
    (deleted,) = (await harness.ask(DeleteGroupsRequest([GROUP]))).results
    assert deleted.error_code == ErrorCode.NONE


async def test_a_classic_member_of_another_type_is_refused_in_a_consumer_group(harness):
    await harness.ask(heartbeat("m", 0, topics=["orders"]))
    request = join_request("c")
    request.protocol_type = "connect"
    assert (await harness.ask(request)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_a_repeated_group_and_one_without_id_are_refused(harness):
    await harness.ask(heartbeat("m", 0, topics=["orders"]))
    found = (await harness.ask(ConsumerGroupDescribeRequest([GROUP, GROUP, "", "none"]))).groups
    assert [each.error_code for each in found] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]


async def test_without_the_offsets_topic_there_is_no_coordinator(tmp_path):
    harness = Harness(tmp_path)
    reply = await harness.ask(heartbeat("m", 0, topics=["orders"]))
    assert reply.error_code == ErrorCode.NOT_COORDINATOR
    assert (await describe(harness)).error_code == ErrorCode.NOT_COORDINATOR
    harness.close()


async def test_consumer_groups_are_a_finalized_feature(harness):
    reply = await harness.ask(ApiVersionsRequest("test", "1"))
    finalized = {each.name: each.max_version_level for each in reply.finalized_features}
    supported = {each.name: (each.min_version, each.max_version) for each in reply.supported_features}
    assert finalized["group.version"] == 1
    assert supported["group.version"] == (0, 1)


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
    await allow(TOPIC_KIND, "orders", DESCRIBE)
    await harness.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), connection=root)
    reply = await harness.ask(heartbeat("m", 0, topics=["orders", "secret"]), connection=alice)
    assert reply.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    # A regular expression leaves out what the client may not describe.
    reply = await harness.ask(heartbeat("m", 0, regex=".*"), connection=alice)
    assert partitions(reply) == [[0]]
    assert (await describe(harness, connection=alice)).error_code == ErrorCode.NONE
    # A member of another user reads the secret topic: now the group is hidden from alice.
    await harness.ask(heartbeat("n", 0, topics=["secret"]), connection=root)
    hidden = await describe(harness, connection=alice)
    assert (hidden.error_code, hidden.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    assert len((await describe(harness, connection=root)).members) == 2
    harness.close()


async def test_topics_that_do_not_exist_take_no_more_than_a_few_sets(harness):
    topic_id = harness.control.image.topics["orders"].topic_id
    await harness.ask(heartbeat("a", 0, topics=["orders"]))
    await harness.ask(heartbeat("b", 0, topics=["orders"]))
    await harness.ask(heartbeat("a", 2))
    unknown = [TopicPartitions(number.to_bytes(16, "big"), [0]) for number in range(1, 40_000)]
    asking = await harness.put(heartbeat("a", 2, owned=[*unknown, TopicPartitions(topic_id, [0, 1])]))
    assert asking.pauses >= 40_000 // SLICE
    assert harness.answer(asking).member_epoch == 3
