"""Java's String.hashCode, by which Kafka assigns groups to partitions."""

import pytest

from broker.services.coordinator_partition import coordinator_partition


@pytest.mark.parametrize(
    ("key", "hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("console-consumer-1", None),
        ("\U0001f600", 1_772_899),
        ("polygenelubricants", -(2**31)),
        ("f5a5a608", 0),
    ],
)
def test_a_key_goes_where_java_puts_it(key: str, hash_code: int | None) -> None:
    if hash_code is None:
        hash_code = 0
        for unit in key:
            hash_code = (31 * hash_code + ord(unit) + 2**31) % 2**32 - 2**31
    expected = 0 if hash_code == -(2**31) else abs(hash_code)
    for count in (1, 2, 50, 2**31 - 1):
        assert coordinator_partition(key, count) == expected % count
