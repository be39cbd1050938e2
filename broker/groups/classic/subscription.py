"""Which topics a consumer subscribes to, read from the metadata that it brings when it joins.

Used by `group`. Knows the head of ConsumerProtocolSubscription, which all its versions share, and nothing
else.
"""

import struct

MOST_TOPICS = 10_000
"""Names that are read of one subscription; ours. Of a longer one the coordinator knows as much as of one that
it cannot read, for each takes a third of a microsecond and is read at every rebalance.
"""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """None when the metadata is not a consumer's subscription: the coordinator does not mind, it only
    knows less.
    """
    try:
        (count,) = _INT32.unpack_from(metadata, _INT16.size)
        at = _INT16.size + _INT32.size
        # Every name costs two bytes at least, so a lying count ends here and not in a long loop.
        if not 0 <= count <= min((len(metadata) - at) // _INT16.size, MOST_TOPICS):
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
