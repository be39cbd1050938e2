"""ElectLeaders, DescribeQuorum, UpdateFeatures, UnregisterBroker and changes of voters, on a cluster of one
broker.
"""

import errno

import pytest

from broker.api.a18_api_versions import FEATURES, NEVER_FINALIZED
from broker.api.a43_elect_leaders import PREFERRED, UNCLEAN
from broker.api.a57_update_features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
)
from broker.common.errors import ErrorCode
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from broker.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from broker.protocol.messages.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest
from broker.protocol.messages.unregister_broker import UnregisterBrokerRequest
from broker.protocol.messages.unregister_controller import UnregisterControllerRequest
from broker.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.api.harness import WALL_MS, Harness

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("version", "election_type", "offline"),
    [
        (0, PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (2, PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (2, UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
async def test_a_served_partition_needs_no_election(
    harness: Harness, version: int, election_type: int, offline: ErrorCode
) -> None:
    await harness.create_topic("orders", 3)
    log = harness.partitions.log("orders", 1)
    assert log is not None
    log.go_offline(OSError(errno.EIO, "Input/output error"))
    wanted = [TopicPartitions("orders", [0, 1, 3, -1]), TopicPartitions("none", [0])]
    reply = await harness.ask(ElectLeadersRequest(election_type, wanted), version)
    found = [(topic.topic, each.partition_id, each.error_code) for topic in reply.replica_election_results
             for each in topic.partition_result]  # fmt: skip
    assert reply.error_code == 0
    assert found == [
        ("orders", 0, ErrorCode.ELECTION_NOT_NEEDED),
        ("orders", 1, offline),
        ("orders", 3, UNKNOWN),
        ("orders", -1, UNKNOWN),
        ("none", 0, UNKNOWN),
    ]
    everything = await harness.ask(ElectLeadersRequest(election_type, None), version)
    left = {topic.topic: [each.partition_id for each in topic.partition_result]
            for topic in everything.replica_election_results}  # fmt: skip
    assert left == {"orders": [1]}


@pytest.mark.parametrize("election_type", [-1, 2])
async def test_an_unknown_election_is_invalid(harness: Harness, election_type: int) -> None:
    wanted = [TopicPartitions("orders", [0])]
    reply = await harness.ask(ElectLeadersRequest(election_type, wanted), 2)
    (result,) = reply.replica_election_results
    assert reply.error_code == ErrorCode.INVALID_REQUEST
    assert [each.error_code for each in result.partition_result] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_broker_is_the_quorum(harness: Harness, version: int) -> None:
    request = DescribeQuorumRequest([RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])])
    before = await harness.ask(request, version)
    await harness.create_topic("orders")
    reply = await harness.ask(request, version)
    (quorum,) = reply.topics[0].partitions
    (voter,) = quorum.current_voters
    assert (quorum.error_code, quorum.leader_id, quorum.observers) == (0, 1, [])
    assert (voter.replica_id, voter.log_end_offset) == (1, quorum.high_watermark)
    assert (
        quorum.high_watermark == harness.control.image.version > before.topics[0].partitions[0].high_watermark
    )
    if version >= 1:
        assert voter.last_caught_up_timestamp == WALL_MS
    nodes = [(each.node_id, each.listeners[0].host, each.listeners[0].port) for each in reply.nodes]
    assert nodes == ([(1, "broker.example", 9092)] if version >= 2 else [])


@pytest.mark.parametrize(
    "topics",
    [
        [("__cluster_metadata", [1])],
        [("orders", [0])],
        [("__cluster_metadata", [0, 1])],
        [("__cluster_metadata", [0]), ("orders", [0])],
    ],
)
async def test_only_the_metadata_log_has_a_quorum(
    harness: Harness, topics: list[tuple[str, list[int]]]
) -> None:
    wanted = [
        RequestTopicData(name, [RequestPartitionData(index) for index in indexes]) for name, indexes in topics
    ]
    reply = await harness.ask(DescribeQuorumRequest(wanted), 2)
    found = [(topic.topic_name, [(each.partition_index, each.error_code) for each in topic.partitions])
             for topic in reply.topics]  # fmt: skip
    assert found == [(name, [(index, UNKNOWN) for index in indexes]) for name, indexes in topics]


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_feature_has_one_level(harness: Harness, feature: str, version: int) -> None:
    reported = await harness.ask(ApiVersionsRequest("tests", "1"))
    finalized = {each.name: each.max_version_level for each in reported.finalized_features}
    level = finalized[feature]
    for wanted in (level - 1, level, level + 1):
        reply = await harness.ask(
            UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature, wanted)]), version
        )
        assert reply.error_code == (0 if wanted == level else ErrorCode.INVALID_UPDATE_VERSION)
        named = [(each.feature, each.error_code) for each in reply.results]
        assert named == ([(feature, 0)] if wanted == level and version < 2 else [])


UNKNOWN_TYPE = "The controller does not support the given upgrade type."
NEGATIVE = "A feature version cannot be less than 0."
NO_UPGRADE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
    "downgrade."
)


@pytest.mark.parametrize(
    ("feature", "level", "how", "reason"),
    [
        ("group.version", 1, 0, UNKNOWN_TYPE),
        ("group.version", 1, UNSAFE_DOWNGRADE + 1, UNKNOWN_TYPE),
        ("group.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        ("group.version", -1, UPGRADE, NEGATIVE),
        ("metadata.version", 6, SAFE_DOWNGRADE, "Local controller 1 only supports versions 7-33"),
        ("metadata.version", 34, UPGRADE, "Local controller 1 only supports versions 7-33"),
        ("metadata.version", 32, UPGRADE, NO_UPGRADE),
        ("group.version", 0, SAFE_DOWNGRADE, "This broker has only version 1."),
        ("group.version", 0, UNSAFE_DOWNGRADE, "This broker has only version 1."),
        ("kraft.version", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("no.such.version", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("no.such.version", 0, UPGRADE, "Feature no.such.version not found."),
        ("no.such.version", -1, UPGRADE, NEGATIVE),
    ],
)
async def test_a_refused_level_has_kafkas_reason(
    harness: Harness, feature: str, level: int, how: int, reason: str
) -> None:
    update = FeatureUpdateKey(feature, level, upgrade_type=how)
    reply = await harness.ask(UpdateFeaturesRequest(feature_updates=[update]), 1)
    assert (reply.error_code, reply.error_message) == (
        ErrorCode.INVALID_UPDATE_VERSION,
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {level} for feature {feature}. {reason}",
    )


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (
            SAFE_DOWNGRADE,
            "Refusing to perform the requested downgrade because it might delete metadata information.",
        ),
        (UNSAFE_DOWNGRADE, "Unsafe metadata downgrade is not supported in this version."),
    ],
)
async def test_a_metadata_version_with_other_metadata_is_refused_as_such(
    harness: Harness, how: int, reason: str
) -> None:
    level = FEATURES["metadata.version"].level
    for lower in (FEATURES["metadata.version"].least, level - 1):
        update = FeatureUpdateKey("metadata.version", lower, upgrade_type=how)
        reply = await harness.ask(UpdateFeaturesRequest(feature_updates=[update]), 2)
        assert reply.error_code == ErrorCode.INVALID_UPDATE_VERSION
        why = f": Unsupported metadata.version downgrade from {level} to {lower}. {reason}"
        assert reply.error_message.endswith(why)


@pytest.mark.parametrize("feature", sorted(NEVER_FINALIZED))
async def test_a_feature_that_only_kafka_has_is_at_level_0(harness: Harness, feature: str) -> None:
    update = FeatureUpdateKey(feature, 0, upgrade_type=UNSAFE_DOWNGRADE)
    reply = await harness.ask(UpdateFeaturesRequest(feature_updates=[update]), 1)
    assert reply.error_code == 0


async def test_version_0_cannot_downgrade(harness: Harness) -> None:
    update = FeatureUpdateKey("group.version", 0, allow_downgrade=True)
    reply = await harness.ask(UpdateFeaturesRequest(feature_updates=[update]), 0)
    assert reply.error_message.endswith(NO_UPGRADE)


async def test_unknown_features_are_refused_and_of_repeated_ones_the_last_update_counts(
    harness: Harness,
) -> None:
    known = FeatureUpdateKey("transaction.version", FEATURES["transaction.version"].level)
    lower = FeatureUpdateKey("transaction.version", known.max_version_level - 1)
    updates = [known, FeatureUpdateKey("no.such.version", 20), known]
    for version in (0, 1, 2):
        reply = await harness.ask(UpdateFeaturesRequest(feature_updates=updates), version)
        assert (reply.error_code, reply.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
        assert "no.such.version" in reply.error_message
    twice = await harness.ask(UpdateFeaturesRequest(feature_updates=[lower, known]), 1)
    assert (twice.error_code, [each.error_code for each in twice.results]) == (0, [0, 0])
    other = await harness.ask(UpdateFeaturesRequest(feature_updates=[known, lower]), 1)
    assert (other.error_code, other.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])


@pytest.mark.parametrize(
    ("broker", "error"), [(0, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, ErrorCode.INVALID_REQUEST),
                          (2, ErrorCode.BROKER_ID_NOT_REGISTERED)]
)  # fmt: skip
async def test_no_broker_can_be_removed(harness: Harness, broker: int, error: ErrorCode) -> None:
    reply = await harness.ask(UnregisterBrokerRequest(broker))
    assert reply.error_code == error
    assert str(broker) in reply.error_message


@pytest.mark.parametrize(
    ("controller", "error", "why"),
    [
        (0, ErrorCode.CONTROLLER_ID_NOT_REGISTERED, "Controller ID 0 is not currently registered."),
        (1, ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."),
        (-1, ErrorCode.CONTROLLER_ID_NOT_REGISTERED, "Controller ID -1 is not currently registered."),
    ],
)
async def test_no_controller_can_be_removed(
    harness: Harness, controller: int, error: ErrorCode, why: str
) -> None:
    reply = await harness.ask(UnregisterControllerRequest(controller))
    assert (reply.error_code, reply.error_message) == (error, why)


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("ours", 1, ErrorCode.NONE),
        ("ours", 0, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("ours", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("x" * 32_000, 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        (None, 1, ErrorCode.INVALID_REQUEST),
        (None, -2, ErrorCode.INVALID_REQUEST),
        ("ours", -1, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_client_is_told_to_look_elsewhere_unless_it_means_this_broker(
    harness: Harness, cluster_id: str | None, node_id: int, error: ErrorCode
) -> None:
    stated = harness.control.image.cluster_id if cluster_id == "ours" else cluster_id
    reply = await harness.ask(ApiVersionsRequest("tests", "1", stated, node_id))
    assert reply.error_code == error
    assert bool(reply.api_keys) == bool(reply.finalized_features) == (not error)
    older = await harness.ask(ApiVersionsRequest("tests", "1", stated, node_id), 4)
    assert older.error_code == ErrorCode.NONE


VOTER = bytes(15) + b"\1"


@pytest.mark.parametrize(("change", "ending"), [("Add", "adding"), ("Remove", "removing")])
async def test_the_voters_stay(harness: Harness, change: str, ending: str) -> None:
    ours = harness.control.image.cluster_id

    async def refusal(cluster_id: str | None, voter_id: int, directory: bytes) -> tuple[int, str | None]:
        request = (
            AddRaftVoterRequest(cluster_id, 1_000, voter_id, directory)
            if change == "Add"
            else RemoveRaftVoterRequest(cluster_id, voter_id, directory)
        )
        replies = [await harness.ask(request, version) for version in ((0, 1) if change == "Add" else (0,))]
        (found,) = {(reply.error_code, reply.error_message) for reply in replies}
        return found

    unsupported = f"Cluster doesn't support {ending} voter because the kraft.version feature is 0"
    for cluster_id in (None, ours):
        assert await refusal(cluster_id, 0, VOTER) == (ErrorCode.UNSUPPORTED_VERSION, unsupported)
    for voter in ((-1, VOTER), (2, bytes(16))):
        assert await refusal(ours, *voter) == (
            ErrorCode.INVALID_REQUEST,
            f"{change} voter request didn't include a valid voter",
        )
    assert await refusal("x" * 65, 2, VOTER) == (
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        f'The given id "{"x" * 64}" doesn\'t match the cluster id "{ours}"',
    )
