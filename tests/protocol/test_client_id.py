"""Reading and caching the client id of a frame."""

import random
import struct

import pytest
from kio.schema.request_header.v1.header import RequestHeader as KioV1
from kio.schema.request_header.v2.header import RequestHeader as KioV2

from broker.common.errors import ProtocolViolation
from broker.protocol.client_id import KEPT_ID_BYTES, client_id_and_body
from tests.protocol import referee
from tests.support.headers import parse_request_header


def frame(length: int, rest: bytes) -> bytes:
    return struct.pack(">hhih", 18, 0, 1, length) + rest


@pytest.mark.parametrize(("length", "client_id"), [(0, ""), (5, "short"), (-1, None)])
def test_a_frame_may_end_with_its_client_id(length: int, client_id: str | None) -> None:
    name = (client_id or "").encode()
    for _ in range(2):
        assert client_id_and_body(frame(length, name), False) == (client_id, 10 + len(name))


@pytest.mark.parametrize("length", [6, 500, 0x7FFF])
def test_a_client_id_beyond_its_frame_is_refused_though_what_is_there_of_it_is_known(length: int) -> None:
    assert client_id_and_body(frame(5, b"short"), False) == ("short", 15)
    with pytest.raises(ProtocolViolation, match=f"invalid client id: {length} bytes in a frame of 15"):
        client_id_and_body(frame(length, b"short"), False)


@pytest.mark.parametrize("length", [KEPT_ID_BYTES, KEPT_ID_BYTES + 1])
def test_a_long_client_id_is_read_like_any_other(length: int) -> None:
    for _ in range(2):
        assert client_id_and_body(frame(length, b"x" * length), False) == ("x" * length, 10 + length)


def test_tags_are_passed_over_in_flexible_versions() -> None:
    assert client_id_and_body(frame(2, b"ab\x01\x00\x01z!"), True) == ("ab", 16)
    with pytest.raises(ProtocolViolation, match="truncated request header"):
        client_id_and_body(frame(2, b"ab"), True)


def kio_frame(key, version, correlation_id, client_id, tail=b""):
    kio = KioV2 if version >= 9 else KioV1
    fields = {"request_api_key": key, "request_api_version": version, "correlation_id": correlation_id}
    return referee.their_bytes(kio(**fields, client_id=client_id)) + tail


@pytest.mark.parametrize("client_id", [None, "", "c", "käse", "x" * 32767])
@pytest.mark.parametrize("version", [8, 9])
def test_reads_what_kio_writes(version, client_id):
    written = kio_frame(0, version, -5, client_id, b"body")
    for buffer in (written, bytearray(written), memoryview(written)):
        header = parse_request_header(buffer)
        assert (header.api_key, header.version, header.correlation_id) == (0, version, -5)
        assert header.client_id == client_id
        assert buffer[header.body_offset :] == b"body"


def test_tags_of_the_header_are_skipped():
    written = kio_frame(0, 9, 1, "c")[:-1] + b"\x02\x00\x03abc\x90\x4e\x00" + b"body"
    assert written[parse_request_header(written).body_offset :] == b"body"


def test_a_null_client_id_may_be_any_negative_length_as_in_kafka():
    assert parse_request_header(struct.pack(">hhih", 0, 8, 1, -7)).client_id is None


def test_a_version_that_is_not_served_is_read_all_the_same():
    header = parse_request_header(kio_frame(18, 99, 7, "c"))
    assert (header.version, header.client_id, header.body_offset) == (99, "c", 12)


@pytest.mark.parametrize("api_key", [-1, 95, 0x4745])
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
    written = kio_frame(0, 9, 1, "client")
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
