"""Which topics a Fetch names, for the console's answer to which clients use a topic.

Called by `client_receive` for a request that begins with topics that the connection has not named before. A
Produce is read by `own_topics` anyway. A topic is its name, or its id in versions that have ids. Requests
that the cluster refuses are not told apart.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from broker.common.errors import ProtocolViolation
from broker.protocol.varint import read_uvarint

IDS_FROM: Final = 13
"""The version from which a Fetch names topics by id."""

TOPICS_AT: Final = {
    **dict.fromkeys((4, 5, 6), 17),
    **dict.fromkeys((7, 8, 9, 10, 11), 25),
    **dict.fromkeys((12, 13, 14), 26),
    15: 22,
}
"""Where the topics of a Fetch begin, behind its client id, by version; without tags in its header."""

PARTITION_BYTES: Final = {
    4: 16,
    **dict.fromkeys((5, 6, 7, 8), 24),
    **dict.fromkeys((9, 10, 11), 28),
    **dict.fromkeys((12, 13, 14, 15), 32),
}
"""Bytes of a partition without its tags, by version."""

ID_BYTES: Final = 16
_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")


def fetched_topics(data: memoryview, version: int, *, flexible: bool) -> Iterator[tuple[str | bytes, int]]:
    """Yield the topics of a Fetch, each with where its name or id ends, as far as they have arrived and have
    no tags. `data` begins behind the client id.
    """
    at = TOPICS_AT[version]
    try:
        if flexible and data[0]:
            return
        topics, at = _count(data, at, flexible=flexible)
        for _ in range(topics):
            begin, at = _name(data, at, version, flexible=flexible)
            if at > len(data):
                return
            name = bytes(data[begin:at])
            yield name if version >= IDS_FROM else name.decode(errors="replace"), at
            partitions, at = _count(data, at, flexible=flexible)
            if not flexible:
                at += max(partitions, 0) * PARTITION_BYTES[version]
                continue
            for _ in range(partitions):
                at += PARTITION_BYTES[version]
                if data[at]:
                    return
                at += 1
            if data[at]:
                return
            at += 1
    except (IndexError, ProtocolViolation):
        return


def _name(data: memoryview, at: int, version: int, *, flexible: bool) -> tuple[int, int]:
    """Return where a name or id begins and ends."""
    if version >= IDS_FROM:
        return at, at + ID_BYTES
    if flexible:
        length, at = read_uvarint(data, at)
        return at, at + max(length - 1, 0)
    length, at = _number(data, at, _SHORT), at + _SHORT.size
    return at, at + max(length, 0)


def _count(data: memoryview, at: int, *, flexible: bool) -> tuple[int, int]:
    if flexible:
        count, at = read_uvarint(data, at)
        return count - 1, at
    return _number(data, at, _INT), at + _INT.size


def _number(data: memoryview, at: int, layout: Struct) -> int:
    if at + layout.size > len(data):
        raise IndexError
    found: int = layout.unpack_from(data, at)[0]
    return found
