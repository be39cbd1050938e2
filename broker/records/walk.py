"""Iterates over the batches of a buffer and the records of a batch.

Called where the broker reads producers' data: internal topics, and, for decompression, `inspect`. Follows
Kafka's DefaultRecord. The bytes may come from a producer, so every length is checked.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.records.compression import DEFAULT_LIMIT, Codec, decompress
from broker.records.header import HEADER_BYTES, Buffer, header_at
from broker.records.thread_work import Unpack
from broker.records.varint import read_int, read_varint

_PACKED_AT_ONCE: Final = 16_384
UNPACKED_AT_ONCE: Final = 65_536
"""A batch within both limits is decompressed without a thread, in less than 0.3 ms; our own limit."""


class Record(NamedTuple):
    """Times in ms. Header names are text, header values bytes or None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def batches(buffer: Buffer) -> Iterator[memoryview]:
    """Yield the complete batches as views; a truncated last batch, as in fetches, is skipped.

    Raises ApiError CORRUPT_MESSAGE for an impossible length.
    """
    view = memoryview(buffer)
    at = 0
    while at + HEADER_BYTES <= len(view):
        header = header_at(view, at)
        if header.size < HEADER_BYTES:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Impossible batch length {header.length}")
        if at + header.size > len(view):
            return
        yield view[at : at + header.size]
        at += header.size


def records(batch: Buffer, *, limit: int = DEFAULT_LIMIT) -> Iterator[Record]:
    """Yield the records of one whole batch, decompressed if necessary.

    Raises ApiError: CORRUPT_MESSAGE (including fewer records than the header states), RECORD_LIST_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE.
    """
    header = header_at(batch)
    data = decompress(header.codec, memoryview(batch)[HEADER_BYTES:], limit=limit)
    if not isinstance(data, bytes):
        data = bytes(data)
    at = 0
    for _ in range(header.record_count):
        length, start = read_int(data, at)
        at = start + length
        if length < 0 or at > len(data):
            raise corrupt_record("its length exceeds the batch")
        delta, start = read_varint(data, start + 1)
        offset_delta, start = read_int(data, start)
        key, start = _nullable(data, start, at)
        value, start = _nullable(data, start, at)
        count, start = read_int(data, start)
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if count:
            headers, start = _headers(data, start, at, count)
        if start != at:
            raise corrupt_record("its length does not match its parts")
        timestamp = header.max_timestamp if header.uses_append_time else header.base_timestamp + delta
        yield Record(header.base_offset + offset_delta, timestamp, key, value, headers)
    if at != len(data):
        raise corrupt_record("data follows the last record")


def unpacked(batch: Buffer) -> Slices[Buffer]:
    """Return the bytes of a batch's records, decompressed. Raises ApiError as `decompress`."""
    codec = header_at(batch).codec
    packed = memoryview(batch)[HEADER_BYTES:]
    if codec == Codec.NONE:
        return packed
    if len(packed) <= _PACKED_AT_ONCE:
        try:
            return decompress(codec, packed, limit=UNPACKED_AT_ONCE)
        except ApiError as error:
            if error.code != ErrorCode.RECORD_LIST_TOO_LARGE:
                raise
    unpack = Unpack(codec, packed)
    yield unpack
    return unpack.data


def _nullable(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, start = read_int(data, at)
    if length < 0:
        return None, start
    if start + length > end:
        raise corrupt_record("a key or a value exceeds the record")
    return data[start : start + length], start + length


def _headers(data: bytes, at: int, end: int, count: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    # A header has at least two bytes.
    if not 0 <= count <= (end - at) // 2:
        raise corrupt_record(f"{count} headers exceed the record")
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _nullable(data, at, end)
        value, at = _nullable(data, at, end)
        if name is None:
            raise corrupt_record("a header key is null")
        found.append((name.decode(errors="replace"), value))
    return tuple(found), at


def corrupt_record(why: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"A record is corrupt: {why}")
