"""Responses with only errors, and the resources that failed."""

import pytest

from broker.api.requests.retry_storm import errors_of
from broker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from broker.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse
from broker.protocol.messages.fetch import PartitionData as FetchPartition
from broker.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from broker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from broker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from broker.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from broker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from broker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from broker.quotas.retry_storm import TRANSIENT

TOPIC_ID = bytes(range(16))
ONE_TOPIC = MetadataRequest([MetadataRequestTopic(name="t")])


def produce(*codes):
    parts = [PartitionProduceResponse(index, code) for index, code in enumerate(codes)]
    return ProduceRequest(), ProduceResponse([TopicProduceResponse("t", partition_responses=parts)])


def fetch(*codes, top=0, name="t"):
    parts = [FetchPartition(index, code) for index, code in enumerate(codes)]
    topics = [FetchableTopicResponse(name, TOPIC_ID, parts)]
    return FetchRequest(), FetchResponse(error_code=top, responses=topics)


def list_offsets(*parts):
    answers = [
        ListOffsetsPartitionResponse(index, code, -1, offset) for index, (code, offset) in enumerate(parts)
    ]
    return ListOffsetsRequest(), ListOffsetsResponse(0, [ListOffsetsTopicResponse("t", answers)])


def epochs(*parts):
    answers = [EpochEndOffset(code, index, -1, end) for index, (code, end) in enumerate(parts)]
    return OffsetForLeaderEpochRequest(), OffsetForLeaderEpochResponse(
        0, [OffsetForLeaderTopicResult("t", answers)]
    )


def metadata(request, *topics):
    rows = [MetadataResponseTopic(code, name, TOPIC_ID, partitions=parts) for code, name, parts in topics]
    return request, MetadataResponse(brokers=[MetadataResponseBroker(1, "h", 1, None)], topics=rows)


def described(*codes):
    rows = [DescribeTopicPartitionsResponseTopic(code, f"t{index}") for index, code in enumerate(codes)]
    return DescribeTopicPartitionsRequest(), DescribeTopicPartitionsResponse(0, rows)


def coordinators(*codes, kind=0):
    rows = [Coordinator(f"g{index}", error_code=code) for index, code in enumerate(codes)]
    return FindCoordinatorRequest(key_type=kind), FindCoordinatorResponse(coordinators=rows)


def committed(*codes):
    parts = [OffsetCommitResponsePartition(index, code) for index, code in enumerate(codes)]
    return OffsetCommitRequest(group_id="g"), OffsetCommitResponse(
        0, [OffsetCommitResponseTopic("t", partitions=parts)]
    )


def left(top, *codes):
    return LeaveGroupRequest(group_id="g"), LeaveGroupResponse(
        0, top, [MemberResponse(error_code=code) for code in codes]
    )


GOOD = MetadataResponsePartition(0, 0, 1)
LEADERLESS = MetadataResponsePartition(5, 0, -1)


@pytest.mark.parametrize(
    ("exchange", "errors"),
    [
        (produce(3, 3), [("t-0", 3), ("t-1", 3)]),
        (produce(3, 0), []),
        (produce(), []),
        (fetch(3), [("t-0", 3)]),
        (fetch(3, name=""), [(f"{TOPIC_ID.hex()}-0", 3)]),
        (fetch(0, 3), []),
        (fetch(top=70), [("", 70)]),
        (fetch(), []),
        (list_offsets((3, -1)), [("t-0", 3)]),
        (list_offsets((3, -1), (0, 7)), []),
        (list_offsets((3, -1), (0, -1)), [("t-0", 3)]),
        (epochs((3, -1)), [("t-0", 3)]),
        (epochs((3, -1), (0, 9)), []),
        (epochs((3, -1), (0, -1)), [("t-0", 3)]),
        (metadata(ONE_TOPIC, (3, "t", [])), [("t", 3)]),
        (metadata(ONE_TOPIC, (3, None, [])), [(TOPIC_ID.hex(), 3)]),
        (metadata(ONE_TOPIC, (0, "t", [LEADERLESS])), [("t-0", 5)]),
        (metadata(ONE_TOPIC, (0, "t", [GOOD])), []),
        (metadata(ONE_TOPIC, (3, "t", []), (0, "u", [GOOD])), []),
        (metadata(MetadataRequest(None), (3, "t", [])), []),
        (described(3, 3), [("t0", 3), ("t1", 3)]),
        (coordinators(15, 15), [("group-g0", 15), ("group-g1", 15)]),
        (coordinators(15, kind=1), [("transaction-g0", 15)]),
        (coordinators(15, 0), []),
        ((FindCoordinatorRequest("g"), FindCoordinatorResponse(error_code=15)), [("group-g", 15)]),
        ((FindCoordinatorRequest("g"), FindCoordinatorResponse()), []),
        ((JoinGroupRequest(group_id="g"), JoinGroupResponse(error_code=16)), [("group-g", 16)]),
        ((JoinGroupRequest(group_id="g"), JoinGroupResponse()), []),
        ((SyncGroupRequest(group_id="g"), SyncGroupResponse(error_code=16)), [("group-g", 16)]),
        (left(16), [("group-g", 16)]),
        (left(0, 25, 25), [("group-g", 25), ("group-g", 25)]),
        (left(0, 25, 0), []),
        (left(0), []),
        (committed(16, 16), [("group-g", 16), ("group-g", 16)]),
        (committed(16, 0), []),
        (
            (
                OffsetFetchRequest(),
                OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", error_code=16)]),
            ),
            [("group-g", 16)],
        ),
        ((OffsetFetchRequest(group_id="g"), OffsetFetchResponse(error_code=16)), [("group-g", 16)]),
        ((OffsetFetchRequest(group_id="g"), OffsetFetchResponse()), []),
        ((InitProducerIdRequest("x"), InitProducerIdResponse(0, 16)), [("transaction-x", 16)]),
        ((InitProducerIdRequest(None, producer_id=7), InitProducerIdResponse(0, 16)), [("producer-7", 16)]),
        ((InitProducerIdRequest(), InitProducerIdResponse()), []),
    ],
)
def test_errors_of_a_response_are_collected(exchange, errors):
    message, reply = exchange
    assert errors_of(message.API_KEY, message, reply) == errors


def test_a_repeated_produce_needs_no_message():
    _, reply = produce(56)
    assert errors_of(0, None, reply) == [("t-0", 56)]


def test_every_api_of_the_policy_has_a_reader():
    from broker.api.requests import retry_storm

    assert set(retry_storm._READERS) == set(TRANSIENT)
