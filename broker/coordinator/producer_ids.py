"""Ids for idempotent producers, from blocks allocated in the metadata log. (Kafka: ProducerIdManager)

Called by `api.a22_init_producer_id`, which requests the next block from control when `take` returns None. A
partly used block is not reused after a restart, so producer ids are unique.
"""

from collections import deque
from collections.abc import Callable, Iterator


class ProducerIds:
    """The allocated blocks, in order."""

    def __init__(self) -> None:
        self._blocks: deque[Iterator[int]] = deque()

    def take(self) -> int | None:
        """Return a new unique id; None if another block is needed first."""
        while self._blocks:
            taken = next(self._blocks[0], None)
            if taken is not None:
                return taken
            self._blocks.popleft()
        return None

    def add(self, block: range) -> None:
        self._blocks.append(iter(block))


NewProducerId = Callable[[], int | None]
"""Returns a producer id that was never used; None if a block of them must be allocated first."""


class NeedsProducerId(Exception):  # noqa: N818 - not an error
    """A new producer id is needed and none is left: allocate a block, and call again."""
