"""The throttle time of every response, compared with kio's schemas and with the codec."""

import random
import struct

import pytest

from broker.common.errors import ProtocolViolation
from broker.gateway.throttle_time import raise_throttle_time, throttle_offset, throttle_place
from broker.protocol.api_key import ApiKey, response_header_version
from broker.protocol.messages.produce import NodeEndpoint, ProduceResponse
from broker.protocol.schema import in_version
from tests.gateway.frames import CORRELATION_ID, EVERY, frame_of, read, with_header_tags
from tests.protocol import referee
from tests.support.random_messages import RandomMessages

THROTTLED = [(key, version) for key, version in EVERY if throttle_offset(key, version) is not None]


def raised(frame, key, version, throttle_time_ms):
    """The throttle time and the message after raising it, by whichever way."""
    buffer = bytearray(frame)
    response = raise_throttle_time(buffer, key, version, throttle_time_ms)
    if response is None:
        response = struct.pack(">i", len(buffer)) + buffer
        assert len(buffer) == len(frame)
    message = read(bytes(response), key, version)
    return message.throttle_time_ms, message


@pytest.mark.parametrize("name", sorted({name for name, _, _ in referee.every_response()}))
def test_every_response_of_kafka_has_it_where_the_table_says(name):
    rng = random.Random(name)
    for _, key, version in (each for each in referee.every_response() if each[0] == name):
        offset = throttle_offset(key, version)
        entity = referee.response_entity(name, version)
        plain = [field for field in referee.fields_of(entity) if "tag" not in field.metadata]
        if "throttle_time" not in {field.name for field in plain}:
            assert offset is None, (name, version)
            continue
        made = referee.without_tags(referee.random_entity(entity, rng), {"throttle_time": 123_456})
        frame = referee.their_frame(made, correlation_id=CORRELATION_ID)[4:]
        assert struct.unpack_from(">i", frame, offset if offset >= 0 else len(frame) + offset) == (123_456,)


def test_the_codec_has_it_where_the_table_has_it():
    for key, version in EVERY:
        fields = {field.name for field in in_version(type(RandomMessages(1).response(key, version)), version)}
        has_it = throttle_offset(key, version) is not None
        assert ("throttle_time_ms" in fields) == has_it, (key, version)


@pytest.mark.rotates
@pytest.mark.parametrize(("key", "version"), THROTTLED)
def test_the_longer_throttle_time_counts_and_nothing_else_changes(key, version):
    messages = RandomMessages(seed=key)
    for upstream, ours, expected in [(0, 1, 1), (70, 69, 70), (70, 70, 70), (70, 71, 71)] * 3:
        message = messages.response(key, version)
        message.throttle_time_ms = upstream
        seen, made = raised(frame_of(message, version), key, version, ours)
        assert seen == expected
        message.throttle_time_ms = expected
        assert frame_of(made, version) == frame_of(message, version)


@pytest.mark.rotates
@pytest.mark.parametrize(("key", "version"), THROTTLED)
def test_tagged_fields_of_the_header_move_it(key, version):
    if not response_header_version(key, version):
        return
    messages = RandomMessages(seed=key)
    for _ in range(4):
        message = messages.response(key, version)
        message.throttle_time_ms = 3
        assert raised(with_header_tags(frame_of(message, version)), key, version, 900)[0] == 900


@pytest.mark.rotates
@pytest.mark.parametrize(("key", "version"), THROTTLED)
def test_the_place_in_a_whole_response_is_that_of_the_throttle_time(key, version):
    message = RandomMessages(seed=key).response(key, version)
    message.throttle_time_ms = 0
    frame = frame_of(message, version)
    place = throttle_place(frame, key, version)
    if not place:
        assert throttle_offset(key, version) == -5 and (key == ApiKey.API_VERSIONS or frame[-5:] != bytes(5))
        return
    whole = bytearray(struct.pack(">i", len(frame)) + frame)
    struct.pack_into(">i", whole, place if place > 0 else len(whole) + place, 900)
    message.throttle_time_ms = 900
    assert whole[4:] == frame_of(message, version)
    if place > 0 and response_header_version(key, version):
        assert throttle_place(with_header_tags(frame), key, version) == 0


@pytest.mark.rotates
@pytest.mark.parametrize(("key", "version"), THROTTLED)
def test_the_place_is_within_a_truncated_response(key, version):
    frame = frame_of(RandomMessages(seed=key).response(key, version), version)
    for size in range(len(frame)):
        place = throttle_place(frame[:size], key, version)
        at = place if place > 0 else size + 4 + place
        assert not place or 4 <= at <= size


@pytest.mark.parametrize(("key", "version"), [(ApiKey.SASL_HANDSHAKE, 1), (ApiKey.METADATA, 2), (95, 0)])
def test_a_response_without_a_throttle_time_has_no_place_for_it(key, version):
    assert throttle_place(bytes(64), key, version) == 0


@pytest.mark.parametrize("version", range(10, 14))
def test_a_produce_response_with_endpoints_is_encoded_again(version):
    message = ProduceResponse([], 0, [NodeEndpoint(1, "h", 9092)])
    frame = bytearray(frame_of(message, version))
    response = raise_throttle_time(frame, ApiKey.PRODUCE, version, 5)
    assert response is not None
    assert read(response, ApiKey.PRODUCE, version) == ProduceResponse([], 5, [NodeEndpoint(1, "h", 9092)])
    assert frame == frame_of(message, version)


@pytest.mark.parametrize("version", range(3, 14))
def test_a_plain_produce_response_is_changed_in_place(version):
    frame = bytearray(frame_of(ProduceResponse([], 0), version))
    assert raise_throttle_time(memoryview(frame), ApiKey.PRODUCE, version, 5) is None
    assert frame == frame_of(ProduceResponse([], 5), version)


def test_the_head_of_a_fetch_response_is_enough():
    for version, size in ((4, 8), (11, 8), (12, 9), (15, 9)):
        head = bytearray(size)
        assert raise_throttle_time(head, ApiKey.FETCH, version, 258) is None
        assert head[-4:] == bytes((0, 0, 1, 2))
        with pytest.raises(ProtocolViolation, match=f"Fetch response v{version}: no throttle time in"):
            raise_throttle_time(head[:-1], ApiKey.FETCH, version, 258)


@pytest.mark.parametrize(
    ("key", "version", "offset"),
    [
        (ApiKey.PRODUCE, 0, None),
        (ApiKey.PRODUCE, 1, -4),
        (ApiKey.PRODUCE, 2, -4),
        (ApiKey.FETCH, 0, None),
        (ApiKey.FETCH, 1, 4),
        (ApiKey.FETCH, 3, 4),
        (ApiKey.LIST_OFFSETS, 1, None),
        (ApiKey.CREATE_TOPICS, 1, None),
        (ApiKey.DESCRIBE_ACLS, 0, 4),
        (ApiKey.DESCRIBE_LOG_DIRS, 0, 4),
        (ApiKey.CREATE_DELEGATION_TOKEN, 0, -4),
        (ApiKey.RENEW_DELEGATION_TOKEN, 0, 14),
    ],
)
def test_the_first_versions_have_it_in_the_same_place(key, version, offset):
    assert throttle_offset(key, version) == offset


@pytest.mark.parametrize(
    ("key", "version"),
    [(ApiKey.SASL_HANDSHAKE, 1), (ApiKey.METADATA, 2), (ApiKey.METADATA, 14), (95, 0), (-1, 0)],
)
def test_a_response_without_a_known_throttle_time_stays(key, version):
    assert throttle_offset(key, version) is None
    frame = bytearray(b"whatever")
    assert raise_throttle_time(frame, key, version, 900) is None
    assert frame == b"whatever"


@pytest.mark.rotates
@pytest.mark.parametrize(("key", "version"), THROTTLED)
def test_a_truncated_response_is_a_violation_or_changes_within_its_bounds(key, version):
    messages = RandomMessages(seed=key)
    frame = frame_of(messages.response(key, version), version)
    for each in (frame, with_header_tags(frame) if response_header_version(key, version) else frame):
        for size in range(len(each)):
            buffer = bytearray(each[:size])
            try:
                raise_throttle_time(buffer, key, version, 900)
            except ProtocolViolation:
                assert buffer == each[:size]
            else:
                assert len(buffer) == size >= 8 and buffer[:4] == each[:4]
