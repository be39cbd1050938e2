"""The versions that kio does not know, byte for byte against the messages of Kafka 4.4.0's own client."""

from typing import Any

import pytest

from broker.protocol import derive, newer
from broker.protocol.codec import (
    decode_request,
    decode_response,
    known_versions,
    request_class,
)
from broker.protocol.compile_encode import compile_body_encoder
from broker.protocol.messages import (
    streams_group_heartbeat,
)
from broker.protocol.messages import (
    streams_group_topology_description_update as description_update,
)
from broker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from broker.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from broker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from broker.protocol.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)

SOURCE = TopologyDescriptionNode("n", 1, ["t"], stores=["s"], successors=["u"])
TOPIC_ID = bytes(range(1, 17))

MESSAGES: list[tuple[Any, int, str]] = [
    (ApiVersionsRequest("kio", "1", "abc", 7), 5, "046b696f0231046162630000000700"),
    (ApiVersionsRequest("kio", "1"), 5, "046b696f023100ffffffff00"),
    (ApiVersionsResponse(129, throttle_time_ms=3), 5, "0081010000000300"),
    (
        TxnOffsetCommitRequest(
            "t",
            "g",
            9,
            1,
            5,
            "m",
            topics=[
                TxnOffsetCommitRequestTopic(
                    topic_id=TOPIC_ID, partitions=[TxnOffsetCommitRequestPartition(2, 40, 1, "m")]
                )
            ],
        ),
        6,
        "027402670000000000000009000100000005026d0002"
        "0102030405060708090a0b0c0d0e0f100200000002000000000000002800000001026d000000",
    ),
    (
        TxnOffsetCommitResponse(
            3,
            [
                TxnOffsetCommitResponseTopic(
                    topic_id=TOPIC_ID, partitions=[TxnOffsetCommitResponsePartition(2, 100)]
                )
            ],
        ),
        6,
        "00000003020102030405060708090a0b0c0d0e0f1002000000020064000000",
    ),
    (DeleteGroupsRequest(["g"]), 3, "02026700"),
    (
        DeleteGroupsResponse(3, [DeletableGroupResult("g", 68, "why"), DeletableGroupResult("h")]),
        3,
        "000000030302670044047768790002680000000000",
    ),
    (
        streams_group_heartbeat.StreamsGroupHeartbeatRequest(
            "g",
            "m",
            3,
            2,
            process_id="p",
            user_endpoint=streams_group_heartbeat.Endpoint("h", 65_000),
            active_tasks=[streams_group_heartbeat.TaskIds("0", [1])],
        ),
        1,
        "0267026d00000003000000020000ffffffffff02023002000000010000000270010268fde8000000000000",
    ),
    (
        streams_group_heartbeat.StreamsGroupHeartbeatResponse(
            3,
            0,
            None,
            "m",
            4,
            5,
            task_offset_interval_ms=6,
            acceptable_recovery_lag=7,
            status=[streams_group_heartbeat.Status(6, "s")],
            topology_description_required=True,
            endpoint_information_epoch=8,
        ),
        1,
        "00000003000000026d0000000400000005000000060000000000000007020602730000000001000000080000",
    ),
    (StreamsGroupDescribeRequest(["g"], False, True), 1, "020267000100"),
    (
        StreamsGroupDescribeResponse(
            3,
            [
                DescribedGroup(
                    group_id="g",
                    group_state="Stable",
                    group_epoch=1,
                    assignment_epoch=2,
                    topology_description=TopologyDescription(
                        [TopologyDescriptionSubtopology("0", [SOURCE])],
                        [TopologyDescriptionGlobalStore(SOURCE, TopologyDescriptionNode("o", 3, [], "k"))],
                    ),
                    topology_description_status=3,
                    assignor_name="a",
                )
            ],
        ),
        1,
        "0000000302000000026707537461626c650000000100000002ff01800000000102023002026e010202740002027302"
        "0275000002026e010202740002027302027500026f0301026b01010000000302610000",
    ),
    (
        description_update.StreamsGroupTopologyDescriptionUpdateRequest(
            "g",
            "m",
            2,
            description_update.TopologyDescription(
                [
                    description_update.TopologyDescriptionSubtopology(
                        "0", [description_update.TopologyDescriptionNode("n", 1, ["t"])]
                    )
                ]
            ),
        ),
        0,
        "0267026d0000000202023002026e010202740001010000010000",
    ),
    (
        description_update.StreamsGroupTopologyDescriptionUpdateResponse(3, 35, "why"),
        0,
        "0000000300230477687900",
    ),
    (UnregisterControllerRequest(7), 0, "0000000700"),
    (UnregisterControllerResponse(3, 42, "why"), 0, "00000003002a0477687900"),
]


@pytest.mark.parametrize(("message", "version", "expected"), MESSAGES)
def test_bytes_are_those_of_kafka(message: Any, version: int, expected: str) -> None:
    body = bytes.fromhex(expected)
    parts = compile_body_encoder(type(message), version)(message)
    assert b"".join(bytes(part) for part in parts) == body  # type: ignore[arg-type]
    is_request = type(message) is request_class(message.API_KEY)
    decode = (decode_request if is_request else decode_response)(message.API_KEY, version)
    assert decode(body, 0) == message


def test_every_message_of_every_newer_version_is_compared() -> None:
    compared = {(type(message).__name__, version) for message, version, _ in MESSAGES}
    wanted = [(derive.KEYS[name], version) for name, (version, _) in newer.VERSIONS.items()]
    wanted += [(key, 0) for key in newer.APIS]
    for key, version in wanted:
        name = request_class(key).__name__.removesuffix("Request")
        assert known_versions(key)[1] == version
        assert {(f"{name}Request", version), (f"{name}Response", version)} <= compared


def test_a_version_that_kio_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newer, "VERSIONS", {"delete_groups": (2, newer.VERSIONS["delete_groups"][1])})
    with pytest.raises(ValueError, match="delete_groups: kio has versions up to 2"):
        derive.derive()
