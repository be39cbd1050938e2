"""Where the parts of records are, and damaged lengths."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.records.build import NewRecord, build_batch
from broker.records.header import HEADER_BYTES, header_at
from broker.records.walk import header_spans, record_spans, records
from tests.support.batches import TIME, packed_as, record, varint

HEADERS = (("a", b"1"), ("", None), ("b", b""))


def parts(batch: memoryview) -> list[tuple[int, int, bytes | None, bytes | None]]:
    data = batch[HEADER_BYTES:]

    def cut(span: tuple[int, int] | None) -> bytes | None:
        return None if span is None else bytes(data[span[0] : span[1]])

    return [
        (each.offset, each.timestamp, cut(each.key), cut(each.value))
        for each in record_spans(header_at(batch), data)
    ]


def test_records_are_where_the_copying_reader_finds_them() -> None:
    made = [NewRecord(b"k", b"v" * 300, TIME), NewRecord(None, b"", TIME + 5), NewRecord(b"", None, TIME - 9)]
    batch = build_batch(made)
    assert parts(batch) == [(each.offset, each.timestamp, each.key, each.value) for each in records(batch)]


@pytest.mark.parametrize("most", [2, 3, 4])
def test_the_first_headers_are_found_and_all_are_counted(most: int) -> None:
    batch = build_batch([NewRecord(None, None, TIME, HEADERS)])
    data = batch[HEADER_BYTES:]
    (found,) = record_spans(header_at(batch), data)
    count, spans = header_spans(data, found, most)
    assert count == 3
    assert [(bytes(data[slice(*name)]), value and bytes(data[slice(*value)])) for name, value in spans] == [
        (b"a", b"1"),
        (b"", None),
        (b"b", b""),
    ][:most]


@pytest.mark.parametrize(
    "body",
    [
        record(length=99),
        record(length=-1),
        record()[:1] + b"\0\0\0" + varint(50) + b"k",
        b"",
        b"\xff" * 12,
    ],
)
def test_a_record_that_exceeds_its_batch_is_corrupt(body: bytes) -> None:
    batch = memoryview(packed_as(body, 0, 1))
    with pytest.raises(ApiError) as refused:
        list(record_spans(header_at(batch), batch[HEADER_BYTES:]))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("headers", [varint(9), varint(-1), varint(1) + varint(-1) + varint(-1)])
def test_headers_that_exceed_their_record_are_corrupt(headers: bytes) -> None:
    batch = memoryview(packed_as(record(headers=headers), 0, 1))
    data = batch[HEADER_BYTES:]
    (found,) = record_spans(header_at(batch), data)
    with pytest.raises(ApiError) as refused:
        header_spans(data, found, 9)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
