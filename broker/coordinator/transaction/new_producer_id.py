"""How the coordinator gets a producer id, which it cannot allocate itself."""

from collections.abc import Callable

NewProducerId = Callable[[], int | None]
"""Returns a producer id that was never used; None if a block of them must be allocated first."""


class NeedsProducerId(Exception):  # noqa: N818 - not an error
    """A new producer id is needed and none is left: allocate a block, and call again."""
