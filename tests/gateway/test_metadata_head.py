"""The head of a Metadata response is rewritten to the same bytes as by the codec."""

import pytest

from broker.common.errors import ErrorCode, ProtocolViolation
from broker.common.slices import run_through
from broker.config.listeners import Address
from broker.gateway.responses import AT_ONCE, MetadataBrokers, rewritten
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.gateway.frames import UPSTREAM, even_nodes, frame_of, read, versions_of, with_header_tags
from tests.support.random_messages import RandomMessages

VERSIONS = versions_of(ApiKey.METADATA)
FLEXIBLE = 9


def random_metadata(messages, version):
    message = messages.response(ApiKey.METADATA, version)
    for broker in message.brokers:
        broker.rack = messages.rng.choice((None, "", "rack", "r" * 200))
    return message


@pytest.mark.parametrize("version", VERSIONS)
def test_gives_the_bytes_of_the_codec(version):
    messages = RandomMessages(seed=version)
    for number in range(100):
        message = random_metadata(messages, version)
        if number < 3:
            message.brokers = [MetadataResponseBroker(node, UPSTREAM) for node in range(126 + number)]
        frame = frame_of(message, version)
        if version >= FLEXIBLE and number % 2:
            frame = with_header_tags(frame)
        brokers = MetadataBrokers(messages.rng.choice((bytes, bytearray, memoryview))(frame), version)
        assert brokers.node_ids == [broker.node_id for broker in message.brokers]
        addresses = [Address("g" * (125 + n % 4), 31_000 + n) for n in range(len(brokers.node_ids))]
        for broker, address in zip(message.brokers, addresses, strict=True):
            broker.host, broker.port = address.host, address.port
        made = brokers.at(addresses)
        assert made == len(made[4:]).to_bytes(4, "big") + frame_of(message, version)


@pytest.mark.parametrize("version", range(FLEXIBLE, 14))
def test_tagged_fields_of_a_broker_are_dropped(version):
    broker = MetadataResponseBroker(2, UPSTREAM, 9092, "rack")
    frame = frame_of(MetadataResponse(brokers=[broker], cluster_id="cluster"), version)
    end = frame.index(b"rack") + 4
    tagged = frame[:end] + b"\1\x07\4host" + frame[end + 1 :]
    broker.host, broker.port = "gateway", 31_002
    made = MetadataBrokers(tagged, version).at([Address("gateway", 31_002)])
    assert made[4:] == frame_of(MetadataResponse(brokers=[broker], cluster_id="cluster"), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_truncated_brokers_are_a_violation_at_every_byte(version):
    brokers = [MetadataResponseBroker(node, UPSTREAM, 9092, "rack") for node in range(3)]
    frame = frame_of(MetadataResponse(brokers=brokers), version)
    end = len(frame) - len(frame_of(MetadataResponse(), version)) + 4
    for size in range(end):
        with pytest.raises(ProtocolViolation):
            MetadataBrokers(frame[:size], version)


@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_brokers_are_a_violation_or_have_other_addresses(version):
    messages = RandomMessages(seed=version)
    refused = 0
    for _ in range(300):
        frame = messages.flipped(b"size" + frame_of(random_metadata(messages, version), version))[4:]
        try:
            brokers = MetadataBrokers(frame, version)
        except ProtocolViolation:
            refused += 1
        else:
            assert len(brokers.node_ids) < len(frame)
            brokers.at([Address("gateway", 31_000)] * len(brokers.node_ids))
    assert refused


def large(version, topics):
    """Metadata of many topics; its brokers are 0 to 2."""
    brokers = [MetadataResponseBroker(node, UPSTREAM, 9092) for node in range(3)]
    partitions = [MetadataResponsePartition(0, index, index % 3) for index in range(3)]
    named = [MetadataResponseTopic(name="t" * 100, partitions=partitions) for _ in range(topics)]
    return MetadataResponse(brokers=brokers, controller_id=1, topics=named)


@pytest.mark.parametrize(("size", "is_decoded"), [(-1, True), (0, True), (1, False)])
def test_a_response_up_to_the_limit_is_decoded(size, is_decoded):
    message = large(12, 60)
    message.cluster_id = "c" * 200
    missing = AT_ONCE + size - 1 - len(frame_of(message, 12))
    message.cluster_id += "c" * missing
    frame = frame_of(message, 12)
    assert len(frame) == AT_ONCE + size - 1 and missing > 0

    def rewrite(frame):
        return rewritten(frame, ApiKey.METADATA, 12, lambda _: Address("g", 1))

    made = read(rewrite(frame), ApiKey.METADATA, 12)
    assert {broker.host for broker in made.brokers} == {"g"}
    assert made.topics == message.topics
    # Only the codec sees that the message ends before the frame.
    if is_decoded:
        with pytest.raises(ProtocolViolation, match="extra bytes"):
            rewrite(frame + b"\0")
    else:
        assert rewrite(frame + b"\0").endswith(b"\0\0")


@pytest.mark.parametrize("version", [0, 8, 13])
def test_a_large_response_with_an_unreachable_broker_is_decoded(version):
    message = large(version, 300)
    frame = frame_of(message, version)
    assert len(frame) > AT_ONCE
    whole = rewritten(frame, ApiKey.METADATA, version, even_nodes)
    made = read(whole if isinstance(whole, bytes) else run_through(whole), ApiKey.METADATA, version)
    assert [broker.node_id for broker in made.brokers] == [0, 2]
    error = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    assert [(each.leader_id, each.error_code) for each in made.topics[0].partitions] == [
        (0, 0),
        (-1, error),
        (2, 0),
    ]
