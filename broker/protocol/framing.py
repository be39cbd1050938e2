"""How long the next request is.

Called by network.connection.receive with the four bytes that stand before every request. Knows no sockets
and no memory.
"""

import struct

from broker.errors import ProtocolViolation
from broker.protocol.schema import Buffer

SIZE_BYTES = 4


def frame_size(prefix: Buffer, limit: int) -> int:
    """The size in bytes that `prefix` (four bytes, big-endian) announces, 0 to `limit`.

    `limit` is `socket.request.max.bytes`. Raises ProtocolViolation, in Kafka's words (NetworkReceive), before
    anybody allocates so much.
    """
    (size,) = struct.unpack(">i", prefix)
    if size < 0:
        raise ProtocolViolation(f"Invalid receive (size = {size})")
    if size > limit:
        raise ProtocolViolation(f"Invalid receive (size = {size} larger than {limit})")
    return int(size)
