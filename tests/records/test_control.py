"""Markers, byte by byte."""

import pytest

from broker.common.errors import ApiError
from broker.records.build import NewRecord, build_batch
from broker.records.control import Marker, build_marker, marker_of
from broker.records.header import CONTROL_FLAG, TRANSACTIONAL_FLAG, header_at
from broker.records.walk import records


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_has_kafka_s_layout(is_commit: bool) -> None:
    batch = build_marker(Marker(is_commit, 3), 7, 2, 1_000)
    header = header_at(batch)
    assert (header.attributes, header.producer_id, header.producer_epoch) == (0x30, 7, 2)
    assert (header.base_sequence, header.record_count, header.max_timestamp) == (-1, 1, 1_000)
    (record,) = records(batch)
    assert (record.key, record.value) == (bytes([0, 0, 0, is_commit]), b"\0\0\0\0\0\x03")
    assert marker_of(batch) == Marker(is_commit, 3)


def control(key: bytes | None, value: bytes | None) -> memoryview:
    return build_batch([NewRecord(key, value, 0)], attributes=CONTROL_FLAG | TRANSACTIONAL_FLAG)


def test_other_control_records_are_no_markers() -> None:
    assert marker_of(control(b"\0\0\0\2", b"")) is None


@pytest.mark.parametrize(
    ("key", "value"), [(None, b"x"), (b"\0\0\0", b""), (b"\0\0\0\1", b"\0\0\0"), (b"\0\0\0\1", None)]
)
def test_a_short_marker_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ApiError):
        marker_of(control(key, value))
