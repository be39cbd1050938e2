"""Inspection of records: which batches, the corrected header, and the limit per commit."""

from typing import Any

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.log.partition import BYTES_PER_RECORD, MAX_INSPECTED_RECORDS, PartitionLog
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from broker.records.header import HEADER_BYTES, header_at
from broker.records.validate import check_batch
from tests.log.harness import NOW, append, make
from tests.support.batches import recounted, with_header

HOUR = 3_600_000


def batch(*times: int, codec: Codec = Codec.SNAPPY, key: bytes | None = b"k") -> memoryview:
    return build_batch([NewRecord(key, b"v", time) for time in times], codec=codec)


def refusal(log: PartitionLog, made: Any) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        log.stage(memoryview(made), now_wall_ms=NOW)
    assert log.next_offset == 0
    return ErrorCode(caught.value.code)


@pytest.mark.parametrize(
    ("settings", "read"),
    [
        ({}, [1, 2, 3, 4]),
        ({"record_validation": "compressed"}, [1, 2, 3, 4]),
        ({"record_validation": "full"}, [0, 1, 2, 3, 4]),
        ({"record_validation": "header"}, []),
        ({"record_validation": "header", "cleanup_policy": ("compact",)}, [0, 1, 2, 3, 4]),
        ({"record_validation": "header", "message_timestamp_before_max_ms": HOUR}, [0, 1, 2, 3, 4]),
        ({"record_validation": "header", "max_decompressed_message_bytes": 2_147_483_639}, []),
        ({"record_validation": "header", "max_decompressed_message_bytes": 2_147_483_638}, [1, 2, 3, 4]),
    ],
    ids=str,
)
def test_the_topic_says_of_which_batches_the_records_are_read(
    store: Any, settings: dict[str, Any], read: list[int]
) -> None:
    log = make(store, **settings)
    refused = []
    for codec in Codec:
        try:
            log.stage(memoryview(recounted(batch(NOW, codec=codec), 2)), now_wall_ms=NOW)
        except ApiError as error:
            refused.append((int(codec), error.code))
    assert refused == [(codec, ErrorCode.INVALID_RECORD) for codec in read]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("largest", [0, NOW - 1, NOW + 5, NOW + 9 * HOUR])
def test_the_header_gets_the_largest_timestamp_of_the_records(store: Any, codec: Codec, largest: int) -> None:
    """As in Kafka, ListOffsets, retention and segment.ms do not depend on a producer's claim."""
    log = make(store, record_validation="full")
    made = memoryview(with_header(batch(NOW, NOW + 7, NOW + 3, codec=codec), max_timestamp=largest))
    (staged,) = append(log, made)
    assert staged.max_timestamp == header_at(made).max_timestamp == NOW + 7
    check_batch(made, 1_000, 1_000)  # the CRC matches the stored bytes


def test_the_header_is_believed_where_no_record_is_read(store: Any) -> None:
    log = make(store, record_validation="header")
    made = memoryview(with_header(batch(NOW), max_timestamp=NOW - 5))
    (staged,) = append(log, made)
    assert staged.max_timestamp == header_at(made).max_timestamp == NOW - 5


@pytest.mark.parametrize(("ahead", "taken"), [(HOUR - 1, True), (HOUR, True), (HOUR + 1, False)])
def test_a_record_from_the_future_does_not_hide_behind_its_header(
    store: Any, ahead: int, taken: bool
) -> None:
    log = make(store)
    made = memoryview(with_header(batch(NOW, NOW + ahead), max_timestamp=NOW))
    if taken:
        append(log, made)
    else:
        assert refusal(log, made) is ErrorCode.INVALID_TIMESTAMP


def test_where_the_broker_s_time_counts_the_records_times_do_not(store: Any) -> None:
    log = make(store, message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=1)
    made = batch(0, -5, NOW + 9 * HOUR)
    (staged,) = append(log, made)
    assert staged.log_append_time == header_at(made).max_timestamp == NOW
    check_batch(made, 1_000, 1_000)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"attributes": 0x20 | Codec.SNAPPY}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x10 | Codec.SNAPPY}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"attributes": 0x08 | Codec.SNAPPY}, ErrorCode.INVALID_TIMESTAMP),
        ({"base_offset": 1}, ErrorCode.INVALID_RECORD),
        ({"attributes": 5}, ErrorCode.INVALID_RECORD),
        ({"attributes": 7}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 5}, ErrorCode.INVALID_RECORD),
        ({"record_count": 0, "last_offset_delta": -1}, ErrorCode.INVALID_RECORD),
        ({"magic": 0}, ErrorCode.INVALID_RECORD),
        ({"magic": 1}, ErrorCode.INVALID_RECORD),
        ({"magic": 3}, ErrorCode.CORRUPT_MESSAGE),
        ({"crc": 1}, ErrorCode.CORRUPT_MESSAGE),
        ({"producer_id": 1, "producer_epoch": 0, "base_sequence": -1}, ErrorCode.INVALID_RECORD),
    ],
    ids=str,
)
def test_a_wrong_header_is_refused_before_records_are_unpacked(
    store: Any, monkeypatch: pytest.MonkeyPatch, fields: dict[str, int], expected: ErrorCode
) -> None:
    monkeypatch.setattr("broker.log.partition.check_records", None)
    assert refusal(make(store), with_header(batch(NOW), **fields)) is expected


def test_a_repeated_batch_is_read_again_and_not_written_again(store: Any) -> None:
    """As in Kafka, records are validated before the producer's sequence is checked."""
    log = make(store)
    new = [NewRecord(b"k", b"v", NOW)]
    sent = build_batch(new, codec=Codec.LZ4, producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, memoryview(bytearray(sent)))
    (again,) = append(log, memoryview(bytearray(sent)))
    assert again.duplicate and log.next_offset == 1
    with pytest.raises(ApiError) as caught:
        log.stage(memoryview(recounted(sent, 2)), now_wall_ms=NOW)
    assert caught.value.code == ErrorCode.INVALID_RECORD


def pauses(log: PartitionLog, made: memoryview) -> list[Any]:
    return list(log.inspect(made, NOW))


@pytest.mark.parametrize(("records", "pauses_then"), [(-1, 0), (0, 0), (1, 1)])
def test_inspected_bytes_between_two_commits_are_bounded(store: Any, records: int, pauses_then: int) -> None:
    """Beyond the bound, inspection starts with a pause for every partition until the next commit."""
    logs = [make(store, index=index) for index in range(2)]
    one = batch(NOW, codec=Codec.GZIP)
    assert len(one) < BYTES_PER_RECORD
    for _ in range(MAX_INSPECTED_RECORDS + records):
        assert pauses(logs[0], one) == []
    assert pauses(logs[1], one) == [None] * pauses_then
    if pauses_then:
        assert pauses(logs[0], one) == [None]
        store.commit()
        assert pauses(logs[0], one) == []


def test_compressed_bytes_count_for_what_is_read(store: Any) -> None:
    log = make(store)
    noise = bytes(range(256)) * 32
    made = build_batch([NewRecord(b"k", noise, NOW)])
    each = 1 + len(made) // BYTES_PER_RECORD
    assert len(made) > HEADER_BYTES + 8_000
    for _ in range(MAX_INSPECTED_RECORDS // each + 1):
        assert pauses(log, made) == []
    assert pauses(log, made) == [None]
