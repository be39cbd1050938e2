"""Every API with an authorizer: what it refuses without ACLs, with which codes, and what suffices for it."""

import logging
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.api.requests.services import ClusterServices
from broker.common.errors import ErrorCode
from broker.common.slices import SLICE, run_through
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from broker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from broker.protocol.messages.client_quotas import DescribeClientQuotasRequest
from broker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from broker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delegation_tokens import CreateDelegationTokenRequest
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.describe_cluster import DescribeClusterRequest
from broker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from broker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from broker.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from broker.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
)
from broker.protocol.messages.describe_topic_partitions import TopicRequest as NamedTopic
from broker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from broker.protocol.messages.end_txn import EndTxnRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.heartbeat import HeartbeatRequest
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.protocol.messages.list_transactions import ListTransactionsRequest
from broker.protocol.messages.log_dirs import DescribeLogDirsRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from broker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.protocol.messages.partition_reassignments import ListPartitionReassignmentsRequest
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.protocol.messages.scram_credentials import DescribeUserScramCredentialsRequest
from broker.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from broker.protocol.messages.share_fetch import ShareFetchRequest
from broker.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from broker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from broker.protocol.messages.share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from broker.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from broker.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from broker.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from broker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from broker.protocol.messages.unregister_controller import UnregisterControllerRequest
from broker.protocol.schema import Message
from broker.records.build import NewRecord, build_batch
from broker.security.acl.acl import CLUSTER_NAME, Acl, Operation, Permission, ResourceType
from broker.security.acl.authorizer import EVERY_OPERATION
from tests.api.group import join_request, sync_request
from tests.api.harness import WALL_MS, Connection, Harness
from tests.api.test_roles import NEEDS, REFUSALS, configs, errors_in, share_states
from tests.controller.world import AUTHORIZER
from tests.security.acl.acls import allow, deny

UNUSED_LOGGER = logging.getLogger("weir_tests.authorization")

TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TRANSACTION_FAILED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
CLUSTER_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
Op = Operation


def topic(operation: Operation, name: str = "orders") -> Acl:
    return allow(operation, name)


def group(operation: Operation, name: str = "readers") -> Acl:
    return allow(operation, name, kind=ResourceType.GROUP)


def cluster(operation: Operation) -> Acl:
    return allow(operation, CLUSTER_NAME, kind=ResourceType.CLUSTER)


def transaction(operation: Operation, name: str = "t") -> Acl:
    return allow(operation, name, kind=ResourceType.TRANSACTIONAL_ID)


class Case(NamedTuple):
    """A request, the code that refuses it, and lists of ACLs, each of which suffices."""

    message: Message
    refusal: ErrorCode
    suffices: tuple[tuple[Acl, ...], ...]
    version: int | None = None


def produce(acks: int = 1, transactional_id: str | None = None) -> ProduceRequest:
    batch = build_batch([NewRecord(None, b"value", WALL_MS)])
    return ProduceRequest(
        transactional_id,
        acks,
        1_000,
        [TopicProduceData("orders", partition_data=[PartitionProduceData(0, batch)])],
    )


def fetch(session_id: int = 0, epoch: int = -1, *topics: str) -> FetchRequest:
    wanted = [FetchTopic(name, partitions=[FetchPartition(0, partition_max_bytes=10_000)]) for name in topics]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=100_000,
        session_id=session_id,
        session_epoch=epoch,
        topics=wanted,
    )


def commit() -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(0, 5)
    return OffsetCommitRequest("readers", topics=[OffsetCommitRequestTopic("orders", partitions=[partition])])


def offsets(*topics: str) -> OffsetFetchRequest:
    named = [OffsetFetchRequestTopics(name, partition_indexes=[0]) for name in topics] or None
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup("readers", topics=named)])


OF_ROLES = {
    "quotas": (CLUSTER_FAILED, ((cluster(Op.ALTER_CONFIGS),),)),
    "topics made": (TOPIC_FAILED, ((cluster(Op.CREATE),), (topic(Op.CREATE, "new"),))),
    "topics deleted": (TOPIC_FAILED, ((cluster(Op.DELETE),), (topic(Op.DELETE),))),
    "partitions": (TOPIC_FAILED, ((topic(Op.ALTER),),)),
    "topic settings": (TOPIC_FAILED, ((topic(Op.ALTER_CONFIGS),),)),
    "broker settings": (CLUSTER_FAILED, ((cluster(Op.ALTER_CONFIGS),),)),
    "subscriptions": (CLUSTER_FAILED, ((cluster(Op.ALTER_CONFIGS),),)),
    "topic settings replaced": (TOPIC_FAILED, ((topic(Op.ALTER_CONFIGS),),)),
    "broker settings replaced": (CLUSTER_FAILED, ((cluster(Op.ALTER_CONFIGS),),)),
    "records deleted": (TOPIC_FAILED, ((topic(Op.DELETE),),)),
    "logs moved": (CLUSTER_FAILED, ((cluster(Op.ALTER),),)),
    "reassignments": (CLUSTER_FAILED, ((cluster(Op.ALTER),),)),
    "passwords": (CLUSTER_FAILED, ((cluster(Op.ALTER),),)),
    "groups deleted": (GROUP_FAILED, ((group(Op.DELETE),),)),
    "offsets deleted": (GROUP_FAILED, ((group(Op.DELETE), topic(Op.READ)),)),
    "offsets of share groups deleted": (GROUP_FAILED, ((group(Op.DELETE), topic(Op.READ)),)),
    "partitions of transactions": (CLUSTER_FAILED, ((cluster(Op.CLUSTER_ACTION),),)),
    "markers": (CLUSTER_FAILED, ((cluster(Op.ALTER),), (cluster(Op.CLUSTER_ACTION),))),
    "fetched as a replica": (TOPIC_FAILED, ((cluster(Op.CLUSTER_ACTION),),)),
    **{f"share states {what}": (CLUSTER_FAILED, ((cluster(Op.CLUSTER_ACTION),),)) for what in share_states()},
    "elections": (CLUSTER_FAILED, ((cluster(Op.ALTER),),)),
    "features": (CLUSTER_FAILED, ((cluster(Op.ALTER),),)),
    "brokers removed": (CLUSTER_FAILED, ((cluster(Op.ALTER),),)),
    "voters added": (CLUSTER_FAILED, ((cluster(Op.ALTER),),)),
    "voters removed": (CLUSTER_FAILED, ((cluster(Op.ALTER),),)),
}
"""The cases of tests.api.test_roles."""

CASES: dict[str, Case] = {
    **{
        name: Case(NEEDS[name][1], refusal, suffices, NEEDS[name][2])
        for name, (refusal, suffices) in OF_ROLES.items()
    },
    "tokens of another": Case(
        CreateDelegationTokenRequest("User", "bob"),
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ((allow(Op.CREATE_TOKENS, "User:bob", kind=ResourceType.USER),),),
    ),
    "produce": Case(produce(), TOPIC_FAILED, ((topic(Op.WRITE),),), 9),
    "fetch": Case(fetch(0, -1, "orders"), TOPIC_FAILED, ((topic(Op.READ),),), 12),
    "list offsets": Case(
        ListOffsetsRequest(-1, 0, [ListOffsetsTopic("orders", [ListOffsetsPartition(0, timestamp=-1)])]),
        TOPIC_FAILED,
        ((topic(Op.DESCRIBE),), (topic(Op.READ),)),
    ),
    "metadata": Case(
        MetadataRequest([MetadataRequestTopic(name="orders")]), TOPIC_FAILED, ((topic(Op.DESCRIBE),),)
    ),
    "topics made automatically": Case(
        MetadataRequest([MetadataRequestTopic(name="new")]),
        TOPIC_FAILED,
        (
            (topic(Op.DESCRIBE, "new"), topic(Op.CREATE, "new")),
            (topic(Op.DESCRIBE, "new"), cluster(Op.CREATE)),
        ),
    ),
    "topic partitions": Case(
        DescribeTopicPartitionsRequest([NamedTopic("orders")]), TOPIC_FAILED, ((topic(Op.DESCRIBE),),)
    ),
    "commit": Case(commit(), GROUP_FAILED, ((group(Op.READ), topic(Op.READ)),)),
    "commit to a topic": Case(commit(), TOPIC_FAILED, ((topic(Op.READ),),)),
    "offsets": Case(offsets("orders"), GROUP_FAILED, ((group(Op.DESCRIBE), topic(Op.DESCRIBE)),)),
    "offsets, one group": Case(
        OffsetFetchRequest("readers", [OffsetFetchRequestTopics("orders", partition_indexes=[0])]),
        GROUP_FAILED,
        ((group(Op.READ), topic(Op.READ)),),
        1,
    ),
    "coordinator": Case(FindCoordinatorRequest("readers"), GROUP_FAILED, ((group(Op.DESCRIBE),),), 3),
    "coordinators": Case(
        FindCoordinatorRequest(coordinator_keys=["readers"]), GROUP_FAILED, ((group(Op.DESCRIBE),),)
    ),
    "join": Case(join_request(), GROUP_FAILED, ((group(Op.READ),),)),
    "sync": Case(sync_request(1, "m"), GROUP_FAILED, ((group(Op.READ),),)),
    "heartbeat": Case(HeartbeatRequest("readers", 1, "m"), GROUP_FAILED, ((group(Op.READ),),)),
    "leave": Case(
        LeaveGroupRequest("readers", "", [MemberIdentity("m")]), GROUP_FAILED, ((group(Op.READ),),)
    ),
    "consumer heartbeat": Case(
        ConsumerGroupHeartbeatRequest("members", "m", 0, None, None, 1_000, [], None, None, []),
        GROUP_FAILED,
        ((group(Op.READ, "members"),),),
    ),
    "consumer heartbeat with topics": Case(
        ConsumerGroupHeartbeatRequest("members", "m", 0, None, None, 1_000, ["orders"], None, None, []),
        GROUP_FAILED,
        ((group(Op.READ, "members"), topic(Op.DESCRIBE)), (group(Op.READ, "members"), topic(Op.READ))),
    ),
    "share fetch": Case(ShareFetchRequest("readers", "m"), GROUP_FAILED, ((group(Op.READ),),)),
    "share acknowledge": Case(ShareAcknowledgeRequest("readers", "m"), GROUP_FAILED, ((group(Op.READ),),)),
    "share coordinator": Case(
        FindCoordinatorRequest(key_type=2, coordinator_keys=["readers:AAECAwQFBgcICQoLDA0ODw:0"]),
        CLUSTER_FAILED,
        ((cluster(Op.CLUSTER_ACTION),),),
    ),
    "describe consumer groups": Case(
        ConsumerGroupDescribeRequest(["readers"]), GROUP_FAILED, ((group(Op.DESCRIBE),),)
    ),
    "share heartbeat": Case(
        ShareGroupHeartbeatRequest("sharers", "m", 0, None, ["orders"]),
        GROUP_FAILED,
        ((group(Op.READ, "sharers"), topic(Op.DESCRIBE)), (group(Op.READ, "sharers"), topic(Op.READ))),
    ),
    "streams heartbeat": Case(
        StreamsGroupHeartbeatRequest(
            "streamers",
            "m",
            0,
            rebalance_timeout_ms=1_000,
            topology=Topology(1, [Subtopology("0", ["orders"])]),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="p",
            client_tags=[],
        ),
        GROUP_FAILED,
        (
            (group(Op.READ, "streamers"), topic(Op.DESCRIBE)),
            (group(Op.READ, "streamers"), topic(Op.READ)),
        ),
    ),
    "describe streams groups": Case(
        StreamsGroupDescribeRequest(["readers"]), GROUP_FAILED, ((group(Op.DESCRIBE),),)
    ),
    "description of a topology": Case(
        StreamsGroupTopologyDescriptionUpdateRequest("readers", "m", 1), GROUP_FAILED, ((group(Op.READ),),)
    ),
    "a controller removed": Case(UnregisterControllerRequest(7), CLUSTER_FAILED, ((cluster(Op.ALTER),),)),
    "describe share groups": Case(
        ShareGroupDescribeRequest(["readers"]), GROUP_FAILED, ((group(Op.DESCRIBE),),)
    ),
    "describe offsets of share groups": Case(
        DescribeShareGroupOffsetsRequest(
            [
                DescribeShareGroupOffsetsRequestGroup(
                    "readers", [DescribeShareGroupOffsetsRequestTopic("orders", [0])]
                )
            ]
        ),
        GROUP_FAILED,
        ((group(Op.DESCRIBE), topic(Op.DESCRIBE)), (group(Op.READ), topic(Op.READ))),
    ),
    "alter offsets of share groups": Case(
        AlterShareGroupOffsetsRequest(
            "sharers",
            [AlterShareGroupOffsetsRequestTopic("orders", [AlterShareGroupOffsetsRequestPartition(0, 1)])],
        ),
        GROUP_FAILED,
        ((group(Op.READ, "sharers"), topic(Op.READ)),),
    ),
    "describe groups": Case(DescribeGroupsRequest(["readers"]), GROUP_FAILED, ((group(Op.DESCRIBE),),)),
    "producer id": Case(
        InitProducerIdRequest(None, 1_000),
        CLUSTER_FAILED,
        ((cluster(Op.IDEMPOTENT_WRITE),), (topic(Op.WRITE, "any"),)),
    ),
    "producer id for transactions": Case(
        InitProducerIdRequest("t", 1_000), TRANSACTION_FAILED, ((transaction(Op.WRITE),),)
    ),
    "transactional produce": Case(
        produce(transactional_id="t"), TRANSACTION_FAILED, ((transaction(Op.WRITE), topic(Op.WRITE)),), 9
    ),
    "partitions of a transaction": Case(
        AddPartitionsToTxnRequest("t", 1, 0, [AddPartitionsToTxnTopic("orders", [0])]),
        TRANSACTION_FAILED,
        ((transaction(Op.WRITE), topic(Op.WRITE)),),
        3,
    ),
    "offsets of a transaction": Case(
        AddOffsetsToTxnRequest("t", 1, 0, "readers"),
        TRANSACTION_FAILED,
        ((transaction(Op.WRITE), group(Op.READ)),),
    ),
    "commit in a transaction": Case(
        TxnOffsetCommitRequest(
            "t",
            "readers",
            1,
            0,
            topics=[
                TxnOffsetCommitRequestTopic("orders", partitions=[TxnOffsetCommitRequestPartition(0, 5)])
            ],
        ),
        TRANSACTION_FAILED,
        ((transaction(Op.WRITE), group(Op.READ), topic(Op.READ)),),
    ),
    "end of a transaction": Case(
        EndTxnRequest("t", 1, 0, True), TRANSACTION_FAILED, ((transaction(Op.WRITE),),)
    ),
    "describe transactions": Case(
        DescribeTransactionsRequest(["t"]),
        TRANSACTION_FAILED,
        ((transaction(Op.DESCRIBE),), (transaction(Op.WRITE),)),
    ),
    "coordinator of transactions": Case(
        FindCoordinatorRequest("t", 1), TRANSACTION_FAILED, ((transaction(Op.DESCRIBE),),), 3
    ),
    "coordinators of transactions": Case(
        FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]),
        TRANSACTION_FAILED,
        ((transaction(Op.DESCRIBE),),),
    ),
    "leader epochs": Case(
        OffsetForLeaderEpochRequest(
            -1, [OffsetForLeaderTopic("orders", [OffsetForLeaderPartition(0, -1, 0)])]
        ),
        TOPIC_FAILED,
        ((topic(Op.DESCRIBE),), (cluster(Op.CLUSTER_ACTION),)),
    ),
    "configs of a topic": Case(
        DescribeConfigsRequest([DescribeConfigsResource(2, "orders")]),
        TOPIC_FAILED,
        ((topic(Op.DESCRIBE_CONFIGS),), (topic(Op.ALTER_CONFIGS),)),
    ),
    "configs of a broker": Case(
        DescribeConfigsRequest([DescribeConfigsResource(4, "1")]),
        CLUSTER_FAILED,
        ((cluster(Op.DESCRIBE_CONFIGS),),),
    ),
    "levels of loggers": Case(
        configs(8, "1", UNUSED_LOGGER.name, "INFO"), CLUSTER_FAILED, ((cluster(Op.CLUSTER_ACTION),),)
    ),
    "log directories": Case(DescribeLogDirsRequest(None), CLUSTER_FAILED, ((cluster(Op.DESCRIBE),),)),
    "quorum": Case(
        DescribeQuorumRequest([RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])]),
        CLUSTER_FAILED,
        ((cluster(Op.DESCRIBE),),),
    ),
    "reassignments in progress": Case(
        ListPartitionReassignmentsRequest(), CLUSTER_FAILED, ((cluster(Op.DESCRIBE),),)
    ),
    "describe quotas": Case(
        DescribeClientQuotasRequest(), CLUSTER_FAILED, ((cluster(Op.DESCRIBE_CONFIGS),),)
    ),
    "users": Case(DescribeUserScramCredentialsRequest(), CLUSTER_FAILED, ((cluster(Op.DESCRIBE),),)),
    "producers": Case(
        DescribeProducersRequest([TopicRequest("orders", [0])]), TOPIC_FAILED, ((topic(Op.READ),),)
    ),
    "named resources": Case(ListConfigResourcesRequest(), CLUSTER_FAILED, ((cluster(Op.DESCRIBE_CONFIGS),),)),
}

OPEN = {
    "SASL_HANDSHAKE",
    "SASL_AUTHENTICATE",
    "API_VERSIONS",
    "GET_TELEMETRY_SUBSCRIPTIONS",
    "PUSH_TELEMETRY",
    "RENEW_DELEGATION_TOKEN",
    "EXPIRE_DELEGATION_TOKEN",
}
"""The APIs that Kafka does not authorize."""

LEAVE_OUT = {"LIST_GROUPS", "LIST_TRANSACTIONS", "DESCRIBE_CLUSTER", "DESCRIBE_DELEGATION_TOKEN"}
"""The APIs that leave out what the client may not see. They have tests of their own."""

BY_ACLS = {"DESCRIBE_ACLS", "CREATE_ACLS", "DELETE_ACLS"}
"""tests.api.test_acls has these."""


@pytest.fixture
async def guarded(tmp_path: Path) -> Any:
    """A broker with an authorizer, two topics, a group with an offset, and no ACL."""
    harness = Harness(tmp_path, AUTHORIZER, "super.users=User:root")
    made = await harness.ask(
        CreateTopicsRequest([CreatableTopic("orders", 1, 1), CreatableTopic("secret", 1, 1)]),
        connection=user("root"),
    )
    assert not any(errors_in(made))
    coordinator = FindCoordinatorRequest(coordinator_keys=["readers"])
    transactions = FindCoordinatorRequest(key_type=1, coordinator_keys=["t"])
    for each in (coordinator, transactions):
        assert not any(errors_in(await harness.ask(each, connection=user("root"))))
    assert not any(errors_in(await harness.ask(commit(), connection=user("root"))))
    yield harness
    harness.close()


def user(name: str = "alice") -> Connection:
    connection = Connection()
    connection.principal = name
    return connection


def grant(harness: Harness, *acls: Acl, revoked: tuple[Acl, ...] = ()) -> None:
    assert harness.authorizer is not None
    run_through(harness.authorizer.update(acls, revoked))


async def refusals(harness: Harness, case: Case) -> set[int]:
    asking = await harness.put(case.message, case.version, connection=user())
    if asking.outcome is None:  # a member that has joined waits
        return set()
    return REFUSALS & set(errors_in(harness.answer(asking)))


@pytest.mark.parametrize(
    ("what", "number"), [(what, at) for what in CASES for at in range(len(CASES[what].suffices))]
)
async def test_a_request_needs_these_acls_and_no_others(guarded: Harness, what: str, number: int) -> None:
    case = CASES[what]
    needed = case.suffices[number]
    if what == "commit to a topic":
        grant(guarded, group(Op.READ))
    before = guarded.control.image
    assert await refusals(guarded, case) == {case.refusal}
    for left_out in needed:
        others = tuple(each for each in needed if each is not left_out)
        grant(guarded, *others)
        assert await refusals(guarded, case), f"{others} suffice"
        grant(guarded, revoked=others)
    for each in needed:
        denial = each._replace(operation=Op.ALL, permission=Permission.DENY)
        grant(guarded, *needed, denial)
        assert await refusals(guarded, case), f"in spite of {denial}"
        grant(guarded, revoked=(*needed, denial))
    assert guarded.control.image is before
    grant(guarded, *needed)
    assert await refusals(guarded, case) == set()


@pytest.mark.parametrize("what", CASES)
async def test_a_super_user_needs_no_acl(guarded: Harness, what: str) -> None:
    case = CASES[what]
    grant(guarded, deny(Op.ALL, "*", principal="User:*"))
    asking = await guarded.put(case.message, case.version, connection=user("root"))
    assert asking.outcome is None or not REFUSALS & set(errors_in(guarded.answer(asking)))


async def test_no_api_is_left_out(guarded: Harness) -> None:
    """A new API must be added to one of the tables above."""
    cases = {ApiKey(each.message.API_KEY).name for each in CASES.values() if each.message.API_KEY is not None}
    assert cases | OPEN | LEAVE_OUT | BY_ACLS == {entry.key.name for entry in guarded.registry}


async def test_a_listing_leaves_out_topics_that_the_client_may_not_describe(guarded: Harness) -> None:
    answer = await guarded.ask(MetadataRequest(None), connection=user())
    assert answer.topics == []
    grant(guarded, topic(Op.WRITE))
    answer = await guarded.ask(MetadataRequest(None), connection=user())
    assert [each.name for each in answer.topics] == ["orders"]
    pages = await guarded.ask(DescribeTopicPartitionsRequest(response_partition_limit=10), connection=user())
    assert [each.name for each in pages.topics] == ["orders"]
    cursor = Cursor("__consumer_offsets", 3)
    pages = await guarded.ask(
        DescribeTopicPartitionsRequest(response_partition_limit=10, cursor=cursor), connection=user()
    )
    assert [(each.name, len(each.partitions)) for each in pages.topics] == [("orders", 1)]


async def test_a_named_topic_is_refused_whether_or_not_it_exists(guarded: Harness) -> None:
    names = [MetadataRequestTopic(name=name) for name in ("secret", "nowhere")]
    answer = await guarded.ask(MetadataRequest(names), connection=user())
    seen = [(each.name, each.error_code, each.topic_id, each.partitions) for each in answer.topics]
    assert seen == [(name, TOPIC_FAILED, bytes(16), []) for name in ("secret", "nowhere")]
    assert "nowhere" not in guarded.control.image.topics
    topic_id = guarded.control.image.topics["secret"].topic_id
    answer = await guarded.ask(MetadataRequest([MetadataRequestTopic(topic_id, None)]), connection=user())
    assert [(each.name, each.error_code) for each in answer.topics] == [(None, TOPIC_FAILED)]


async def test_the_authorized_operations_are_the_clients(guarded: Harness) -> None:
    grant(guarded, topic(Op.READ), group(Op.READ), cluster(Op.DESCRIBE), cluster(Op.ALTER))
    read_and_describe = (1 << Op.READ) | (1 << Op.DESCRIBE)
    of_cluster = (1 << Op.DESCRIBE) | (1 << Op.ALTER)
    request = MetadataRequest(
        [MetadataRequestTopic(name="orders")],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    answer = await guarded.ask(request, 8, connection=user())
    assert answer.topics[0].topic_authorized_operations == read_and_describe
    assert answer.cluster_authorized_operations == of_cluster
    groups = DescribeGroupsRequest(["readers"], include_authorized_operations=True)
    (described,) = (await guarded.ask(groups, 5, connection=user())).groups
    assert described.authorized_operations == read_and_describe
    described = await guarded.ask(DescribeClusterRequest(True), connection=user())
    assert described.cluster_authorized_operations == of_cluster
    described = await guarded.ask(DescribeClusterRequest(True), connection=user("bob"))
    assert described.cluster_authorized_operations == 0
    described = await guarded.ask(DescribeClusterRequest(False), connection=user())
    assert described.cluster_authorized_operations == -(2**31)


async def test_without_an_authorizer_all_operations_are_authorized(harness: Harness) -> None:
    await harness.create_topic("orders")
    request = MetadataRequest(
        None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
    )
    answer = await harness.ask(request, 8)
    assert answer.topics[0].topic_authorized_operations == EVERY_OPERATION[ResourceType.TOPIC]
    assert answer.cluster_authorized_operations == EVERY_OPERATION[ResourceType.CLUSTER]
    answer = await harness.ask(MetadataRequest(None), 8)
    assert answer.topics[0].topic_authorized_operations == answer.cluster_authorized_operations == -(2**31)


async def test_groups_are_listed_to_those_who_may_describe_them_or_the_cluster(guarded: Harness) -> None:
    grant(guarded, group(Op.READ), topic(Op.READ))
    assert not any(errors_in(await guarded.ask(commit(), connection=user())))

    async def listed(name: str) -> list[str]:
        answer = await guarded.ask(ListGroupsRequest(), connection=user(name))
        assert answer.error_code == 0
        return [each.group_id for each in answer.groups]

    assert (await listed("alice"), await listed("bob"), await listed("root")) == (
        ["readers"],
        [],
        ["readers"],
    )
    grant(guarded, cluster(Op.DESCRIBE)._replace(principal="User:bob"))
    assert await listed("bob") == ["readers"]


async def test_transactions_and_their_topics_are_shown_to_those_who_may_describe_them(
    guarded: Harness,
) -> None:
    root, alice = user("root"), user("alice")
    ask = guarded.ask
    made = await ask(InitProducerIdRequest("t", 60_000), connection=root)
    added = AddPartitionsToTxnRequest(
        "t", made.producer_id, made.producer_epoch, [AddPartitionsToTxnTopic("orders", [0])]
    )
    assert not any(errors_in(await ask(added, 3, connection=root)))
    assert (await ask(ListTransactionsRequest(), connection=alice)).transaction_states == []
    grant(guarded, transaction(Op.DESCRIBE))
    (state,) = (await ask(ListTransactionsRequest(), connection=alice)).transaction_states
    assert state.transactional_id == "t"
    (described,) = (await ask(DescribeTransactionsRequest(["t"]), connection=alice)).transaction_states
    assert (described.transaction_state, described.topics) == ("Ongoing", [])
    grant(guarded, topic(Op.DESCRIBE))
    (described,) = (await ask(DescribeTransactionsRequest(["t"]), connection=alice)).transaction_states
    assert [(each.topic, each.partitions) for each in described.topics] == [("orders", [0])]


async def test_of_all_offsets_those_of_other_topics_are_left_out(guarded: Harness) -> None:
    await guarded.ask(commit(), connection=user("root"))
    grant(guarded, group(Op.DESCRIBE))
    (answer,) = (await guarded.ask(offsets(), connection=user())).groups
    assert (answer.error_code, answer.topics) == (0, [])
    (answer,) = (await guarded.ask(offsets("orders"), connection=user())).groups
    (partition,) = answer.topics[0].partitions
    assert (partition.committed_offset, partition.error_code) == (-1, TOPIC_FAILED)
    grant(guarded, topic(Op.DESCRIBE))
    (answer,) = (await guarded.ask(offsets(), connection=user())).groups
    assert answer.topics[0].partitions[0].committed_offset == 5


async def test_deleting_by_id_reveals_no_name_and_by_name_not_what_exists(guarded: Harness) -> None:
    topic_id = guarded.control.image.topics["secret"].topic_id
    by_id = DeleteTopicState(None, topic_id)
    request = DeleteTopicsRequest(topics=[by_id, DeleteTopicState("secret"), DeleteTopicState("nowhere")])
    answer = await guarded.ask(request, connection=user())
    seen = {(each.name, each.topic_id, each.error_code) for each in answer.responses}
    assert seen == {
        (None, topic_id, TOPIC_FAILED),
        ("secret", bytes(16), TOPIC_FAILED),
        ("nowhere", bytes(16), TOPIC_FAILED),
    }
    grant(guarded, topic(Op.DESCRIBE, "secret"), topic(Op.DESCRIBE, "nowhere"))
    answer = await guarded.ask(request, connection=user())
    seen = {(each.name, each.error_code) for each in answer.responses}
    assert seen == {("secret", TOPIC_FAILED), ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
    assert "secret" in guarded.control.image.topics


async def test_one_request_is_refused_for_some_topics_only(guarded: Harness) -> None:
    grant(guarded, topic(Op.CREATE, "mine"))
    topics = [CreatableTopic(name, 1, 1) for name in ("mine", "theirs", "theirs")]
    answer = await guarded.ask(CreateTopicsRequest(topics), connection=user())
    assert [(each.name, each.error_code, each.error_message) for each in answer.topics] == [
        ("mine", 0, None),
        ("theirs", TOPIC_FAILED, "Authorization failed."),
    ]
    (mine, _) = answer.topics
    assert (mine.topic_config_error_code, mine.num_partitions, mine.configs) == (TOPIC_FAILED, -1, [])
    grant(guarded, topic(Op.CREATE, "more"), topic(Op.DESCRIBE_CONFIGS, "more"))
    answer = await guarded.ask(CreateTopicsRequest([CreatableTopic("more", 1, 1)]), connection=user())
    assert answer.topics[0].num_partitions == 1 and answer.topics[0].configs


@pytest.mark.parametrize("fast", [True, False])
async def test_a_removed_acl_ends_producing(guarded: Harness, fast: bool) -> None:
    guarded.uses_fast_paths = fast
    connection = user()
    for granted in (True, False, True):
        change = {} if granted else {"revoked": (topic(Op.WRITE),)}
        grant(guarded, *((topic(Op.WRITE),) if granted else ()), **change)
        for _ in range(2):
            answer = await guarded.ask(produce(), 9, connection=connection)
            (partition,) = answer.responses[0].partition_responses
            assert partition.error_code == (0 if granted else TOPIC_FAILED)
    assert guarded.partitions.log("orders", 0).high_watermark == 4  # type: ignore[union-attr]


@pytest.mark.parametrize("fast", [True, False])
async def test_a_removed_acl_ends_fetching_in_a_session_and_without(guarded: Harness, fast: bool) -> None:
    guarded.append("orders", 1)
    guarded.append("secret", 1)
    guarded.uses_fast_paths = fast
    grant(guarded, topic(Op.READ), topic(Op.READ, "secret"))
    opened = await guarded.ask(fetch(0, 0, "orders", "secret"), 12, connection=user())
    assert [each.partitions[0].error_code for each in opened.responses] == [0, 0]
    session = opened.session_id
    assert session
    epoch = 1

    async def errors(*topics: str) -> dict[str, int]:
        nonlocal epoch
        answer = await guarded.ask(fetch(session, epoch, *topics), 12, connection=user())
        epoch += 1
        assert answer.error_code == 0
        return {each.topic: each.partitions[0].error_code for each in answer.responses}

    assert await errors("orders", "secret") == {"orders": 0, "secret": 0}
    grant(guarded, revoked=(topic(Op.READ, "secret"),))
    assert await errors("orders") == {"orders": 0, "secret": TOPIC_FAILED}
    assert await errors("orders") == {"orders": 0, "secret": TOPIC_FAILED}
    alone = await guarded.ask(fetch(0, -1, "secret"), 12, connection=user())
    assert alone.responses[0].partitions[0].error_code == TOPIC_FAILED
    assert not alone.responses[0].partitions[0].records
    grant(guarded, topic(Op.READ, "secret"))
    assert await errors("orders", "secret") == {"orders": 0, "secret": 0}


@pytest.mark.parametrize("count", [500, 900])
async def test_a_fetch_of_many_partitions_is_refused_by_topic(guarded: Harness, count: int) -> None:
    many = [CreatableTopic("many", count, 1), CreatableTopic("some", 1, 1)]
    await guarded.ask(CreateTopicsRequest(many), connection=user("root"))
    grant(guarded, topic(Op.READ, "some"))
    request = fetch(0, -1, "some")
    partitions = [FetchPartition(index, partition_max_bytes=100) for index in range(count)]
    request.topics.append(FetchTopic("many", partitions=partitions))
    answer = await guarded.ask(request, 12, connection=user())
    some, refused = answer.responses
    assert some.partitions[0].error_code == 0
    assert [each.error_code for each in refused.partitions] == [TOPIC_FAILED] * count


async def test_a_denied_produce_without_a_response_closes_the_connection(guarded: Harness) -> None:
    from broker.api.requests.outcome import Hangup

    asking = await guarded.put(produce(acks=0), 9, connection=user())
    assert isinstance(asking.outcome, Hangup) and asking.outcome.error == TOPIC_FAILED


async def test_a_denied_request_is_counted_once_for_each_topic(guarded: Harness) -> None:
    assert guarded.authorizer is not None
    await guarded.ask(produce(), 9, connection=user())
    await guarded.ask(fetch(0, -1, "orders"), 12, connection=user())
    await guarded.ask(MetadataRequest(None), connection=user())
    counts = guarded.authorizer.denials
    assert counts == {(Op.WRITE, ResourceType.TOPIC): 1, (Op.READ, ResourceType.TOPIC): 1}


async def test_with_everything_open_only_resources_with_acls_are_closed(tmp_path: Path) -> None:
    harness = Harness(tmp_path, AUTHORIZER, "allow.everyone.if.no.acl.found=true")
    answer = await harness.ask(CreateTopicsRequest([CreatableTopic("orders", 1, 1)]), connection=user())
    assert not any(errors_in(answer))
    assert not any(errors_in(await harness.ask(produce(), 9, connection=user())))
    grant(harness, topic(Op.WRITE)._replace(principal="User:bob"))
    assert TOPIC_FAILED in set(errors_in(await harness.ask(produce(), 9, connection=user())))
    harness.close()


async def test_wire_role_has_no_effect_with_an_authorizer(tmp_path: Path) -> None:
    for role in ("viewer", "admin"):
        harness = Harness(tmp_path / role, AUTHORIZER, f"wire.role={role}")
        grant(harness, topic(Op.CREATE, "mine"))
        topics = CreateTopicsRequest([CreatableTopic("mine", 1, 1), CreatableTopic("theirs", 1, 1)])
        answer = await harness.ask(topics, connection=user())
        assert [each.error_code for each in answer.topics] == [0, TOPIC_FAILED]
        harness.close()


async def test_controllers_are_described_to_those_who_may_alter_the_cluster(guarded: Harness) -> None:
    guarded.services[ClusterServices].endpoints["PLAINTEXT"].is_controller = True
    request = DescribeClusterRequest(endpoint_type=2)
    assert (await guarded.ask(request, connection=user())).error_code == CLUSTER_FAILED
    grant(guarded, cluster(Op.ALTER))
    assert (await guarded.ask(request, connection=user())).error_code == 0


@pytest.mark.parametrize("creates", [True, False])
async def test_the_operations_of_many_topics_are_found_in_slices(guarded: Harness, creates: bool) -> None:
    grant(guarded, topic(Op.DESCRIBE), topic(Op.DESCRIBE, "new"), cluster(Op.CREATE))
    names = ["orders"] * (2 * SLICE) + ["new"] * creates
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics, include_topic_authorized_operations=True)
    asking = await guarded.put(request, connection=user())
    assert asking.pauses == 2 * len(topics) // SLICE, "each topic is looked up and authorized in a step each"
    answer = guarded.answer(asking)
    assert {each.topic_authorized_operations for each in answer.topics} == {1 << Op.DESCRIBE}


@pytest.mark.parametrize(
    ("kind", "topic"),
    [
        (ResourceType.GROUP, "__consumer_offsets"),
        (ResourceType.TRANSACTIONAL_ID, "__transaction_state"),
    ],
)
@pytest.mark.parametrize("version", [3, 4])
async def test_a_search_for_a_coordinator_creates_no_topic_for_denied_keys(
    tmp_path: Path, kind: ResourceType, topic: str, version: int
) -> None:
    harness = Harness(tmp_path, AUTHORIZER)
    key_type = 0 if kind == ResourceType.GROUP else 1
    keys = ["denied", "allowed"] if version >= 4 else []
    denied = await harness.ask(FindCoordinatorRequest("denied", key_type, keys), version, connection=user())
    assert set(errors_in(denied)) & REFUSALS
    assert topic not in harness.control.image.topics
    grant(harness, allow(Operation.DESCRIBE, "allowed", kind=kind))
    found = await harness.ask(FindCoordinatorRequest("allowed", key_type, keys), version, connection=user())
    assert topic in harness.control.image.topics
    nodes = [each.node_id for each in found.coordinators] if version >= 4 else [found.node_id]
    assert nodes == ([-1, 1] if version >= 4 else [1])
    harness.close()
