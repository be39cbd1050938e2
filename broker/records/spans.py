"""Finds the records of a decompressed batch without copying them: where each key, value and header is.

Called by `partitions.record_reader`, which reads many records and keeps few. `walk` copies every record.
The bytes may come from a producer, so every length is checked.
"""

from collections.abc import Iterator
from typing import NamedTuple

from broker.records.header import BatchHeader, Buffer
from broker.records.varint import read_int, read_varint
from broker.records.walk import corrupt_record

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
        key, start = _nullable(data, start, end)
        value, start = _nullable(data, start, end)
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
        name, at = _nullable(data, at, record.end)
        value, at = _nullable(data, at, record.end)
        if name is None:
            raise corrupt_record("a header key is null")
        found.append((name, value))
    return count, found


def _nullable(data: Buffer, at: int, end: int) -> tuple[Span | None, int]:
    length, start = read_int(data, at)
    if length < 0:
        return None, start
    if start + length > end:
        raise corrupt_record("a key or a value exceeds the record")
    return (start, start + length), start + length
