"""Which topics a Fetch names, for the console's answer to which clients use a topic.

Called by `client_receive` for a request that begins with topics that the connection has not named before. A
Produce is read by `own_topics` anyway. A topic is its name, or its id in versions that have ids. Requests
that the cluster refuses are not told apart.
"""

from collections.abc import Iterator
from typing import Final

from broker.common.errors import ProtocolViolation
from broker.gateway.own_topics import SHORT, count_at, number_at
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


def fetched_topics(data: memoryview, version: int, *, flexible: bool) -> Iterator[tuple[str | bytes, int]]:
    """Yield the topics of a Fetch, each with where its name or id ends, as far as they have arrived and have
    no tags. `data` begins behind the client id.
    """
    at = TOPICS_AT[version]
    try:
        if flexible and data[0]:
            return
        topics, at = count_at(data, at, flexible=flexible)
        for _ in range(topics):
            begin, at = _name(data, at, version, flexible=flexible)
            if at > len(data):
                return
            name = bytes(data[begin:at])
            yield name if version >= IDS_FROM else name.decode(errors="replace"), at
            partitions, at = count_at(data, at, flexible=flexible)
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
    length, at = number_at(data, at, SHORT), at + SHORT.size
    return at, at + max(length, 0)
