"""Reading and caching the client id of a frame."""

import struct

import pytest

from broker.errors import ProtocolViolation
from broker.network.handling.client_id import KEPT_ID_BYTES, client_id_and_body


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
