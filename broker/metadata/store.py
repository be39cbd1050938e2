"""The metadata log: an append-only table in SQLite, whose latest row of each key is the broker's state.

Opened by broker.server.broker; one thread at a time writes it, through broker.controller's committer. Every
call blocks (a commit for 1.5 ms) and belongs in a worker thread. broker.controller validates changes; the
store does not.

Each commit ends with a checkpoint that empties the write-ahead log: SQLite silently skips frames with a bad
checksum, so a flipped bit there would revert every later acknowledged change. The checkpoint adds about 1.1
ms to a commit.

There is no second table with the state: the start derives it from the audit trail, after a check of every row
(broker.metadata.row_sums; 3 us each). Passwords among the
settings are encrypted in every row (broker.metadata.sealing), but plaintext in the image and in the result of
`history`. The table `random` contains the broker's own random bytes, outside the audit trail.
"""

import contextlib
import logging
import os
import secrets
import sqlite3
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import MsgspecError
from msgspec.structs import replace

from broker.common.errors import ApiError, ConfigError, ErrorCode
from broker.common.random_ids import random_id
from broker.metadata.actor import BROKER_ITSELF, Actor
from broker.metadata.changes import KNOWN_KINDS, NOTES, READ, AuditFilter, AuditRow, Change, ChangeKind
from broker.metadata.image import Image, Stamp, State, project
from broker.metadata.row_sums import ADD_COLUMN, COLUMNS, check_rows, row_sum, sum_rows
from broker.metadata.sealing import NOT_EDITED, Seals, encrypt_rows, is_secret, open_seals
from broker.metadata.secret_key import DEFAULT_FILE, KeyFiles
from broker.metadata.wal import REBUILD, RECOVERY_HINT, MetadataUnusable, check_wal, keep_damaged_wal, wal_of

logger = logging.getLogger(__name__)

_FORMAT: Final = 4
"""3: rows have no checksums. 2: also, the column `origin` is named `door`. 1: also, secret settings are not
encrypted yet, or free pages can still contain them.
"""

_UNENCRYPTED: Final = 1
_OLD_COLUMN: Final = 2
_WITHOUT_SUMS: Final = 3
_MAX_PAGE_ROWS: Final = 1_001
_SEARCHED: Final = "entity || char(10) || key || char(10) || actor || char(10) || address"
_INSERT: Final = f"INSERT INTO change ({COLUMNS}, crc) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"  # noqa: S608 - fixed

_LINE_EVERY_MS: Final = 60_000
"""Time between two lines about writes that fail for the same reason; ours. Clients repeat refused changes."""

# After a failed fsync, the state on disk is unknown. A full disk is harmless.
_UNUSABLE: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_STATE_UNKNOWN: Final = ("SQLITE_IOERR_FSYNC", "SQLITE_IOERR_DIR_FSYNC", *_UNUSABLE)

_NO_MORE: Final = "no change is taken until the next start, which reads what is on the disk"
_DAMAGED: Final = (ValueError, LookupError, TypeError, ArithmeticError, MsgspecError, ApiError)
"""What the values of a damaged file of an earlier format can raise."""

_SCHEMA: Final = f"""
BEGIN;
CREATE TABLE change (
    seq     INTEGER PRIMARY KEY,
    batch   INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    role    TEXT NOT NULL,
    address TEXT NOT NULL,
    origin    TEXT NOT NULL,
    kind    TEXT NOT NULL,
    entity  TEXT NOT NULL,
    key     TEXT NOT NULL,
    old     TEXT,
    new     TEXT,
    crc     INTEGER
) STRICT;
CREATE INDEX change_by_key ON change (kind, entity, key);
{NOT_EDITED};
CREATE TRIGGER change_is_not_deleted BEFORE DELETE ON change BEGIN SELECT RAISE(ABORT, 'append only'); END;
PRAGMA user_version = {_FORMAT};
COMMIT;
"""
_RANDOM: Final = "CREATE TABLE IF NOT EXISTS random (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT"

_CHECKPOINT: Final = "PRAGMA wal_checkpoint(TRUNCATE)"

_LATEST: Final = """
SELECT kind, entity, key, new, seq, time_ms, actor FROM change
WHERE seq IN (SELECT max(seq) FROM change GROUP BY kind, entity, key) ORDER BY seq
"""


class MetadataStore:
    """`image` is the result of the last commit; a commit that raises leaves file and image unchanged.

    After an error that leaves the state on disk unknown, every commit is refused until the broker restarts.
    """

    def __init__(self, connection: sqlite3.Connection, seals: Seals) -> None:
        self._connection = connection
        self._seals = seals
        self._broken: str | None = None
        self._line: tuple[str, int] | None = None
        self._path = connection.execute("PRAGMA database_list").fetchone()[2]
        self._state: State = {}
        for kind, entity, key, stored, *stamp in connection.execute(_LATEST):
            if kind in NOTES or kind not in KNOWN_KINDS:
                continue
            value = seals.read(kind, entity, key, stored)
            self._state.setdefault((kind, entity), {})[key] = Stamp(value, *stamp)
        self.scram_secret = _random_bytes(connection, "scram")
        (version,) = connection.execute("SELECT coalesce(max(seq), 0) FROM change").fetchone()
        self.image = project(Image(), self._state, self._state, version)

    @classmethod
    def open(
        cls,
        path: Path,
        now_wall_ms: int,
        *,
        salvage: bool = False,
        keys: KeyFiles | None = None,
        forget: Collection[str] = (),
        cluster_id: str | None = None,
    ) -> "MetadataStore":
        """Open the log, and create it if it is missing, with a cluster id and readable by its owner only.

        `salvage` reads a damaged write-ahead log as far as possible and keeps a copy beside it, and takes
        damaged rows as they are. `keys` are for the secret settings, None: the file beside this one; settings
        of `forget` need not be readable. A new log gets `cluster_id`, or a random one. Raises
        MetadataUnusable, ConfigError for wrong keys, OSError.
        """
        if salvage:
            keep_damaged_wal(path)
        else:
            check_wal(path)
        _create_private(path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        try:
            found = _prepare(connection, path)
            if found == _FORMAT:
                check_rows(connection, salvage=salvage)
            keys = keys or KeyFiles(path.with_name(DEFAULT_FILE))
            seals = open_seals(connection, keys, forget)
            connection.execute(_RANDOM)
            if encrypt_rows(connection, path, seals, is_finished=found != _UNENCRYPTED) or found != _FORMAT:
                sum_rows(connection)
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
            store = cls(connection, seals)
            connection.execute(_CHECKPOINT).fetchone()
            if not store.image.cluster_id:
                change = Change(ChangeKind.CLUSTER, "", "id", cluster_id or random_id())
                store.commit([change], BROKER_ITSELF, now_wall_ms)
        except ConfigError:
            connection.close()
            raise
        except (*_DAMAGED, sqlite3.Error) as error:
            connection.close()
            raise MetadataUnusable(f"{path}: {_describe(error, salvage=salvage)}") from error
        except BaseException:
            connection.close()
            raise
        return store

    def commit(self, changes: Sequence[Change], actor: Actor, now_wall_ms: int) -> Image:
        """Write all changes or none, flushed to the disk. Raises ApiError KAFKA_STORAGE_ERROR if the write
        fails.
        """
        if self._broken is not None:
            self._report(self._broken, now_wall_ms)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, self._broken)
        batch, written = self.image.version + 1, self._seals.written
        common = (batch, now_wall_ms, actor.name, actor.role.name.lower(), actor.address, actor.origin.value)
        rows = [
            (seq, *common, *place, written(*place, self._current(each)), written(*place, each.new))
            for seq, each in enumerate(changes, batch)
            for place in ((each.kind.value, each.entity, each.key),)
        ]
        self._write([(*row, row_sum(row)) for row in rows], now_wall_ms)
        for seq, change in enumerate(changes, batch):
            if change.kind in NOTES or change.kind not in KNOWN_KINDS:
                continue
            stamps = self._state.setdefault((change.kind.value, change.entity), {})
            stamps[change.key] = Stamp(change.new, seq, now_wall_ms, actor.name)
        self._checkpoint(now_wall_ms)
        touched = dict.fromkeys(
            (change.kind.value, change.entity) for change in changes if change.kind in KNOWN_KINDS
        )
        self.image = project(self.image, self._state, touched, batch + len(changes) - 1)
        return self.image

    def history(self, wanted: AuditFilter) -> list[AuditRow]:
        """Return rows of the audit trail in the requested order. Raises ApiError KAFKA_STORAGE_ERROR."""
        terms = {
            "kind = ?": wanted.kind,
            "entity = ?": wanted.entity,
            "actor = ?": wanted.actor,
            "origin = ?": wanted.origin,
            "origin != ?": wanted.not_origin,
            f"(kind = '{ChangeKind.RECORDS}' AND key = '{READ}') = ?": wanted.reads,
            f"instr(lower({_SEARCHED}), lower(?))": wanted.search,
            "seq = ?": wanted.seq,
            "seq < ?": wanted.before_seq,
            "seq > ?": wanted.after_seq,
        }
        given = {term: value for term, value in terms.items() if value is not None}
        where = f"WHERE {' AND '.join(given)}" if given else ""
        limit = max(1, min(wanted.limit, _MAX_PAGE_ROWS))
        # Only the constant terms above become part of the text.
        order = "ASC" if wanted.oldest_first else "DESC"
        query = f"SELECT {COLUMNS} FROM change {where} ORDER BY seq {order} LIMIT ?"  # noqa: S608
        try:
            rows = [AuditRow(*row) for row in self._connection.execute(query, (*given.values(), limit))]
        except sqlite3.Error as error:
            reason = f"cannot read the metadata: {error}"
            logger.error("the audit trail cannot be read", extra={"file": self._path, "reason": reason})
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, reason) from error
        return [self._readable(row) if is_secret(row.kind, row.key) else row for row in rows]

    def _readable(self, row: AuditRow) -> AuditRow:
        place, read = (row.kind, row.entity, row.key), self._seals.read_past
        return replace(row, old=read(*place, row.old), new=read(*place, row.new))

    def topics_ever(self) -> tuple[set[bytes], set[str]]:
        """Return the ids and the names of all topics in the audit trail, including deleted ones."""
        query = "SELECT DISTINCT entity, new FROM change WHERE kind = ? AND key = 'id' AND new IS NOT NULL"
        rows = self._connection.execute(query, (ChangeKind.TOPIC.value,)).fetchall()
        return {bytes.fromhex(topic_id) for _, topic_id in rows}, {name for name, _ in rows}

    def close(self) -> None:
        self._connection.close()

    def _current(self, change: Change) -> str | None:
        stamp = self._state.get((change.kind.value, change.entity), {}).get(change.key)
        return None if stamp is None else stamp.value

    def _report(self, reason: str, now_wall_ms: int) -> None:
        """Log a failed write, unless a line said the same a moment ago."""
        if (
            self._line is None
            or self._line[0] != reason
            or abs(now_wall_ms - self._line[1]) >= _LINE_EVERY_MS
        ):
            self._line = reason, now_wall_ms
            logger.error("a change was refused", extra={"file": self._path, "reason": reason})

    def _write(self, rows: Sequence[tuple[Any, ...]], now_wall_ms: int) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(_INSERT, rows)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            reason = f"cannot write the metadata: {error}"
            if getattr(error, "sqlite_errorname", "") in _STATE_UNKNOWN:
                reason += f"; {_NO_MORE}"
                self._broken = reason
            self._report(reason, now_wall_ms)
            self._roll_back()
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, reason) from error
        except BaseException:
            self._roll_back()
            raise

    def _checkpoint(self, now_wall_ms: int) -> None:
        """Empty the write-ahead log. The change is on disk; if this fails, the next one suffices."""
        try:
            self._connection.execute(_CHECKPOINT).fetchone()
        except sqlite3.Error as error:
            reason = f"cannot write the metadata: {error}"
            if getattr(error, "sqlite_errorname", "") in _STATE_UNKNOWN:
                reason += f"; {_NO_MORE}"
                self._broken = reason
            logger.error("the write-ahead log was not emptied", extra={"file": self._path, "reason": reason})

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                self._broken = f"cannot roll back a change of the metadata: {error}; {_NO_MORE}"


def _create_private(path: Path) -> None:
    path.parent.mkdir(0o750, parents=True, exist_ok=True)
    # SQLite gives its journal the mode of this file.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    # A restored copy and its log have the mode that the copying gave them.
    for each in (path, wal_of(path)):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if each.stat().st_mode & 0o077:
                each.chmod(0o600)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _prepare(connection: sqlite3.Connection, path: Path) -> int:
    """Create the tables or rename the old column. Return the format that the file had."""
    # Exclusive: the start of a second broker on the directory fails; also avoids shared memory.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    # A file that cannot be written stops the start, and not each change.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA user_version = {found}")
    connection.execute("ROLLBACK")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if found == 0 and tables == 0:
        connection.executescript(_SCHEMA)
        found = _FORMAT
    elif found not in (_UNENCRYPTED, _OLD_COLUMN, _WITHOUT_SUMS, _FORMAT):
        raise MetadataUnusable(
            f"{path}: metadata has format {found}; this broker reads format {_FORMAT}: "
            "start the version that wrote it, or restore a backup of the folder from before the upgrade"
        )
    else:
        columns = {column for _, column, *_ in connection.execute("PRAGMA table_info(change)")}
        if "door" in columns:
            connection.execute("ALTER TABLE change RENAME COLUMN door TO origin")
        if "crc" not in columns and found != _FORMAT:
            connection.execute(ADD_COLUMN)
    connection.execute(_CHECKPOINT).fetchone()
    return int(found)


def _random_bytes(connection: sqlite3.Connection, name: str) -> bytes:
    """Return 32 random bytes, always the same for a name in this file."""
    for (value,) in connection.execute("SELECT value FROM random WHERE name = ?", (name,)):
        return bytes(value)
    fresh = secrets.token_bytes(32)
    connection.execute("INSERT INTO random VALUES (?, ?)", (name, fresh))
    return fresh


def _describe(error: Exception, *, salvage: bool) -> str:
    if getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
        return "another broker uses this directory"
    if getattr(error, "sqlite_errorname", "SQLITE_CORRUPT") not in _UNUSABLE:
        return str(error)
    hint = f"Move it away, and start with {REBUILD} again" if salvage else RECOVERY_HINT
    return f"{error}. {hint}"
