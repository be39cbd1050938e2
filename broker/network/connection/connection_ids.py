"""The ids of a processor's connections: local address, remote address, processor and index. (Kafka:
ServerConnectionId, Processor.nextConnectionIndex)

Called by `processor` for every new connection. Independent of sockets.
"""

from collections.abc import Container
from typing import Final

MAX_INDEX: Final = 0x7FFFFFFF
"""Int.MaxValue; the next index is 0."""


class ConnectionIds:
    """`next_index` is the index of the processor's next connection."""

    __slots__ = ("_processor", "next_index")

    def __init__(self, processor_id: int) -> None:
        self._processor = processor_id
        self.next_index = 0

    def new(self, local: tuple[str, int], remote: tuple[str, int], in_use: Container[str]) -> str:
        """Return an id that is not `in_use`.

        After the index wraps around, an id can be in use by a connection that was reset but is not closed
        yet, since the kernel may reuse both its addresses. Kafka closes the new connection then.
        """
        ends = f"{local[0]}:{local[1]}-{remote[0]}:{remote[1]}-{self._processor}"
        while True:
            index, self.next_index = self.next_index, (self.next_index + 1) & MAX_INDEX
            connection_id = f"{ends}-{index}"
            if connection_id not in in_use:
                return connection_id
