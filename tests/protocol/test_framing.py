"""How long the next request is, around every limit."""

import struct

import pytest

from broker.errors import ProtocolViolation
from broker.protocol.framing import frame_size


@pytest.mark.parametrize("size", [0, 1, 99, 100])
def test_a_size_up_to_the_limit_is_taken(size):
    for buffer in (bytes, bytearray, memoryview):
        assert frame_size(buffer(struct.pack(">i", size)), 100) == size


@pytest.mark.parametrize(
    "size", [101, 2**31 - 1, int.from_bytes(b"GET ", "big"), int.from_bytes(b"\x16\x03\x01\x02", "big")]
)
def test_a_size_over_the_limit_is_a_violation(size):
    with pytest.raises(ProtocolViolation, match=rf"Invalid receive \(size = {size} larger than 100\)"):
        frame_size(struct.pack(">i", size), 100)


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_negative_size_is_a_violation(size):
    with pytest.raises(ProtocolViolation, match=rf"Invalid receive \(size = {size}\)"):
        frame_size(struct.pack(">i", size), 100)
