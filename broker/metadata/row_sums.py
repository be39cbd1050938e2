"""The checksums of the rows of the metadata log, and the check of all of them at the start.

SQLite does not notice a flipped bit in a value. MetadataStore writes a checksum with each row, and refuses to
start with a row that does not have its own. Rows of earlier formats get theirs at the first start.
"""

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

from crc32c import crc32c
from msgspec import msgpack

from broker.metadata.sealing import NOT_EDITED

logger = logging.getLogger(__name__)

COLUMNS: Final = "seq, batch, time_ms, actor, role, address, origin, kind, entity, key, old, new"
ADD_COLUMN: Final = "ALTER TABLE change ADD COLUMN crc INTEGER"

_ALL: Final = f"SELECT {COLUMNS}, crc FROM change NOT INDEXED ORDER BY seq"  # noqa: S608 - fixed
_SET: Final = "UPDATE change SET crc = ? WHERE seq = ?"
_KIND_AT, _ENTITY_AT, _KEY_AT = 7, 8, 9


def row_sum(row: Sequence[Any]) -> int:
    """Return the checksum of the values of COLUMNS."""
    return crc32c(msgpack.encode(tuple(row), enc_hook=str))


def check_rows(connection: sqlite3.Connection, *, salvage: bool) -> None:
    """Check the structure of the file and every row. Raises ValueError, sqlite3.Error.

    With `salvage` damaged rows are reported and taken as they are, and a damaged index is rebuilt.
    """
    if _faults(connection) and salvage:
        connection.execute("REINDEX")
    if fault := _faults(connection):
        raise ValueError(f"the file is damaged: {fault}")
    wrong = [row for row in connection.execute(_ALL) if row_sum(row[:-1]) != row[-1]]
    if not wrong:
        return
    if not salvage:
        raise ValueError(f"{len(wrong)} of its rows are damaged: {', '.join(_names(wrong))}")
    for name in _names(wrong):
        logger.warning("a damaged row of the metadata is used: check its value", extra={"row": name})
    sum_rows(connection)


def sum_rows(connection: sqlite3.Connection) -> None:
    """Write the checksum of each row that has none or another.

    Raises sqlite3.Error, with the rows unchanged.
    """
    wanted = [(row_sum(row[:-1]), row[-1], row[0]) for row in connection.execute(_ALL)]
    changed = [(crc, seq) for crc, found, seq in wanted if crc != found]
    if not changed:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("DROP TRIGGER IF EXISTS change_is_not_edited")
        connection.executemany(_SET, changed)
        connection.execute(NOT_EDITED)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _faults(connection: sqlite3.Connection) -> str:
    """Return the first fault that SQLite finds, or an empty text."""
    (fault,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    return "" if fault == "ok" else " ".join(str(fault).split())


def _names(rows: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    for row in rows[:5]:
        yield f"number {row[0]} ({row[_KIND_AT]} {row[_ENTITY_AT]} {row[_KEY_AT]})"
    if len(rows) > 5:
        yield f"{len(rows) - 5} more"
