"""Kafka's `.snapshot` file of a partition's producers (ProducerSnapshot, version 1).

    version i16 | crc32c u32 over what follows | count i32 | count entries of 48 bytes

Used when a segment is rolled, at a clean shutdown and at startup. Only the last batch of each producer is
stored, as in Kafka; recovery restores earlier ones from the log. Pure.
"""

from struct import Struct
from typing import Final

from crc32c import crc32c

from broker.log.producers import Producer, Producers, TakenBatch, sequence_after

_HEAD: Final = Struct(">hIi")
_CRC_FROM: Final = 6
_ENTRY: Final = Struct(">qhiqiqiq")
"""The fields of an entry.

Producer id, epoch, last sequence, last offset, offset delta, time, coordinator epoch, first offset of a
transaction.
"""
_VERSION: Final = 1
_NONE: Final = -1


def snapshot(producers: Producers) -> bytes:
    entries = []
    for producer_id, producer in producers.items():
        last = producer.batches[-1]
        delta = last.last_offset - last.base_offset
        entries.append(
            _ENTRY.pack(
                producer_id,
                producer.epoch,
                last.last_sequence,
                last.last_offset,
                delta,
                producer.seen_ms,
                _NONE,
                _NONE,
            )
        )
    body = len(entries).to_bytes(4, "big") + b"".join(entries)
    return _HEAD.pack(_VERSION, crc32c(body), len(entries)) + body[4:]


def parse_snapshot(content: bytes) -> Producers | None:
    """Return the producers; None for a damaged file or an unknown version."""
    if len(content) < _HEAD.size:
        return None
    version, crc, count = _HEAD.unpack_from(content)
    if version != _VERSION or crc32c(content[_CRC_FROM:]) != crc:
        return None
    if len(content) != _HEAD.size + count * _ENTRY.size:
        return None
    producers = Producers()
    for producer_id, epoch, sequence, offset, delta, seen_ms, _, _ in _ENTRY.iter_unpack(
        content[_HEAD.size :]
    ):
        first_sequence = sequence_after(sequence, -delta)
        batch = TakenBatch(first_sequence, sequence, offset - delta, offset, seen_ms)
        producers.restore(producer_id, Producer(epoch, seen_ms, (batch,)))
    return producers
