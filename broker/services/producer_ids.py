"""Ids for idempotent producers, out of blocks that the metadata log has given away for good. (Kafka:
ProducerIdManager)

Called by `api.a22_init_producer_id`, which asks control for the next block when `take` has none left. A block
that was not used up before a stop is not used again, so no id ever names two producers.
"""

from collections import deque
from collections.abc import Iterator


class ProducerIds:
    """The blocks in hand, in the order in which they came."""

    def __init__(self) -> None:
        self._blocks: deque[Iterator[int]] = deque()

    def take(self) -> int | None:
        """An id that nobody else has or had; None when another block is needed first."""
        while self._blocks:
            taken = next(self._blocks[0], None)
            if taken is not None:
                return taken
            self._blocks.popleft()
        return None

    def add(self, block: range) -> None:
        self._blocks.append(iter(block))
