"""Error responses of failed handlers, for every API and version, with every requested item."""

from typing import Any

import pytest

from broker.api.registry import load
from broker.api.requests.error_responses import error_response
from broker.common.errors import ErrorCode
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.error_codes import error_codes
from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    RequestEntryData,
)
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.support.random_messages import RandomMessages

FAILED = ErrorCode.UNKNOWN_SERVER_ERROR
TELLS_NOTHING = {
    (ApiKey.DESCRIBE_LOG_DIRS, 1),
    (ApiKey.DESCRIBE_LOG_DIRS, 2),
}
"""Requests that name no item of their response, whose response has no error code in that version."""

EVERY = [(api.key, version) for api in load() for version in range(api.min_version, api.max_version + 1)]


def on_the_wire(key: ApiKey, version: int, request: Any) -> Any:
    """Return the error response as a client decodes it."""
    reply = error_response(key, version, request, FAILED)
    assert reply is not None
    frame = b"".join(codec.encode_response(key, version)(reply, 7))  # type: ignore[arg-type]
    header = 5 if frame[8:9] == b"\0" and _is_flexible(key, version) else 4
    return codec.decode_response(key, version)(frame, 4 + header)


def _is_flexible(key: ApiKey, version: int) -> bool:
    flexible = codec.response_class(key).FLEXIBLE
    return key is not ApiKey.API_VERSIONS and flexible is not None and version >= flexible


@pytest.mark.rotates
@pytest.mark.parametrize(("key", "version"), EVERY, ids=lambda value: getattr(value, "name", str(value)))
def test_every_api_has_an_error_response_in_every_version(key: ApiKey, version: int) -> None:
    messages = RandomMessages(seed=key * 100 + version)
    reported = 0
    for _ in range(40):
        request = messages.request(key, version)
        if key is ApiKey.PRODUCE:
            request.acks = 1  # type: ignore[attr-defined]
        reply = error_response(key, version, request, FAILED)
        if reply is None:
            continue
        codec.encode_response(key, version)(reply, 1)
        codes = error_codes(key, version)(reply)
        assert codes and set(codes) == {FAILED}
        reported += 1
    assert bool(reported) is ((key, version) not in TELLS_NOTHING)


@pytest.mark.rotates
@pytest.mark.parametrize(("key", "version"), EVERY, ids=lambda value: getattr(value, "name", str(value)))
def test_without_its_request_only_a_response_with_a_code_of_its_own_is_made(
    key: ApiKey, version: int
) -> None:
    reply = error_response(key, version, None, FAILED)
    if reply is not None:
        assert on_the_wire(key, version, None).error_code == FAILED


@pytest.mark.parametrize("version", [3, 8, 12, 13])
def test_produce_repeats_each_topic_and_partition(version: int) -> None:
    topic_id = bytes(range(16))
    data = [TopicProduceData("a", topic_id, [PartitionProduceData(3, b""), PartitionProduceData(0, b"")])]
    answer = on_the_wire(ApiKey.PRODUCE, version, ProduceRequest(acks=-1, topic_data=data))
    (topic,) = answer.responses
    assert topic.topic_id == topic_id if version >= 13 else topic.name == "a"
    assert [(p.index, p.error_code, p.base_offset) for p in topic.partition_responses] == [
        (3, FAILED, 0),
        (0, FAILED, 0),
    ]


def test_produce_without_acknowledgement_has_no_response() -> None:
    assert error_response(ApiKey.PRODUCE, 9, ProduceRequest(acks=0), FAILED) is None


def test_a_fetch_before_sessions_repeats_its_partitions_with_empty_records() -> None:
    topics = [FetchTopic("a", partitions=[FetchPartition(4)])]
    answer = on_the_wire(ApiKey.FETCH, 4, FetchRequest(topics=topics))
    (partition,) = answer.responses[0].partitions
    assert (partition.partition_index, partition.error_code, bytes(partition.records)) == (4, FAILED, b"")


def test_metadata_repeats_topics_and_of_all_topics_nothing_is_known() -> None:
    request = MetadataRequest([MetadataRequestTopic(name="a"), MetadataRequestTopic(name="b")])
    answer = on_the_wire(ApiKey.METADATA, 12, request)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("a", FAILED), ("b", FAILED)]
    assert error_response(ApiKey.METADATA, 12, MetadataRequest(None), FAILED) is None


@pytest.mark.parametrize(
    ("version", "request_message"),
    [
        (3, DeleteTopicsRequest(topic_names=["a", "b"])),
        (6, DeleteTopicsRequest(topics=[DeleteTopicState("a"), DeleteTopicState("b")])),
    ],
)
def test_delete_topics_repeats_names_in_both_forms(version: int, request_message: Any) -> None:
    answer = on_the_wire(ApiKey.DELETE_TOPICS, version, request_message)
    assert [(each.name, each.error_code) for each in answer.responses] == [("a", FAILED), ("b", FAILED)]


def test_describe_groups_has_one_entry_for_each_group_asked() -> None:
    answer = on_the_wire(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(["g1", "g2"]))
    assert [(each.group_id, each.error_code) for each in answer.groups] == [("g1", FAILED), ("g2", FAILED)]


def test_offset_fetch_of_several_groups_repeats_each() -> None:
    groups = [
        OffsetFetchRequestGroup(name, topics=[OffsetFetchRequestTopics("a", partition_indexes=[1, 2])])
        for name in ("g1", "g2")
    ]
    answer = on_the_wire(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=groups))
    assert [(each.group_id, each.error_code) for each in answer.groups] == [("g1", FAILED), ("g2", FAILED)]
    (topic,) = answer.groups[0].topics
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [(1, FAILED), (2, FAILED)]


def test_alter_client_quotas_echoes_each_entity() -> None:
    entity = [EntityData("user", "alice"), EntityData("client-id", None)]
    answer = on_the_wire(
        ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest([RequestEntryData(entity, [])])
    )
    (entry,) = answer.entries
    assert entry.error_code == FAILED
    assert [(each.entity_type, each.entity_name) for each in entry.entity] == [
        ("user", "alice"),
        ("client-id", None),
    ]


def test_alter_replica_log_dirs_repeats_what_lies_below_directories() -> None:
    dirs = [AlterReplicaLogDir("/a", [AlterReplicaLogDirTopic("t", [0, 2])])]
    answer = on_the_wire(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, AlterReplicaLogDirsRequest(dirs))
    (topic,) = answer.results
    assert topic.topic_name == "t"
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [(0, FAILED), (2, FAILED)]


def test_alter_user_scram_credentials_names_each_user_once() -> None:
    request = AlterUserScramCredentialsRequest(
        [ScramCredentialDeletion("a", 1)],
        [
            ScramCredentialUpsertion("b", 1, 4096, b"s", b"p"),
            ScramCredentialUpsertion("a", 2, 4096, b"", b""),
        ],
    )
    answer = on_the_wire(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    assert [(each.user, each.error_code) for each in answer.results] == [("a", FAILED), ("b", FAILED)]
