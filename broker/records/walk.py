"""Iterates over the batches of a buffer and the records of a batch, which are copied or only located.

Called where the broker reads producers' data: internal topics, and a person's search through a topic
(`partitions.record_reader`), which reads many records and keeps few. Follows Kafka's DefaultRecord. The bytes
may come from a producer, so every length is checked.
"""

from collections.abc import Iterator
from typing import NamedTuple

from broker.common.errors import ApiError, ErrorCode
from broker.records.compression import DEFAULT_LIMIT, decompress
from broker.records.header import HEADER_BYTES, BatchHeader, Buffer, header_at
from broker.records.varint import read_int, read_varint


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


Span = tuple[int, int]
"""Start and end position of some bytes."""


class RecordSpans(NamedTuple):
    """One record. `key` and `value` None: null. `headers` is the position of the number of headers, `end` the
    position after the record. Time in ms.
    """

    offset: int
    timestamp: int
    key: Span | None
    value: Span | None
    headers: int
    end: int


def record_spans(header: BatchHeader, data: Buffer) -> Iterator[RecordSpans]:
    """Yield the records of the batch with this header, whose decompressed records are `data`.

    Raises ApiError CORRUPT_MESSAGE for a record whose length does not fit; the rest of the batch is then
    unreadable.
    """
    at = 0
    for _ in range(header.record_count):
        length, start = read_int(data, at)
        end = start + length
        if length < 0 or end > len(data):
            raise corrupt_record("its length exceeds the batch")
        delta, start = read_varint(data, start + 1)
        offset_delta, start = read_int(data, start)
        key, start = _nullable_span(data, start, end)
        value, start = _nullable_span(data, start, end)
        timestamp = header.max_timestamp if header.uses_append_time else header.base_timestamp + delta
        yield RecordSpans(header.base_offset + offset_delta, timestamp, key, value, start, end)
        at = end


def header_spans(data: Buffer, record: RecordSpans, most: int) -> tuple[int, list[tuple[Span, Span | None]]]:
    """Return the number of a record's headers, and where name and value of the first `most` of them are.

    Raises ApiError CORRUPT_MESSAGE.
    """
    count, at = read_int(data, record.headers)
    # A header has at least two bytes.
    if not 0 <= count <= (record.end - at) // 2:
        raise corrupt_record(f"{count} headers exceed the record")
    found: list[tuple[Span, Span | None]] = []
    for _ in range(min(count, most)):
        name, at = _nullable_span(data, at, record.end)
        value, at = _nullable_span(data, at, record.end)
        if name is None:
            raise corrupt_record("a header key is null")
        found.append((name, value))
    return count, found


def _nullable_span(data: Buffer, at: int, end: int) -> tuple[Span | None, int]:
    length, start = read_int(data, at)
    if length < 0:
        return None, start
    if start + length > end:
        raise corrupt_record("a key or a value exceeds the record")
    return (start, start + length), start + length


def corrupt_record(why: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"A record is corrupt: {why}")
