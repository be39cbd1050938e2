"""Which partition of a coordinator's topic a key belongs to, as Java computes it. (Kafka: partitionFor)

Called by `group_service`. A data directory that Kafka's tools read has each group where they look for it.
"""


def coordinator_partition(key: str, count: int) -> int:
    """`abs(key.hashCode()) % count`, where the hash runs over UTF-16 code units and wraps at 32 bits."""
    units = key.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    if value == 0x80000000:  # abs() of the least int overflows in Java; Kafka takes 0 there
        return 0
    return min(value, 0x100000000 - value) % count
