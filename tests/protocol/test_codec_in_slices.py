"""Sliced codecs return the same as the straight-line functions, with a bounded amount of work per slice."""

import random
import struct
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from broker.api import registry
from broker.api.registry import Api
from broker.common.errors import ProtocolViolation
from broker.protocol import codec, compile_decode, compile_encode, error_codes
from broker.protocol.api_key import response_header_version
from broker.protocol.compile_decode import MAX_STRING_BYTES, SLICE_BYTES, compile_decoder_in_slices
from broker.protocol.compile_encode import compile_response_encoder_in_slices
from broker.protocol.emitter import NUMBERS, SLICE
from broker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from broker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from broker.protocol.varint import MAX_TAGS, uvarint
from tests.gateway.frames import EVERY
from tests.protocol.test_codec_hostile import mutate
from tests.support.random_messages import RandomMessages

APIS = list(registry.load())
HEADER_BYTES = 10


def run_through(slices: Generator[None, None, Any]) -> tuple[int, Any]:
    """Return the number of yields and the result."""
    yields = 0
    while True:
        try:
            assert next(slices) is None
        except StopIteration as end:
            return yields, end.value
        yields += 1


def body_of(message: Any, version: int) -> bytes:
    """Return a request's bytes without size and header."""
    parts = codec.encode_request(message.API_KEY, version)(message, 1, None)
    flexible = version >= (message.FLEXIBLE if message.FLEXIBLE is not None else 1 << 15)
    return b"".join(map(bytes, parts))[4 + HEADER_BYTES + flexible :]  # type: ignore[arg-type]


def same(message: Any, other: Any) -> bool:
    """A NaN is unequal to itself, so messages with NaNs are compared as text."""
    return message == other or ("nan" in repr(message) and repr(message) == repr(other))


def outcome_of(decode: Callable[[], Any]) -> Any:
    """Return the message, or the error."""
    try:
        return decode()
    except ProtocolViolation as violation:
        return str(violation)


def versions(api: Api) -> Iterator[int]:
    return iter(range(api.min_version, api.max_version + 1))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set slices of one element, so that a random message has many."""
    for module in (compile_decode, compile_encode, error_codes):
        monkeypatch.setattr(module, "SLICE", 0)
    for module in (compile_decode, compile_encode):
        monkeypatch.setattr(module, "NUMBERS", 1)


@pytest.mark.rotates
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.key.name)
def test_a_request_is_the_same_in_slices(api: Api) -> None:
    messages, yielded = RandomMessages(int(api.key)), 0
    for version in versions(api):
        decode = codec.decode_request(api.key, version)
        in_slices = compile_decoder_in_slices(codec.request_class(api.key), version)
        for _ in range(10):
            body = body_of(messages.request(api.key, version), version)
            yields, message = run_through(in_slices(body, 0))
            assert same(message, decode(body, 0))
            yielded += yields
    assert yielded or not _has_arrays(codec.request_class(api.key))


def _has_arrays(kind: Any) -> bool:
    return any(
        field.array or (not isinstance(field.type, str) and _has_arrays(field.type)) for field in kind.FIELDS
    )


@pytest.mark.rotates
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.key.name)
def test_bytes_that_are_no_request_are_refused_alike(api: Api) -> None:
    rng, messages = random.Random(int(api.key)), RandomMessages(int(api.key))
    for version in versions(api):
        decode = codec.decode_request(api.key, version)
        in_slices = compile_decoder_in_slices(codec.request_class(api.key), version)
        for _ in range(20):
            body = mutate(body_of(messages.request(api.key, version), version) or b"\0", rng)
            expected = outcome_of(lambda: decode(body, 0))  # noqa: B023
            found = outcome_of(lambda: run_through(in_slices(body, 0))[1])  # noqa: B023
            assert found == expected if isinstance(expected, str) else same(found, expected)


@pytest.mark.rotates
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.key.name)
def test_an_answer_is_the_same_in_slices_and_its_errors_too(api: Api) -> None:
    messages, kind = RandomMessages(int(api.key)), codec.response_class(api.key)
    for version in versions(api):
        encode = codec.encode_response(api.key, version)
        header_version = response_header_version(api.key, version)
        in_slices = compile_response_encoder_in_slices(kind, version, header_version)
        codes, counted = (
            error_codes.error_codes(api.key, version),
            error_codes._Compiler(kind, version, in_slices=True).build(),
        )
        for _ in range(10):
            reply = messages._struct(kind, version)
            _, parts = run_through(in_slices(reply, 77))
            assert b"".join(map(bytes, parts)) == b"".join(map(bytes, encode(reply, 77)))  # type: ignore[arg-type]
            assert run_through(counted(reply))[1] == codes(reply)


@pytest.mark.parametrize(
    ("count", "yields"), [(SLICE - 1, 0), (SLICE, 0), (SLICE + 1, 1), (2 * SLICE + 1, 1), (2 * SLICE + 2, 2)]
)
def test_so_many_elements_are_decoded_in_a_slice(count: int, yields: int) -> None:
    body = body_of(MetadataRequest([MetadataRequestTopic(name="t")] * count), 9)
    assert run_through(codec.decode_request_in_slices(3, 9)(body, 0))[0] == yields


def test_elements_of_arrays_within_arrays_count() -> None:
    topic = CreatableTopic("t", 1, 1, configs=[CreatableTopicConfig("k", "v")])
    for count, yields in ((SLICE // 2, 0), (SLICE // 2 + 1, 1)):
        body = body_of(CreateTopicsRequest([topic] * count, 1, False), 2)
        assert run_through(codec.decode_request_in_slices(19, 2)(body, 0))[0] == yields


@pytest.mark.parametrize(("count", "yields"), [(NUMBERS, 0), (NUMBERS + 1, 1), (2 * NUMBERS + 1, 2)])
def test_so_many_numbers_are_decoded_in_a_slice(count: int, yields: int) -> None:
    request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", list(range(count)))])
    made, message = run_through(codec.decode_request_in_slices(9, 1)(body_of(request, 1), 0))
    assert made == yields and message.topics[0].partition_indexes == list(range(count))


def test_so_many_bytes_are_decoded_in_a_slice() -> None:
    each = MAX_STRING_BYTES - 1
    count = SLICE_BYTES // each + 2
    body = body_of(MetadataRequest([MetadataRequestTopic(name="t" * each)] * count), 9)
    assert run_through(codec.decode_request_in_slices(3, 9)(body, 0))[0] == 1


def test_unknown_tags_count_as_elements() -> None:
    tags = uvarint(MAX_TAGS) + b"\x63\x00" * MAX_TAGS
    body = uvarint(4) + (b"\x01" + tags) * 3 + b"\0\0\0\0"
    assert run_through(codec.decode_request_in_slices(3, 9)(body, 0))[0] == 2


@pytest.mark.parametrize(
    ("count", "yields"), [(SLICE, 0), (SLICE + 1, 1), (2 * SLICE + 1, 1), (2 * SLICE + 2, 2)]
)
def test_so_many_elements_are_encoded_in_a_slice(count: int, yields: int) -> None:
    reply = MetadataResponse(topics=[MetadataResponseTopic(3, "t")] * count, cluster_id="", controller_id=0)
    made, parts = run_through(codec.encode_response_in_slices(3, 9)(reply, 1))
    assert made == yields and len(parts) == yields + 1
    counts = {3: count}
    assert run_through(error_codes.error_codes_in_slices(3, 9)(reply)) == (yields, counts)


def test_the_size_of_an_answer_in_several_buffers_counts_all_of_them() -> None:
    partitions = [MetadataResponsePartition(0, at, 1, 1, [1], [1], []) for at in range(3 * SLICE)]
    reply = MetadataResponse(topics=[MetadataResponseTopic(0, "t", partitions=partitions)])
    reply.cluster_id, reply.controller_id = "", 0
    _, parts = run_through(codec.encode_response_in_slices(3, 9)(reply, 1))
    whole = b"".join(parts)
    assert len(parts) > 2 and struct.unpack_from(">i", whole)[0] == len(whole) - 4


@pytest.mark.parametrize("size", [MAX_STRING_BYTES - 1, MAX_STRING_BYTES])
def test_a_string_up_to_the_bound_is_read(size: int) -> None:
    body = body_of(MetadataRequest([MetadataRequestTopic(name="t" * size)]), 9)
    assert codec.decode_request(3, 9)(body, 0).topics[0].name == "t" * size  # type: ignore[attr-defined]


def test_a_longer_string_is_refused_as_in_kafka() -> None:
    body = body_of(MetadataRequest([MetadataRequestTopic(name="t" * (MAX_STRING_BYTES + 1))]), 9)
    with pytest.raises(ProtocolViolation, match="name is longer than 32767 bytes"):
        codec.decode_request(3, 9)(body, 0)


@pytest.mark.rotates
@pytest.mark.parametrize(("key", "version"), EVERY)
def test_requests_are_encoded_and_responses_decoded_to_the_same(key: int, version: int) -> None:
    messages = RandomMessages(seed=key * 100 + version)
    for _ in range(5):
        request = messages.request(key, version)
        whole = codec.encode_request(key, version)(request, 7, "client")
        _, sliced = run_through(codec.encode_request_in_slices(key, version)(request, 7, "client"))
        assert b"".join(map(bytes, sliced)) == b"".join(map(bytes, whole))  # type: ignore[arg-type]
        header_version = response_header_version(key, version)
        parts = codec.encode_response(key, version)(messages.response(key, version), 7)
        frame = b"".join(map(bytes, parts))[4:]  # type: ignore[arg-type]
        _, body = codec.parse_response_header(frame, header_version)
        straight = codec.decode_response(key, version)(frame, body)
        assert same(run_through(codec.decode_response_in_slices(key, version)(frame, body))[1], straight)


def test_a_large_request_is_encoded_in_many_slices() -> None:
    topics = [MetadataRequestTopic(name=f"topic-{number}") for number in range(10_000)]
    yields, _ = run_through(codec.encode_request_in_slices(3, 12)(MetadataRequest(topics), 7, "client"))
    assert yields >= 10_000 // SLICE - 1
