"""Varints of records."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from broker.common.errors import ApiError, ErrorCode
from broker.records.varint import read_varint, write_varint

LEAST, MOST = -(2**63), 2**63 - 1


def written(value: int) -> bytes:
    into = bytearray()
    write_varint(value, into)
    return bytes(into)


@settings(deadline=None)
@given(some.integers(LEAST, MOST), some.binary(max_size=3))
def test_written_varints_are_read(value, behind):
    encoded = written(value)
    assert read_varint(encoded + behind, 0) == (value, len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\x00"),
        (-1, b"\x01"),
        (1, b"\x02"),
        (63, b"\x7e"),
        (64, b"\x80\x01"),
        (-64, b"\x7f"),
        (-65, b"\x81\x01"),
    ],
)
def test_small_numbers_are_small(value, encoded):
    assert written(value) == encoded


@pytest.mark.parametrize("value", [LEAST, MOST])
def test_the_largest_numbers_have_ten_bytes(value):
    assert len(written(value)) == 10


@pytest.mark.parametrize("encoded", [b"", b"\x80", b"\xff" * 9, b"\xff" * 10, b"\x80" * 10 + b"\x01"])
def test_endless_and_cut_numbers_are_corrupt(encoded):
    with pytest.raises(ApiError) as caught:
        read_varint(encoded, 0)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
