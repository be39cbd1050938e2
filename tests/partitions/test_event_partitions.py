"""Which batches of events are compressed."""

import pytest

from broker.partitions.event_log import COMPRESSED_FROM, RECORD_OVERHEAD, codec_of, size_of
from broker.records.build import NewRecord
from broker.records.compression import Codec


def records(*sizes: int) -> list[NewRecord]:
    return [NewRecord(None, bytes(size - RECORD_OVERHEAD), 0) for size in sizes]


@pytest.mark.parametrize(("more", "codec"), [(-1, Codec.NONE), (0, Codec.LZ4), (1, Codec.LZ4)])
def test_batches_are_compressed_from_a_size(more: int, codec: Codec) -> None:
    batch = records(500, COMPRESSED_FROM - 500 + more)
    assert sum(map(size_of, batch)) == COMPRESSED_FROM + more
    assert codec_of(batch) is codec


def test_a_single_record_is_never_compressed() -> None:
    assert codec_of(records(COMPRESSED_FROM * 2)) is Codec.NONE
