"""Malicious bytes: a decoder raises ProtocolViolation before it allocates."""

import random
import struct
import tracemalloc

import pytest

from broker.common.errors import ProtocolViolation
from broker.protocol.codec import decode_request
from broker.protocol.messages.api_versions import ApiVersionsRequest
from tests.protocol import referee
from tests.protocol.test_codec_against_kio import decoder

HOSTILE = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
    b"\x7f\xff",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff",
    b"\x80\x80\x80\x80\x80\x01",
    b"\x00",
    b"\xc3\x28",
)


def mutate(body: bytes, rng: random.Random) -> bytes:
    out = bytearray(body)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        place = rng.randrange(len(out) + 1)
        match rng.randrange(5):
            case 0:
                del out[place:]
            case 1 if place < len(out):
                out[place] = rng.randrange(256)
            case 2:
                out[place:place] = rng.choice(HOSTILE)
            case 3:
                hostile = rng.choice(HOSTILE)
                out[place : place + len(hostile)] = hostile
            case _:
                out[place:place] = rng.randbytes(rng.randrange(1, 9))
    return bytes(out)


def try_to_decode(decode, body: bytes) -> bool:
    """Return whether it decoded; other exceptions than ProtocolViolation fail the test."""
    try:
        decode(body, 0)
    except ProtocolViolation:
        return False
    return True


@pytest.mark.rotates
@pytest.mark.parametrize("name", referee.NAMES)
def test_mutated_bytes_decode_or_violate_and_nothing_else(name):
    rng = random.Random(name)
    refused = 0
    for schema in referee.schemas(name):
        decode = decoder(schema)
        body = referee.their_bytes(referee.random_entity(schema.theirs, rng))[:600]
        for _ in range(40):
            refused += not try_to_decode(decode, mutate(body, rng))
    assert refused


@pytest.mark.rotates
@pytest.mark.parametrize("name", referee.NAMES)
def test_a_hostile_length_anywhere_allocates_nothing(name):
    rng = random.Random(name)
    newest = {schema.kind: schema for schema in referee.schemas(name)}
    oldest = {schema.kind: schema for schema in reversed(list(referee.schemas(name)))}
    for schema in (*newest.values(), *oldest.values()):
        decode = decoder(schema)
        body = referee.their_bytes(referee.random_entity(schema.theirs, rng))[:400]
        tracemalloc.start()
        for place in range(0, len(body) + 1, 1 + len(body) // 60):
            for hostile in HOSTILE[:7]:
                try_to_decode(decode, body[:place] + hostile + body[place + len(hostile) :])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 500_000, schema


@pytest.mark.rotates
@pytest.mark.parametrize("name", referee.NAMES)
def test_every_truncation_is_refused_and_a_byte_too_many_only_in_requests_passed_over(name):
    rng = random.Random(name)
    for schema in referee.schemas(name):
        decode = decoder(schema)
        body = referee.their_bytes(referee.random_entity(schema.theirs, rng))
        for length in range(max(0, len(body) - 16), len(body)):
            assert not try_to_decode(decode, body[:length])
        assert try_to_decode(decode, body)
        assert try_to_decode(decode, body + b"\0") == (schema.kind == "request")


def test_librdkafka_asks_for_the_metadata_of_all_topics_with_three_bytes_too_many():
    """librdkafka 2.16 sends these bytes, and Kafka's broker accepts them."""
    request = decode_request(3, 13)(bytes.fromhex("00000000010000"), 0)
    assert (request.topics, request.allow_auto_topic_creation) == (None, False)


def produce_v3(name_length: int = 1, topics: int = 1, partitions: int = 1, records_length: int = 2) -> bytes:
    head = struct.pack(">hhii", -1, 1, 1000, topics)
    return (
        head
        + struct.pack(">h", name_length)
        + b"t"
        + struct.pack(">iii", partitions, 0, records_length)
        + b"rr"
    )


@pytest.mark.parametrize(
    ("length", "accepted"), [(1, True), (2, True), (3, False), (-2, True), (2**31 - 1, False)]
)
def test_records_do_not_reach_past_the_end_of_the_request(length, accepted):
    assert try_to_decode(decode_request(0, 3), produce_v3(records_length=length)) is accepted


@pytest.mark.parametrize(
    ("count", "accepted"), [(0, True), (1, True), (2, False), (-1, False), (2**31 - 1, False)]
)
def test_an_array_has_all_the_elements_it_says(count, accepted):
    assert try_to_decode(decode_request(0, 3), produce_v3(topics=count)) is accepted


@pytest.mark.parametrize(
    ("length", "accepted"), [(-1, False), (0, False), (1, True), (2, False), (32767, False)]
)
def test_a_name_has_exactly_the_bytes_it_says(length, accepted):
    assert try_to_decode(decode_request(0, 3), produce_v3(name_length=length)) is accepted


def test_any_negative_length_of_something_nullable_is_null():
    message = decode_request(0, 3)(produce_v3(records_length=-1)[:-2], 0)
    assert message.topic_data[0].partition_data[0].records is None
    message = decode_request(0, 3)(produce_v3(records_length=-5)[:-2], 0)
    assert message.topic_data[0].partition_data[0].records is None


@pytest.mark.parametrize(("elements", "accepted"), [(5, True), (6, True), (7, False)])
def test_an_array_is_compared_with_the_bytes_that_are_left(elements, accepted):
    # ListPartitionReassignments v0: timeout, one topic with a name and six partitions, two tag counts.
    body = struct.pack(">i", 5) + b"\x02\x02t" + bytes((elements + 1,)) + bytes(24) + b"\0\0"
    assert try_to_decode(decode_request(46, 0), body) is accepted


@pytest.mark.parametrize(("size", "accepted"), [(2, False), (3, True), (4, False), (1000, False)])
def test_a_known_tag_has_exactly_the_size_it_says(size, accepted):
    # Fetch v12 with its only tag, the cluster id "ab".
    empty = struct.pack(">iiiibii", -1, 500, 1, 1000, 0, 0, -1) + b"\x01\x01\x01"
    body = empty + b"\x01\x00" + bytes((size if size < 128 else 127,)) + b"\x03ab"
    assert try_to_decode(decode_request(1, 12), body) is accepted


def test_invalid_utf8_is_a_violation():
    with pytest.raises(ProtocolViolation, match="ApiVersionsRequest v3"):
        decode_request(18, 3)(b"\x03\xc3\x28\x01\x00", 0)


def test_a_varint_may_have_five_bytes_but_not_six():
    one_byte = decode_request(18, 3)(b"\x02a\x01\x00", 0)
    five_bytes = decode_request(18, 3)(b"\x82\x80\x80\x80\x00a\x01\x00", 0)
    assert one_byte == five_bytes == ApiVersionsRequest("a", "")
    with pytest.raises(ProtocolViolation, match="five bytes"):
        decode_request(18, 3)(b"\x82\x80\x80\x80\x80\x00a\x01\x00", 0)


def test_a_violation_names_the_message_its_version_and_the_field():
    with pytest.raises(ProtocolViolation, match="ProduceRequest v3: name is null or exceeds the message"):
        decode_request(0, 3)(produce_v3(name_length=500), 0)
