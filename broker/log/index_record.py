"""A record of the indexes of a closed segment, so that a later start notices a damaged or missing one.

Owned by a Segment, which writes the file beside its indexes when it is sealed; Kafka's formats have no room
for a checksum. Most segments need none: the last entry of a time index is checked against its batch, and a
segment without aborted transactions has no `.txnindex`. Indexes of earlier versions are accepted without one.

    0
    timeindex <bytes>
    txnindex <entries> <crc32c>
"""

from typing import Final, NamedTuple

from crc32c import crc32c

_VERSION: Final = "0"


class IndexRecord(NamedTuple):
    """Size of the time index in bytes, number of aborted transactions, and checksum of their index."""

    time_bytes: int
    aborted: int
    aborted_crc: int


def record_of(time_bytes: int, aborted: int, content: bytes | bytearray) -> IndexRecord:
    """Return the record of a time index of this size and of this content of a `.txnindex`."""
    return IndexRecord(time_bytes, aborted, crc32c(content))


def record_text(record: IndexRecord) -> bytes:
    lines = [_VERSION, f"timeindex {record.time_bytes}", f"txnindex {record.aborted} {record.aborted_crc}"]
    return ("\n".join(lines) + "\n").encode()


def parse_record(content: bytes | None) -> IndexRecord | None:
    """Return the record; None for a missing file.

    A damaged file agrees with no index, so that the indexes are rebuilt.
    """
    if content is None:
        return None
    try:
        version, times, aborted = content.decode("ascii").splitlines()
        time_name, time_bytes = times.split(" ")
        aborted_name, count, crc = aborted.split(" ")
        if (version, time_name, aborted_name) == (_VERSION, "timeindex", "txnindex"):
            return IndexRecord(int(time_bytes), int(count), int(crc))
    except ValueError:
        pass
    return IndexRecord(-1, -1, -1)
