"""No response that the gateway forwards has an address of an upstream broker."""

import random

import pytest

from broker.common.errors import ErrorCode, ProtocolViolation
from broker.config.listeners import Address
from broker.gateway.api_versions import INTERNAL, is_allowed
from broker.gateway.kept_responses import KEPT_RESPONSES, KeptResponses
from broker.gateway.responses import plain_ending, rewriter
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from broker.protocol.messages.describe_quorum import DescribeQuorumResponse, Listener, Node
from broker.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from broker.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.gateway.frames import (
    CORRELATION_ID,
    EVERY,
    UPSTREAM,
    even_nodes,
    frame_of,
    nodes_in,
    read,
    upstream_only,
    versions_of,
    with_header_tags,
)
from tests.protocol import referee
from tests.support.random_messages import RandomMessages

REWRITTEN = [(key, version) for key, version in EVERY if rewriter(key, version)]
OF_CLIENTS = {"streams_group_heartbeat", "streams_group_describe"}
"""Their endpoints are those of Kafka Streams applications."""


def rewritten(message, version, advertised=even_nodes):
    rewrite = rewriter(message.API_KEY, version)
    return read(rewrite(frame_of(message, version), advertised), message.API_KEY, version)


def test_exactly_these_responses_are_rewritten():
    found = {}
    for key, version in REWRITTEN:
        found.setdefault(key, []).append(version)
    assert {key: (min(versions), max(versions)) for key, versions in found.items()} == {
        ApiKey.PRODUCE: (10, 13),
        ApiKey.METADATA: (0, 13),
        ApiKey.FIND_COORDINATOR: (0, 6),
        ApiKey.DESCRIBE_QUORUM: (2, 2),
        ApiKey.DESCRIBE_CLUSTER: (0, 2),
        ApiKey.SHARE_FETCH: (1, 2),
        ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
    }


def test_every_response_of_kafka_with_a_host_and_a_port_is_rewritten_or_not_offered():
    with_addresses = set()
    for name, key, version in referee.every_response():
        names = referee.field_names(name, version)
        if {"host", "port"} <= names and name not in OF_CLIENTS:
            with_addresses.add(ApiKey(key))
            if key in INTERNAL:
                continue
            assert rewriter(key, version) or not is_allowed(key, version), (name, version)
    assert with_addresses > {ApiKey.FETCH, ApiKey.VOTE, ApiKey.UPDATE_RAFT_VOTER, ApiKey.METADATA}


@pytest.mark.rotates
@pytest.mark.parametrize(("key", "version"), REWRITTEN)
def test_random_responses_keep_no_upstream_address(key, version):
    messages = RandomMessages(seed=key * 100 + version)
    rewrite = rewriter(key, version)
    met = 0
    for _ in range(60):
        frame = frame_of(upstream_only(messages.response(key, version), version), version)
        met += UPSTREAM.encode() in frame
        response = rewrite(messages.rng.choice((bytes, bytearray, memoryview))(frame), even_nodes)
        assert UPSTREAM.encode() not in response
        for node in nodes_in(read(response, key, version), version):
            assert node.host == "" or node.host.startswith("gateway-")
    assert met > 10


@pytest.mark.rotates
@pytest.mark.parametrize(("key", "version"), REWRITTEN)
def test_a_response_whose_nodes_are_all_reachable_changes_in_its_addresses_only(key, version):
    messages = RandomMessages(seed=key)
    for _ in range(30):
        message = upstream_only(messages.response(key, version), version)
        made = rewritten(message, version, lambda _: Address("gateway", 31_000))
        if key == ApiKey.DESCRIBE_QUORUM:
            for node in message.nodes:
                node.listeners = []
        for node in nodes_in(message, version):
            node.host, node.port = "gateway", 31_000
        if key == ApiKey.FIND_COORDINATOR:
            for each in nodes_in(message, version):
                if each.error_code:
                    each.node_id, each.host, each.port = -1, "", -1
        if key == ApiKey.DESCRIBE_CLUSTER:
            continue  # its errors have tests of their own
        assert made == message


@pytest.mark.rotates
@pytest.mark.parametrize(("key", "version"), REWRITTEN)
def test_a_truncated_response_is_a_violation_at_every_byte(key, version):
    messages = RandomMessages(seed=key)
    rewrite = rewriter(key, version)
    for _ in range(5):
        frame = frame_of(messages.response(key, version), version)
        for size in range(len(frame)):
            with pytest.raises(ProtocolViolation):
                rewrite(frame[:size], even_nodes)


@pytest.mark.rotates
@pytest.mark.parametrize(("key", "version"), REWRITTEN)
def test_a_damaged_response_is_a_violation_or_keeps_no_upstream_address(key, version):
    messages = RandomMessages(seed=key)
    rewrite = rewriter(key, version)
    refused = 0
    for _ in range(200):
        frame = messages.flipped(frame_of(upstream_only(messages.response(key, version), version), version))
        try:
            response = rewrite(frame, even_nodes)
        except ProtocolViolation:
            refused += 1
        else:
            for node in nodes_in(read(response, key, version), version):
                assert node.host == "" or node.host.startswith("gateway-")
    assert refused


def test_tagged_fields_of_the_header_are_skipped():
    message = MetadataResponse(brokers=[MetadataResponseBroker(2, UPSTREAM, 9092)])
    response = rewriter(ApiKey.METADATA, 12)(with_header_tags(frame_of(message, 12)), even_nodes)
    (broker,) = read(response, ApiKey.METADATA, 12).brokers
    assert (broker.node_id, broker.host, broker.port) == (2, "gateway-2.example", 31_002)


@pytest.mark.parametrize("version", versions_of(ApiKey.METADATA))
def test_a_broker_without_an_address_is_left_out_and_leads_no_partition(version):
    partitions = [MetadataResponsePartition(0, index, leader_id=index) for index in range(4)]
    message = MetadataResponse(
        brokers=[MetadataResponseBroker(node, UPSTREAM, 9092, f"rack-{node}") for node in range(3)],
        controller_id=1,
        topics=[MetadataResponseTopic(name="events", partitions=partitions)],
    )
    made = rewritten(message, version)
    racks = [None, None] if version == 0 else ["rack-0", "rack-2"]
    assert [broker.rack for broker in made.brokers] == racks
    assert made.controller_id == -1
    error = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    # Broker 3 was not in the response before either.
    assert [(each.leader_id, each.error_code) for each in made.topics[0].partitions] == [
        (0, 0),
        (-1, error),
        (2, 0),
        (3, 0),
    ]


def test_a_controller_with_an_address_stays():
    message = MetadataResponse(brokers=[MetadataResponseBroker(2, UPSTREAM), MetadataResponseBroker(1)])
    message.controller_id = 2
    assert rewritten(message, 9).controller_id == 2


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize(
    ("node_id", "error", "expected"),
    [
        (2, 0, (2, "gateway-2.example", 31_002, 0)),
        (1, 0, (-1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)),
        (-1, 15, (-1, "", -1, 15)),
        (2, 30, (-1, "", -1, 30)),
    ],
)
def test_a_coordinator_is_reachable_or_not_available(version, node_id, error, expected):
    made = rewritten(FindCoordinatorResponse(0, error, None, node_id, UPSTREAM, 9092), version)
    assert (made.node_id, made.host, made.port, made.error_code) == expected


@pytest.mark.parametrize("version", range(4, 7))
def test_each_coordinator_of_a_batch_is_reachable_or_not_available(version):
    coordinators = [Coordinator(f"group-{node}", node, UPSTREAM, 9092, node // 4) for node in (1, 2, 4)]
    made = rewritten(FindCoordinatorResponse(coordinators=coordinators), version)
    assert [
        (each.key, each.node_id, each.host, each.port, each.error_code) for each in made.coordinators
    ] == [
        ("group-1", -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("group-2", 2, "gateway-2.example", 31_002, 0),
        ("group-4", -1, "", -1, 1),
    ]


@pytest.mark.parametrize(("controller", "expected"), [(0, 0), (1, -1), (5, -1)])
def test_a_described_cluster_has_reachable_brokers_only(controller, expected):
    brokers = [DescribeClusterBroker(node, UPSTREAM, 9092, None, node == 2) for node in range(3)]
    message = DescribeClusterResponse(cluster_id="cluster", controller_id=controller, brokers=brokers)
    made = rewritten(message, 2)
    assert [(each.broker_id, each.port, each.is_fenced) for each in made.brokers] == [
        (0, 31_000, False),
        (2, 31_002, True),
    ]
    assert (made.controller_id, made.error_code, made.cluster_id) == (expected, 0, "cluster")


def test_controllers_are_not_described():
    brokers = [DescribeClusterBroker(2, UPSTREAM, 9093)]
    made = rewritten(
        DescribeClusterResponse(endpoint_type=2, cluster_id="c", controller_id=2, brokers=brokers), 1
    )
    assert (made.error_code, made.brokers, made.controller_id) == (ErrorCode.MISMATCHED_ENDPOINT_TYPE, [], -1)
    refused = DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, endpoint_type=2)
    assert rewritten(refused, 1).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def test_the_listeners_of_controllers_are_left_out():
    nodes = [Node(2, [Listener("CONTROLLER", UPSTREAM, 9093)]), Node(3, [])]
    assert rewritten(DescribeQuorumResponse(nodes=nodes), 2).nodes == [Node(2, []), Node(3, [])]


def produced(*, endpoints=(), throttle_time_ms=0, leader=None):
    partition = PartitionProduceResponse(0, 0 if leader is None else 6, 41, current_leader=leader)
    topics = [TopicProduceResponse(partition_responses=[partition])]
    return ProduceResponse(topics, throttle_time_ms, list(endpoints))


@pytest.mark.parametrize("version", range(10, 14))
def test_a_produce_response_without_endpoints_and_throttle_is_plain(version):
    ending = plain_ending(ApiKey.PRODUCE, version)
    leader = LeaderIdAndEpoch(2, 5)
    for plain in (produced(), produced(leader=leader)):
        assert frame_of(plain, version).endswith(ending)
    for port in (1, 255, 256, 9092, 65_280, 65_535):
        for rack in (None, "", "\0", "rack"):
            message = produced(endpoints=[NodeEndpoint(2, UPSTREAM, port, rack)], leader=leader)
            assert not frame_of(message, version).endswith(ending)
            made = rewritten(message, version)
            assert made == produced(
                endpoints=[NodeEndpoint(2, "gateway-2.example", 31_002, rack)], leader=leader
            )
    assert not frame_of(produced(throttle_time_ms=1), version).endswith(ending)
    assert rewritten(produced(throttle_time_ms=1), version) == produced(throttle_time_ms=1)


@pytest.mark.parametrize("key", [ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE])
def test_a_share_response_is_plain_exactly_if_it_has_no_endpoints(key):
    messages = RandomMessages(seed=key)
    seen = set()
    for version in versions_of(key):
        for _ in range(100):
            message = messages.response(key, version)
            is_plain = frame_of(message, version).endswith(plain_ending(key, version))
            assert is_plain == (not message.node_endpoints)
            seen.add(is_plain)
    assert seen == {True, False}


def test_only_responses_with_addresses_have_a_plain_ending():
    assert plain_ending(ApiKey.PRODUCE, 9) is None
    assert plain_ending(ApiKey.METADATA, 12) is None
    assert plain_ending(ApiKey.FETCH, 12) is None


def test_a_version_with_addresses_that_the_codec_does_not_know_has_no_rewriter():
    assert rewriter(ApiKey.HEARTBEAT, 99) is None
    with pytest.raises(ProtocolViolation, match="MetadataResponse has no version 99"):
        rewriter(ApiKey.METADATA, 99)


def test_the_records_of_a_share_fetch_stay():
    records = random.Random(1).randbytes(20_000)
    messages = RandomMessages(seed=1)
    message = messages.response(ApiKey.SHARE_FETCH, 1)
    while not any(topic.partitions for topic in message.responses):
        message = messages.response(ApiKey.SHARE_FETCH, 1)
    partition = next(topic.partitions[0] for topic in message.responses if topic.partitions)
    partition.records = records
    assert any(
        each.records == records for topic in rewritten(message, 1).responses for each in topic.partitions
    )


class Rewrites:
    """Counts the responses that are rewritten; the addresses change with `version`."""

    def __init__(self):
        self.version = 1
        self.count = 0
        self.kept = KeptResponses(self.advertised, lambda: self.version)
        self.rewrite = rewriter(ApiKey.FIND_COORDINATOR, 4)

    def advertised(self, node_id):
        self.count += 1
        return Address("gateway.example", 31_000 + self.version)

    def ask(self, key, correlation_id=CORRELATION_ID):
        """Return the port in the response."""
        frame = frame_of(FindCoordinatorResponse(coordinators=[Coordinator(key, 2, UPSTREAM, 9092)]), 4)
        frame = correlation_id.to_bytes(4, "big") + frame[4:]
        made = self.kept.rewritten(self.rewrite, ApiKey.FIND_COORDINATOR, 4, frame)
        assert made[4:8] == frame[:4]
        made = made[:4] + CORRELATION_ID.to_bytes(4, "big") + made[8:]
        return read(made, ApiKey.FIND_COORDINATOR, 4).coordinators[0].port


def test_an_equal_response_is_not_rewritten_again():
    rewrites = Rewrites()
    assert [rewrites.ask("a", 1), rewrites.ask("a", 2), rewrites.ask("a", 2**31 - 1)] == [31_001] * 3
    assert rewrites.count == 1
    rewrites.ask("b")
    assert rewrites.count == 2


def test_kept_responses_are_dropped_when_an_advertised_address_changes():
    rewrites = Rewrites()
    assert rewrites.ask("a") == 31_001
    rewrites.version = 2
    assert rewrites.ask("a") == 31_002
    rewrites.version = 1
    assert rewrites.ask("a") == 31_001
    assert (rewrites.count, len(rewrites.kept)) == (3, 1)


@pytest.mark.parametrize(
    ("limit", "kept"),
    [(KEPT_RESPONSES - 1, KEPT_RESPONSES - 1), (KEPT_RESPONSES, KEPT_RESPONSES), (KEPT_RESPONSES + 1, 1)],
)
def test_no_more_responses_are_kept_than_allowed(limit, kept):
    rewrites = Rewrites()
    for number in range(limit):
        rewrites.ask(f"group-{number}")
    assert (rewrites.count, len(rewrites.kept)) == (limit, kept)
    rewrites.ask(f"group-{limit - 1}")
    assert rewrites.count == limit
    rewrites.ask("group-0")
    assert rewrites.count == limit + (limit > KEPT_RESPONSES)


def test_the_last_response_is_recognized_with_another_correlation_id():
    rewrites = Rewrites()
    asked = frame_of(FindCoordinatorResponse(coordinators=[Coordinator("a", 2, UPSTREAM, 9092)]), 4)
    whole = rewrites.kept.rewritten(rewrites.rewrite, ApiKey.FIND_COORDINATOR, 4, asked)
    data = bytearray(len(asked).to_bytes(4, "big") + asked + b"bytes of other connections")
    end = len(asked) + 4
    last = rewrites.kept.known(ApiKey.FIND_COORDINATOR, 4, memoryview(data), end)
    assert last.whole == whole
    again = rewrites.kept.again
    for correlation_id in (0, 1, -1):
        expected = whole[:4] + correlation_id.to_bytes(4, "big", signed=True) + whole[8:]
        assert again(last, data, end, correlation_id) == expected
    assert again(None, data, end, 1) is None
    assert again(last, data, end - 1, 1) is None
    assert again(last, data, end + 1, 1) is None
    data[end - 1] ^= 1
    assert again(last, data, end, 1) is None
    data[end - 1] ^= 1
    rewrites.version = 2
    assert again(last, data, end, 1) is None
    assert rewrites.kept.known(ApiKey.FIND_COORDINATOR, 4, memoryview(data), end) is None
