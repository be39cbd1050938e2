"""Request and response headers."""

import random
import struct

import pytest
from kio.schema.request_header.v1.header import RequestHeader as KioV1
from kio.schema.request_header.v2.header import RequestHeader as KioV2

from broker.errors import ProtocolViolation
from broker.protocol.header import parse_request_header, parse_response_header
from tests.protocol import referee


def frame(key, version, correlation_id, client_id, tail=b""):
    kio = KioV2 if version >= 9 else KioV1
    fields = {"request_api_key": key, "request_api_version": version, "correlation_id": correlation_id}
    return referee.their_bytes(kio(**fields, client_id=client_id)) + tail


@pytest.mark.parametrize("client_id", [None, "", "c", "käse", "x" * 32767])
@pytest.mark.parametrize("version", [8, 9])
def test_reads_what_kio_writes(version, client_id):
    written = frame(0, version, -5, client_id, b"body")
    for buffer in (written, bytearray(written), memoryview(written)):
        header = parse_request_header(buffer)
        assert (header.api_key, header.version, header.correlation_id) == (0, version, -5)
        assert header.client_id == client_id
        assert buffer[header.body_offset :] == b"body"


def test_tags_of_the_header_are_skipped():
    written = frame(0, 9, 1, "c")[:-1] + b"\x02\x00\x03abc\x90\x4e\x00" + b"body"
    assert written[parse_request_header(written).body_offset :] == b"body"


def test_a_null_client_id_may_be_any_negative_length_as_in_kafka():
    assert parse_request_header(struct.pack(">hhih", 0, 8, 1, -7)).client_id is None


def test_a_version_that_is_not_served_is_read_all_the_same():
    header = parse_request_header(frame(18, 99, 7, "c"))
    assert (header.version, header.client_id, header.body_offset) == (99, "c", 12)


@pytest.mark.parametrize("api_key", [-1, 93, 0x4745])
def test_a_key_that_kafka_never_gave_out_is_a_violation(api_key):
    with pytest.raises(ProtocolViolation, match=f"unknown API key {api_key}"):
        parse_request_header(struct.pack(">hhih", api_key, 0, 1, -1))


@pytest.mark.parametrize(("length", "accepted"), [(2, True), (3, True), (4, False), (32767, False)])
def test_the_client_id_ends_where_the_request_ends_at_the_latest(length, accepted):
    written = struct.pack(">hhih", 0, 8, 1, length) + b"abc"
    if accepted:
        assert parse_request_header(written).client_id == "abc"[:length]
    else:
        with pytest.raises(ProtocolViolation):
            parse_request_header(written)


def test_every_truncation_is_a_violation():
    written = frame(0, 9, 1, "client")
    for length in range(len(written)):
        with pytest.raises(ProtocolViolation):
            parse_request_header(written[:length])


def test_garbage_is_read_or_violates_and_nothing_else():
    rng = random.Random(2)
    refused = 0
    for _ in range(20_000):
        garbage = struct.pack(">hhi", rng.randrange(-1, 94), rng.randrange(20), 1) + rng.randbytes(
            rng.randrange(20)
        )
        try:
            assert parse_request_header(garbage).body_offset <= len(garbage)
        except ProtocolViolation:
            refused += 1
    assert 0 < refused < 20_000


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
