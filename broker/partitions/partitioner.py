"""Kafka's default partitioner of records with a key (BuiltInPartitioner.partitionForKey, Utils.murmur2)."""

from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFF_FFFF


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition to which Kafka's Java producer sends records with this key."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return the hash as an unsigned number of 32 bits."""
    value = _SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _MASK
        part = (part ^ part >> 24) * _FACTOR & _MASK
        value = value * _FACTOR & _MASK ^ part
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    value = (value ^ value >> 13) * _FACTOR & _MASK
    return value ^ value >> 15
