"""Every API that changes state, called by a client of each role; the tables name every API."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.api.security.client_security import ACCESS, Use
from broker.common.errors import ErrorCode
from broker.metadata.actor import Role
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker.protocol.messages.alter_configs import AlterableConfig as WholeConfig
from broker.protocol.messages.alter_configs import AlterConfigsRequest
from broker.protocol.messages.alter_configs import AlterConfigsResource as WholeResource
from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from broker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
)
from broker.protocol.messages.delete_share_group_state import PartitionData as DeletedPartition
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from broker.protocol.messages.initialize_share_group_state import PartitionData as InitializedPartition
from broker.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from broker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from broker.protocol.messages.partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from broker.protocol.messages.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest
from broker.protocol.messages.read_share_group_state import PartitionData as ReadPartition
from broker.protocol.messages.read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from broker.protocol.messages.read_share_group_state_summary import PartitionData as SummarizedPartition
from broker.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from broker.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from broker.protocol.messages.share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from broker.protocol.messages.unregister_broker import UnregisterBrokerRequest
from broker.protocol.messages.unregister_controller import UnregisterControllerRequest
from broker.protocol.messages.update_features import UpdateFeaturesRequest
from broker.protocol.messages.write_share_group_state import PartitionData as WrittenPartition
from broker.protocol.messages.write_share_group_state import WriteShareGroupStateRequest, WriteStateData
from broker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from broker.protocol.schema import Message, Struct
from tests.api.harness import Connection, Harness

TOPIC, BROKER, METRICS = 2, 4, 16
REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


def configs(kind: int, name: str, key: str, value: str) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        [AlterConfigsResource(kind, name, [AlterableConfig(key, 0, value)])]
    )


def whole_configs(kind: int, name: str, key: str, value: str) -> AlterConfigsRequest:
    return AlterConfigsRequest([WholeResource(kind, name, [WholeConfig(key, value)])])


def replica_fetch() -> FetchRequest:
    wanted = [FetchTopic("orders", partitions=[FetchPartition(0, partition_max_bytes=100)])]
    return FetchRequest(replica_id=2, replica_state=ReplicaState(2), session_epoch=-1, topics=wanted)


def share_states() -> dict[str, Message]:
    """Requests to the share coordinator, about a topic that does not exist."""
    topic_id = bytes(range(16))
    return {
        "initialized": InitializeShareGroupStateRequest(
            "readers", [InitializeStateData(topic_id, [InitializedPartition(0, 0, 0)])]
        ),
        "read": ReadShareGroupStateRequest("readers", [ReadStateData(topic_id, [ReadPartition(0)])]),
        "written": WriteShareGroupStateRequest("readers", [WriteStateData(topic_id, [WrittenPartition(0)])]),
        "deleted": DeleteShareGroupStateRequest(
            "readers", [DeleteStateData(topic_id, [DeletedPartition(0)])]
        ),
        "summarized": ReadShareGroupStateSummaryRequest(
            "readers", [ReadStateSummaryData(topic_id, [SummarizedPartition(0)])]
        ),
    }


NEEDS: dict[str, tuple[Role, Message, int | None]] = {
    "quotas": (
        Role.EDITOR,
        AlterClientQuotasRequest(
            [RequestEntryData([EntityData("user", "a")], [OpData("producer_byte_rate", 5.0)])]
        ),
        None,
    ),
    "topics made": (Role.EDITOR, CreateTopicsRequest([CreatableTopic("new", 1, 1)]), None),
    "topics deleted": (Role.ADMIN, DeleteTopicsRequest(topics=[DeleteTopicState("orders")]), None),
    "partitions": (Role.EDITOR, CreatePartitionsRequest([CreatePartitionsTopic("orders", 2)]), None),
    "topic settings": (Role.EDITOR, configs(TOPIC, "orders", "retention.ms", "5"), None),
    "broker settings": (Role.ADMIN, configs(BROKER, "1", "num.io.threads", "9"), None),
    "subscriptions": (Role.EDITOR, configs(METRICS, "all", "interval.ms", "60000"), None),
    "topic settings replaced": (Role.EDITOR, whole_configs(TOPIC, "orders", "retention.ms", "5"), None),
    "broker settings replaced": (Role.ADMIN, whole_configs(BROKER, "1", "num.io.threads", "9"), None),
    "records deleted": (
        Role.ADMIN,
        DeleteRecordsRequest([DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 0)])]),
        None,
    ),
    "logs moved": (
        Role.ADMIN,
        AlterReplicaLogDirsRequest([AlterReplicaLogDir("/", [AlterReplicaLogDirTopic("orders", [0])])]),
        None,
    ),
    "reassignments": (
        Role.ADMIN,
        AlterPartitionReassignmentsRequest(
            60_000, True, [ReassignableTopic("orders", [ReassignablePartition(0, [1])])]
        ),
        None,
    ),
    "passwords": (
        Role.ADMIN,
        AlterUserScramCredentialsRequest(
            upsertions=[ScramCredentialUpsertion("alice", 1, 4096, b"salt" * 4, b"x" * 32)]
        ),
        None,
    ),
    "groups deleted": (Role.EDITOR, DeleteGroupsRequest(["readers"]), None),
    "offsets deleted": (
        Role.EDITOR,
        OffsetDeleteRequest(
            "readers", [OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(0)])]
        ),
        None,
    ),
    "offsets of share groups deleted": (
        Role.EDITOR,
        DeleteShareGroupOffsetsRequest("readers", [DeleteShareGroupOffsetsRequestTopic("orders")]),
        None,
    ),
    "partitions of transactions": (
        Role.ADMIN,
        AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction("t", 1, 0, True, [AddPartitionsToTxnTopic("orders", [0])])
            ]
        ),
        None,
    ),
    "markers": (
        Role.ADMIN,
        WriteTxnMarkersRequest([WritableTxnMarker(1, 0, False, [WritableTxnMarkerTopic("orders", [0])], 0)]),
        None,
    ),
    "fetched as a replica": (Role.ADMIN, replica_fetch(), 12),
    **{f"share states {what}": (Role.ADMIN, message, None) for what, message in share_states().items()},
    "elections": (Role.ADMIN, ElectLeadersRequest(topic_partitions=[TopicPartitions("orders", [0])]), None),
    "features": (Role.ADMIN, UpdateFeaturesRequest(), None),
    "brokers removed": (Role.ADMIN, UnregisterBrokerRequest(7), None),
    "controllers removed": (Role.ADMIN, UnregisterControllerRequest(7), None),
    "voters added": (Role.ADMIN, AddRaftVoterRequest(), None),
    "voters removed": (Role.ADMIN, RemoveRaftVoterRequest(), None),
}


def errors_in(struct: object) -> Iterator[int]:
    """Yield every error code of a response, at any depth."""
    if isinstance(struct, list):
        for each in struct:
            yield from errors_in(each)
    elif isinstance(struct, Struct):
        for field in type(struct).FIELDS:
            value = getattr(struct, field.name)
            if field.name in ("error_code", "partition_error_code"):
                yield value
            else:
                yield from errors_in(value)


@pytest.mark.rotates
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("what", NEEDS)
async def test_a_client_changes_what_its_role_may_and_nothing_else(
    tmp_path: Path, what: str, role: Role
) -> None:
    needed, message, version = NEEDS[what]
    harness = Harness(tmp_path, f"wire.role={role.name.lower()}", "super.users=User:ops")
    topic = CreateTopicsRequest([CreatableTopic("orders", 1, 1)])
    assert set(errors_in(await harness.ask(topic, connection=operator()))) == {ErrorCode.NONE}
    before = harness.control.image
    refused = REFUSALS & set(errors_in(await harness.ask(message, version)))
    assert bool(refused) == (role < needed)
    if refused:
        assert harness.control.image is before
        # A user in super.users may, even if the others may not.
        again = await harness.ask(message, version, connection=operator())
        assert not REFUSALS & set(errors_in(again))
    harness.close()


def operator() -> Connection:
    connection = Connection()
    connection.principal = "ops"
    return connection


BY_ACLS = {ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS}
"""The APIs of ACLs, which no role allows without an authorizer."""


async def test_every_api_has_its_access_and_nothing_else_has(harness: Harness) -> None:
    """A new API is for nobody until the table has it, and its test is above."""
    assert {entry.key for entry in harness.registry} == ACCESS.keys()


def test_what_needs_a_role_is_tried_with_each_role() -> None:
    tried: dict[int, Role] = {}
    for needed, message, _ in NEEDS.values():
        assert message.API_KEY is not None
        tried[message.API_KEY] = min(needed, tried.get(message.API_KEY, needed))
    by_content = {ApiKey.FETCH, ApiKey.ADD_PARTITIONS_TO_TXN}
    needs = {key: access.role for key, access in ACCESS.items() if access.role > Role.VIEWER}
    assert needs.keys() - BY_ACLS == tried.keys() - by_content
    assert all(tried[key] == role for key, role in needs.items() if key not in BY_ACLS)


def test_an_api_needs_a_role_if_it_changes_something_or_is_for_brokers() -> None:
    above_viewer = {key for key, access in ACCESS.items() if access.role > Role.VIEWER}
    assert above_viewer == {key for key, access in ACCESS.items() if access.use in (Use.CHANGES, Use.BROKERS)}


@pytest.mark.parametrize(("version", "role"), [(3, Role.VIEWER), (4, Role.ADMIN), (5, Role.ADMIN)])
def test_transactions_of_many_producers_are_for_brokers(version: int, role: Role) -> None:
    assert ACCESS[ApiKey.ADD_PARTITIONS_TO_TXN].role_in(version) == role


@pytest.mark.parametrize(
    ("listener", "allowed"),
    [
        ("PLAINTEXT://127.0.0.1:9092", True),
        ("PLAINTEXT://0.0.0.0:9092", False),
        ("SSL://127.0.0.1:9092", False),
        ("SASL_PLAINTEXT://127.0.0.1:9092", False),
    ],
)
async def test_by_default_only_local_clients_without_a_login_administer(
    tmp_path: Path, listener: str, allowed: bool
) -> None:
    name = listener.partition(":")[0]
    harness = Harness(
        tmp_path,
        f"listeners={listener}",
        f"advertised.listeners={name}://broker.example:9092",
        "super.users=User:ops",
    )
    request = CreateTopicsRequest([CreatableTopic("orders", 1, 1)])
    refused = set(errors_in(await harness.ask(request, connection=Connection(name)))) & REFUSALS
    assert not refused if allowed else refused == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    named = operator()
    named.listener = name
    again = CreateTopicsRequest([CreatableTopic("others", 1, 1)])
    assert set(errors_in(await harness.ask(again, connection=named))) == {ErrorCode.NONE}
    harness.close()


async def test_each_listener_has_its_own_role(tmp_path: Path) -> None:
    listeners = "listeners=PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093"
    harness = Harness(tmp_path, listeners)
    for number, (name, refused) in enumerate((("PLAINTEXT", False), ("SASL_PLAINTEXT", True))):
        request = CreateTopicsRequest([CreatableTopic(f"orders-{number}", 1, 1)])
        answer = await harness.ask(request, connection=Connection(name))
        assert bool(set(errors_in(answer)) & REFUSALS) is refused, name
    harness.close()
