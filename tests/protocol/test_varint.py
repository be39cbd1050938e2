"""Unsigned varints and tagged sections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.common.errors import ProtocolViolation
from broker.protocol.varint import read_uvarint, skip_tags, uvarint
from tests.protocol import referee


@given(st.integers(0, 2**35 - 1))
def test_reads_what_it_writes(value):
    written = uvarint(value)
    assert written == referee.varint(value)
    assert read_uvarint(b"ab" + written + b"c", 2) == (value, 2 + len(written))


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (16383, b"\xff\x7f"), (16384, b"\x80\x80\x01")],
)
def test_grows_a_byte_every_seven_bits(value, written):
    assert uvarint(value) == written


def test_has_five_bytes_at_most():
    assert read_uvarint(b"\xff\xff\xff\xff\x7f", 0) == (2**35 - 1, 5)
    with pytest.raises(ProtocolViolation, match="five bytes"):
        read_uvarint(b"\xff\xff\xff\xff\x80\x00", 0)


def test_running_off_the_end_is_an_index_error():
    with pytest.raises(IndexError):
        read_uvarint(b"\xff", 0)


@pytest.mark.parametrize("count", [1, 127, 128, 300])
def test_skips_as_many_tags_as_there_are(count):
    section = uvarint(count) + b"\x05\x02ab" * count
    assert skip_tags(section + b"rest", 1, len(section) + 4, section[0]) == len(section)


@pytest.mark.parametrize(("size", "accepted"), [(1, True), (2, True), (3, False), (2**31 - 1, False)])
def test_a_tag_ends_where_the_message_ends_at_the_latest(size, accepted):
    section = b"\x01\x05" + uvarint(size) + b"ab"
    if accepted:
        assert skip_tags(section, 1, len(section), 1) == 3 + size
    else:
        with pytest.raises(ProtocolViolation, match="exceeds the message"):
            skip_tags(section, 1, len(section), 1)
