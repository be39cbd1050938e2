"""The ids of a processor's connections: local address, remote address, processor and index. (Kafka:
ServerConnectionId, Processor.nextConnectionIndex)

Asked by `processor` for every new connection. Knows no socket.
"""

from collections.abc import Container
from typing import Final

MOST_INDEX: Final = 0x7FFFFFFF
"""Int.MaxValue, after which comes 0."""


class ConnectionIds:
    """`next_index` is of the next connection of this processor."""

    __slots__ = ("_processor", "next_index")

    def __init__(self, processor_id: int) -> None:
        self._processor = processor_id
        self.next_index = 0

    def new(self, local: tuple[str, int], remote: tuple[str, int], in_use: Container[str]) -> str:
        """An id that is not `in_use`.

        One can be once the index has begun at 0 again, where a connection was reset and is not closed yet, so
        that the kernel lets both its addresses be used again. Kafka closes the new connection then.
        """
        ends = f"{local[0]}:{local[1]}-{remote[0]}:{remote[1]}-{self._processor}"
        while True:
            index, self.next_index = self.next_index, (self.next_index + 1) & MOST_INDEX
            connection_id = f"{ends}-{index}"
            if connection_id not in in_use:
                return connection_id
