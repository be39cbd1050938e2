"""The limits on a request's elements: just below, at and above each limit."""

import struct

import pytest

from broker.common.errors import ProtocolViolation
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.compile_decode import MAX_ELEMENTS
from broker.protocol.varint import MAX_TAGS, skip_tags, uvarint

NAMELESS = b"\x01\x00"
END = b"\x00\x00\x00\x00"


def metadata(topics: int) -> bytes:
    return uvarint(topics + 1) + NAMELESS * topics + END


def offsets(*partitions: int) -> bytes:
    """Return an OffsetFetch 1 request: a group, and topics with these numbers of partitions."""
    topics = (struct.pack(">hi", 0, count) + bytes(4 * count) for count in partitions)
    return struct.pack(">hi", 0, len(partitions)) + b"".join(topics)


@pytest.mark.parametrize("count", [MAX_ELEMENTS - 1, MAX_ELEMENTS])
def test_an_array_up_to_the_bound_is_read(count: int) -> None:
    message = codec.decode_request(ApiKey.METADATA, 9)(metadata(count), 0)
    assert len(message.topics) == count  # type: ignore[attr-defined]


def test_an_array_above_the_bound_is_refused() -> None:
    with pytest.raises(ProtocolViolation, match="more than 100000 elements"):
        codec.decode_request(ApiKey.METADATA, 9)(metadata(MAX_ELEMENTS + 1), 0)


def test_arrays_within_arrays_are_counted_together() -> None:
    decode = codec.decode_request(ApiKey.OFFSET_FETCH, 1)
    half = (MAX_ELEMENTS - 2) // 2
    assert len(decode(offsets(half, half), 0).topics) == 2  # type: ignore[attr-defined]
    with pytest.raises(ProtocolViolation, match="more than 100000 elements"):
        decode(offsets(half, half + 1), 0)


def test_an_answer_may_hold_more() -> None:
    """Only requests are limited, because the broker creates its own responses."""
    answer = uvarint(1) + uvarint(0) + struct.pack(">i", 1) + uvarint(MAX_ELEMENTS + 2)
    topics = (b"\x00\x00\x01\x00\x01" + END + b"\x00") * (MAX_ELEMENTS + 1)
    message = codec.decode_response(ApiKey.METADATA, 9)(b"\0\0\0\0" + answer + topics + END + b"\x00", 0)
    assert len(message.topics) == MAX_ELEMENTS + 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("count", [MAX_TAGS - 1, MAX_TAGS])
def test_unknown_tags_up_to_the_bound_are_skipped(count: int) -> None:
    section = uvarint(count) + b"\x63\x00" * count
    assert skip_tags(section, 1, len(section), section[0]) == len(section)


def test_unknown_tags_above_the_bound_are_refused() -> None:
    section = uvarint(MAX_TAGS + 1) + b"\x63\x00" * (MAX_TAGS + 1)
    with pytest.raises(ProtocolViolation, match="1001 tagged fields in one struct, the maximum is 1000"):
        skip_tags(section, 1, len(section), section[0])
