"""Reads a consumer's subscribed topics from its JoinGroup metadata.

Used by `group`. Reads only the start of ConsumerProtocolSubscription, which all versions share.
"""

import struct

MAX_TOPICS = 10_000
"""Maximum topics read from one subscription; ours.

A longer one counts as unreadable.

Each topic takes a third of a microsecond and is read at every rebalance.
"""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics; None if the metadata is not a consumer's subscription, which is not an error."""
    try:
        (count,) = _INT32.unpack_from(metadata, _INT16.size)
        at = _INT16.size + _INT32.size
        # Every name takes at least two bytes, so an invalid count fails here instead of causing a long loop.
        if not 0 <= count <= min((len(metadata) - at) // _INT16.size, MAX_TOPICS):
            return None
        topics = set()
        for _ in range(count):
            (size,) = _INT16.unpack_from(metadata, at)
            start, at = at + _INT16.size, at + _INT16.size + size
            if size < 0 or at > len(metadata):
                return None
            topics.add(metadata[start:at].decode())
    except (ValueError, struct.error):
        return None
    return frozenset(topics)
