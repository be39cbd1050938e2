"""compression.type of a topic: each batch is stored as the topic says, whatever its producer chose."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.log.partition import PartitionLog
from broker.records.compression import Codec
from broker.records.header import header_at
from broker.records.packing import UNPACKED_AT_ONCE, CodecWork
from tests.log.cleaner.harness import keyed
from tests.log.harness import NOW, all_records, append, make
from tests.support.batches import with_header

NAMES = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def stored(log: PartitionLog) -> bytes:
    return log.read(0, 1_000_000, min_one_batch=True).read()


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("name", [*NAMES, "producer"])
def test_a_batch_is_stored_with_the_codec_of_its_topic(store, name, codec):
    log = make(store, compression_type=name)
    made = keyed(("a", "x" * 500), ("b", None), codec=codec, producer=(7, 1, 5), timestamp=NOW)
    was = header_at(made)
    append(log, made)
    header = header_at(stored(log))
    assert header.codec == NAMES.get(name, codec)
    for field in (
        "base_timestamp",
        "max_timestamp",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "record_count",
    ):
        assert getattr(header, field) == getattr(was, field)
    assert [(each.offset, each.timestamp, each.key, each.value) for each in all_records(log)] == [
        (0, NOW, b"a", b"x" * 500),
        (1, NOW + 1, b"b", None),
    ]
    if header.codec == codec:
        assert stored(log)[17:] == bytes(made)[17:]  # the same bytes behind what the broker writes


def test_the_broker_s_time_is_kept_beside_another_codec(store):
    log = make(store, compression_type="zstd", message_timestamp_type="LogAppendTime")
    (staged,) = append(log, keyed(("a", "1"), timestamp=5))
    assert staged.log_append_time == NOW
    assert [each.timestamp for each in all_records(log)] == [NOW]


def test_a_retry_of_a_batch_that_was_compressed_anew_is_recognized(store):
    log = make(store, compression_type="gzip")
    (first,) = append(log, keyed(("a", "1"), producer=(7, 0, 0)))
    (again,) = append(log, keyed(("a", "1"), producer=(7, 0, 0)))
    assert again.duplicate and again.base_offset == first.base_offset == 0


def test_a_batch_that_grows_beyond_the_limit_is_refused(store):
    made = keyed(("a", "x" * 5_000), codec=Codec.GZIP)
    log = make(store, compression_type="uncompressed", max_message_bytes=len(made))
    with pytest.raises(ApiError) as caught:
        append(log, made)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert log.high_watermark == 0


def test_what_cannot_be_decompressed_is_refused(store):
    log = make(store, compression_type="lz4")
    made = keyed(("a", "x" * 100), codec=Codec.ZSTD)
    made[-1] ^= 0xFF
    broken = memoryview(with_header(bytes(made)))
    with pytest.raises(ApiError) as caught:
        append(log, broken)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("length", "in_thread"), [(100, False), (UNPACKED_AT_ONCE, True)])
def test_a_large_batch_is_compressed_in_a_thread(store, length, in_thread):
    log = make(store, compression_type="gzip")
    steps = [step for step in log.inspect(keyed(("a", "x" * length)), NOW) if isinstance(step, CodecWork)]
    assert bool(steps) is in_thread


def test_the_batches_of_the_broker_itself_stay_as_they_are(store):
    log = make(store, compression_type="zstd")
    log.stage(keyed(("a", "x" * 100)), now_wall_ms=NOW, internal=True)
    log.commit()
    assert header_at(stored(log)).codec == Codec.NONE


def test_inspection_returns_the_batch_itself_where_nothing_changes(store):
    made = keyed(("a", "1"), codec=Codec.ZSTD)
    for name in ("producer", "zstd"):
        assert run_through(make(store, compression_type=name).inspect(made, NOW)) is made
