"""Repeats a write that another process has overtaken. For `tables`.

Maintenance and a stream write the same tables. Delta lets one of two conflicting commits fail, before it
has changed anything; what is repeated here is idempotent.
"""

from collections.abc import Callable
from typing import Final

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
    captured,  # noqa: F401 - its import lets PySpark raise these classes; otherwise py4j's only one comes
)


class OvertakenError(Exception):
    """Another process has made this commit or a later one of the same writer."""


CONFLICTS: Final = (
    OvertakenError,
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
"""Delta's Python classes have no common base, as its Java classes have."""

TRIES: Final = 5
"""Maintenance commits at most a few times in a minute to one table; more conflicts are an error."""


def repeated(write: Callable[[], None]) -> None:
    """Write until no other commit is in the way. Raises the last conflict after `TRIES`."""
    for _ in range(TRIES - 1):
        try:
            return write()
        except CONFLICTS:
            continue
    return write()
