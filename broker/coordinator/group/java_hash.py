"""Java's hash of a string, by which Kafka chooses partitions."""


def java_hash(text: str) -> int:
    """Return `text.hashCode()`, from -2**31 to 2**31 - 1. It runs over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value
