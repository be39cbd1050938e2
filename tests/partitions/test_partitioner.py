"""Kafka's partitioner: hashes and partitions as its own tests and Java client have them."""

import pytest

from broker.partitions.partitioner import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas(key: bytes, expected: int) -> None:
    """The vectors of Kafka's UtilsTest.testMurmur2."""
    assert murmur2(key) == expected & 0xFFFF_FFFF


@pytest.mark.parametrize(("key", "partition"), [(b"", 681), (b"abc", 107), (b"21", 340)])
def test_the_partition_is_the_hash_without_its_sign(key: bytes, partition: int) -> None:
    assert partition_for_key(key, 1_000) == partition
    assert partition_for_key(key, 1) == 0
