"""Validation of produced batches."""

import struct

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.records.build import NewRecord, build_batch
from broker.records.header import CRC, CRC_AT, CRC_FROM, HEADER_BYTES, header_at
from broker.records.validate import check_batch, crc32c
from tests.support.batches import is_whole

MEGABYTE = 1_048_576


def batch(*, records: int = 3, **more: int) -> memoryview:
    return build_batch([NewRecord(b"k", b"v", 1_000 + at) for at in range(records)], **more)  # type: ignore[arg-type]


def patched(at: int, form: str, value: int, of: memoryview | None = None) -> memoryview:
    """Return the batch with another header value and a matching CRC."""
    changed = of or batch()
    struct.pack_into(form, changed, at, value)
    CRC.pack_into(changed, CRC_AT, crc32c(changed[CRC_FROM:]))
    return changed


def refusal(of: memoryview, max_bytes: int = MEGABYTE) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        check_batch(of, max_bytes, 1_000_000)
    return caught.value.code


def test_a_good_batch_gives_its_header():
    good = batch(records=3, producer_id=7, producer_epoch=1, base_sequence=9)
    assert check_batch(good, MEGABYTE, 1_000_000) == tuple(header_at(good))
    assert header_at(good).record_count == 3
    assert is_whole(good)


@pytest.mark.parametrize(("spare", "taken"), [(-1, False), (0, True), (1, True)])
def test_a_batch_may_have_exactly_the_largest_size(spare, taken):
    good = batch()
    if taken:
        check_batch(good, len(good) + spare, 1_000_000)
    else:
        assert refusal(good, len(good) + spare) is ErrorCode.MESSAGE_TOO_LARGE


def test_every_flipped_bit_behind_the_epoch_is_found():
    good = batch(records=1)
    for at in range(CRC_AT, len(good)):
        for bit in range(8):
            flipped = memoryview(bytearray(good))
            flipped[at] ^= 1 << bit
            assert refusal(flipped) is ErrorCode.CORRUPT_MESSAGE
            assert not is_whole(flipped)


def test_nothing_is_no_batch():
    assert refusal(memoryview(bytearray())) is ErrorCode.INVALID_RECORD
    assert not is_whole(b"")


@pytest.mark.parametrize("size", [1, 12, 60])
def test_less_than_a_header_is_no_batch(size):
    assert refusal(batch()[:size]) is ErrorCode.INVALID_RECORD
    assert not is_whole(batch()[:size])


def test_a_batch_that_is_cut_off_is_refused():
    assert refusal(batch()[:-1]) is ErrorCode.INVALID_RECORD


def test_two_batches_are_refused():
    assert refusal(memoryview(bytearray(bytes(batch()) * 2))) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("length", [-(2**31), -1, 0, HEADER_BYTES - 13])
def test_a_length_below_a_header_is_corrupt(length):
    assert refusal(patched(8, ">i", length)) is ErrorCode.CORRUPT_MESSAGE


def test_a_length_beyond_the_buffer_is_refused():
    assert refusal(patched(8, ">i", 2**31 - 1)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("magic", "code"),
    [
        (-1, ErrorCode.CORRUPT_MESSAGE),
        (0, ErrorCode.INVALID_RECORD),
        (1, ErrorCode.INVALID_RECORD),
        (3, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_other_magics_are_refused(magic, code):
    assert refusal(patched(16, ">b", magic)) is code


@pytest.mark.parametrize("count", [-1, 0, 2, 4, 2**31 - 1])
def test_a_count_that_contradicts_the_offsets_is_refused(count):
    assert refusal(patched(57, ">i", count)) is ErrorCode.INVALID_RECORD


def test_no_records_are_refused_even_if_the_offsets_agree():
    nothing = patched(57, ">i", 0)
    assert refusal(patched(23, ">i", -1, nothing)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("codec", "taken"), [(4, True), (5, False), (7, False)])
def test_unknown_codecs_are_refused(codec, taken):
    of = patched(21, ">h", codec)
    if taken:
        check_batch(of, MEGABYTE, 1_000_000)
    else:
        assert refusal(of) is ErrorCode.INVALID_RECORD


def test_an_idempotent_batch_needs_a_sequence():
    assert refusal(batch(producer_id=0, producer_epoch=0, base_sequence=-1)) is ErrorCode.INVALID_RECORD
    check_batch(batch(producer_id=0, producer_epoch=0, base_sequence=0), MEGABYTE, 1_000_000)
    check_batch(batch(producer_id=-1, producer_epoch=-1, base_sequence=-1), MEGABYTE, 1_000_000)


@pytest.mark.parametrize(("most", "taken"), [(2, False), (3, True), (4, True)])
def test_a_batch_has_a_limited_number_of_records(most, taken):
    made = build_batch([NewRecord(None, b"v", 1)] * 3)
    if taken:
        check_batch(made, MEGABYTE, most)
    else:
        with pytest.raises(ApiError) as caught:
            check_batch(made, MEGABYTE, most)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
