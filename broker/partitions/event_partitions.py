"""Divides the records of an event topic into batches for its partitions: a broker's own, or a gateway's in
the upstream cluster.
"""

from collections.abc import Iterator
from typing import Final
from zlib import crc32

from broker.records.build import NewRecord
from broker.records.compression import Codec

BATCH_BYTES: Final = 256 * 1024
"""Bytes of records after which a new batch starts."""

COMPRESSED_FROM: Final = 1_024
"""Bytes of records from which a batch is compressed. A quiet broker's batches are smaller, so it never loads
the codecs' library, which would be 2 MB of its memory.
"""

RECORD_OVERHEAD: Final = 64
"""Approximate bytes of a record beyond its key, value and headers."""


class EventPartitions:
    """A record's key decides its partition (librdkafka's `consistent` partitioner); batches of records
    without a key go to the partitions in turn.
    """

    def __init__(self) -> None:
        self._turn = 0

    def divide(self, records: list[NewRecord], count: int) -> Iterator[tuple[int, list[NewRecord]]]:
        """Yield the batches of each of `count` partitions."""
        keyed: dict[int, list[NewRecord]] = {}
        others = []
        for record in records:
            if record.key is None:
                others.append(record)
            else:
                keyed.setdefault(crc32(record.key) % count, []).append(record)
        for partition, part in keyed.items():
            for batch in in_batches(part):
                yield partition, batch
        for batch in in_batches(others):
            yield self._turn % count, batch
            self._turn += 1


def codec_of(batch: list[NewRecord]) -> Codec:
    """Compress batches, because names repeat; a single record is small or already compressed."""
    if len(batch) > 1 and sum(map(size_of, batch)) >= COMPRESSED_FROM:
        return Codec.LZ4
    return Codec.NONE


def in_batches(records: list[NewRecord]) -> list[list[NewRecord]]:
    batches: list[list[NewRecord]] = []
    size = BATCH_BYTES
    for record in records:
        if size >= BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(record)
        size += size_of(record)
    return batches


def size_of(record: NewRecord) -> int:
    size = RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"")
    return size
