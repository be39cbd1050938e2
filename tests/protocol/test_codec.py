"""Guarantees of the codec besides the bytes: defaults, buffers, file slices, unknown fields."""

import pytest

from broker.common.errors import BrokerBug, ProtocolViolation
from broker.protocol.codec import (
    decode_request,
    decode_response,
    encode_data,
    encode_request,
    encode_response,
    known_versions,
    parse_response_header,
)
from broker.protocol.messages.api_versions import ApiVersionsResponse
from broker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from broker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from broker.protocol.messages.heartbeat import HeartbeatResponse
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.headers import parse_request_header


class Slice:
    """A file range, as returned by broker.log: the codec may use only its length."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length


def fetched(*records, **more):
    partitions = [
        PartitionData(index, high_watermark=9, records=record, **more) for index, record in enumerate(records)
    ]
    return FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])


def announced(frame):
    return int.from_bytes(frame[0][:4], "big") + 4


def test_a_field_that_the_version_lacks_has_its_default():
    frame = b"".join(encode_request(3, 0)(MetadataRequest([MetadataRequestTopic(name="t")]), 1, None))
    message = decode_request(3, 0)(frame, 4 + parse_request_header(frame[4:]).body_offset)
    assert message == MetadataRequest([MetadataRequestTopic(bytes(16), "t")], allow_auto_topic_creation=True)


def test_default_lists_are_not_shared():
    one, other = ProduceRequest(), ProduceRequest()
    one.topic_data.append(TopicProduceData("t"))
    assert other.topic_data == []


@pytest.mark.parametrize("version", [3, 9])
def test_records_are_a_writable_view_of_the_frame(version):
    request = ProduceRequest(
        None, 1, 9, [TopicProduceData("t", partition_data=[PartitionProduceData(0, b"abc")])]
    )
    frame = bytearray(b"".join(encode_request(0, version)(request, 1, "c")))
    body = 4 + parse_request_header(frame[4:]).body_offset
    records = decode_request(0, version)(frame, body).topic_data[0].partition_data[0].records
    records[0] = ord("X")
    assert b"Xbc" in frame


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_a_slice_of_a_file_stays_as_it_is_and_counts_in_the_size(version):
    first, second = Slice(1_000_000), Slice(5)
    frame = encode_response(1, version)(fetched(first, second), 3)
    assert [type(part) for part in frame[::2]] == [bytes] * len(frame[::2])
    assert frame[1] is first and frame[3] is second
    assert announced(frame) == sum(len(part) for part in frame)


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize(("size", "parts"), [(0, 1), (4095, 1), (4096, 1), (4097, 3)])
def test_small_buffers_are_copied_into_one_and_large_ones_are_not(version, size, parts):
    for records in (bytes(size), bytearray(size), memoryview(bytes(size))):
        frame = encode_response(1, version)(fetched(records), 3)
        # Without tags, v11 has nothing after the records.
        assert len(frame) == (parts if version == 12 else min(parts, 2))
        assert announced(frame) == sum(len(part) for part in frame)


def test_an_empty_slice_is_not_sent():
    assert len(encode_response(1, 12)(fetched(Slice(0)), 3)) == 1


def test_mixed_buffers_join_to_what_the_answer_says():
    values = [b"a" * 10, memoryview(b"b" * 5000), b"", None, bytearray(b"c" * 4096), b"d" * 4097]
    frame = b"".join(encode_response(1, 12)(fetched(*values), 3))
    message = decode_response(1, 12)(frame, 9)
    assert message == fetched(*values)


@pytest.mark.parametrize("leader", [None, LeaderIdAndEpoch(-1, -1)])
def test_a_tagged_struct_at_its_default_is_not_sent(leader):
    frame = b"".join(encode_response(1, 12)(fetched(b"", current_leader=leader), 3))
    assert frame == b"".join(encode_response(1, 12)(fetched(b""), 3))
    assert decode_response(1, 12)(frame, 9).responses[0].partitions[0].current_leader is None


@pytest.mark.parametrize(
    ("version", "body"), [(2, bytes(10)), (3, b"\0\0\1\0\0\0\0\0"), (4, b"\0\0\1\0\0\0\0\0")]
)
def test_api_versions_answers_with_header_0_in_every_version(version, body):
    (frame,) = encode_response(18, version)(ApiVersionsResponse(), 0x01020304)
    assert frame == bytes((0, 0, 0, 4 + len(body))) + b"\1\2\3\4" + body


def test_the_frame_starts_with_size_and_correlation_id():
    (frame,) = encode_response(12, 4)(HeartbeatResponse(error_code=27), 0x01020304)
    assert frame == b"\0\0\0\x0c" + b"\1\2\3\4" + b"\0" + b"\0\0\0\0" + b"\0\x1b" + b"\0"


@pytest.mark.parametrize("version", [-1, 2, 14, 32767])
def test_a_version_that_no_schema_has_is_a_violation(version):
    assert known_versions(0) == (3, 13)
    with pytest.raises(ProtocolViolation, match=f"no version {version}: 3 to 13 exist"):
        decode_request(0, version)


@pytest.mark.parametrize("api_key", [-1, 4, 95])
def test_a_key_that_no_schema_has_is_a_violation(api_key):
    with pytest.raises(ProtocolViolation, match=f"no schema for API key {api_key}"):
        decode_request(api_key, 0)


def test_answering_in_an_unknown_version_is_our_bug():
    with pytest.raises(BrokerBug):
        encode_response(0, 2)


def test_functions_are_compiled_once():
    assert decode_request(0, 9) is decode_request(0, 9)
    assert encode_response(0, 9) is encode_response(0, 9)


def test_a_field_that_the_version_lacks_is_left_out():
    subscription = ConsumerProtocolSubscription(["t"], None, rack_id="r")
    assert (
        b"".join(encode_data("consumer_protocol_subscription", 0)(subscription))
        == b"\0\0\0\1\0\1t\xff\xff\xff\xff"
    )
    assert b"".join(encode_data("consumer_protocol_subscription", 3)(subscription)).endswith(b"\0\1r")


def test_reads_the_header_of_an_answer():
    assert parse_response_header(b"\0\0\0\x07body", 0) == (7, 4)
    assert parse_response_header(b"\0\0\0\x07\x00body", 1) == (7, 5)
    assert parse_response_header(b"\0\0\0\x07\x01\x05\x02abbody", 1) == (7, 9)


@pytest.mark.parametrize(
    "answer", [b"", b"\0\0\0", b"\0\0\0\x07", b"\0\0\0\x07\x01", b"\0\0\0\x07\x01\x05\x02a"]
)
def test_a_truncated_header_of_an_answer_is_a_violation(answer):
    with pytest.raises(ProtocolViolation):
        parse_response_header(answer, 1)
