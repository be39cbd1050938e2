"""Maps a key to its partition of a coordinator topic, as Java computes it. (Kafka: partitionFor)

Called by `group_service`. The mapping matches Kafka's, so that Kafka's tools find each group in a data
directory.
"""


def coordinator_partition(key: str, count: int) -> int:
    """Return `abs(key.hashCode()) % count`; the hash runs over UTF-16 code units and wraps at 32 bits."""
    units = key.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    if value == 0x80000000:  # abs() of the least int overflows in Java; Kafka takes 0 there
        return 0
    return min(value, 0x100000000 - value) % count
