"""Encrypts and decrypts the secret values of the metadata log.

MetadataStore uses it for every row that it writes or reads. Before anything else, a start encrypts plaintext
of earlier versions and re-encrypts values of the old key.
"""

import logging
import sqlite3
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from broker.common.errors import ConfigError
from broker.config.table import setting_of
from broker.metadata.changes import ChangeKind, Unreadable
from broker.metadata.secret_key import KEY_NAME, OLD_KEY_NAME, KeyFiles, SecretKey, key_id_of

logger = logging.getLogger(__name__)

_SECRETS: Final = "SELECT seq, kind, entity, key, old, new FROM change WHERE kind IN (?, ?) ORDER BY seq"
_REPLACE: Final = "UPDATE change SET old = ?, new = ? WHERE seq = ?"
NOT_EDITED: Final = (
    "CREATE TRIGGER change_is_not_edited BEFORE UPDATE ON change "
    "BEGIN SELECT RAISE(ABORT, 'append only'); END"
)


def is_secret(kind: str, key: str) -> bool:
    """Whether values of this key are secret: encrypted in the log, never shown. A destination's URL and
    headers can be, and a broker's setting with an unknown key.
    """
    if kind == ChangeKind.ALERT_DESTINATION:
        return True
    if kind != ChangeKind.BROKER_CONFIG:
        return False
    setting = setting_of(key)
    return setting is None or setting.sensitive


class Seals:
    """The current key, and the previous one if there is one."""

    def __init__(self, key: SecretKey, old: SecretKey | None = None) -> None:
        self.key = key
        self._by_id = {each.id: each for each in (old, key) if each is not None}

    def written(self, kind: str, entity: str, key: str, value: str | None) -> str | None:
        """Return the value as stored in a row."""
        if value is None or isinstance(value, Unreadable) or not is_secret(kind, key):
            return value
        return self.key.seal(value, _place(kind, entity, key))

    def read(self, kind: str, entity: str, key: str, stored: str | None) -> str | None:
        """Return the plaintext of a stored value; `Unreadable` if its key is not available. Raises ValueError
        for a modified value.
        """
        if stored is None or kind not in (ChangeKind.BROKER_CONFIG, ChangeKind.ALERT_DESTINATION):
            return stored
        key_id = key_id_of(stored)
        if not is_secret(kind, key) and key_id not in self._by_id:
            return stored
        if key_id is None:
            return stored
        sealed_by = self._by_id.get(key_id)
        return Unreadable(stored) if sealed_by is None else sealed_by.open(stored, _place(kind, entity, key))

    def read_past(self, kind: str, entity: str, key: str, stored: str | None) -> str | None:
        """As `read`, for the audit trail: a modified value is `Unreadable`."""
        try:
            return self.read(kind, entity, key, stored)
        except ValueError:
            return None if stored is None else Unreadable(stored)


def open_seals(connection: sqlite3.Connection, keys: KeyFiles, forget: Collection[str]) -> Seals:
    """Return the keys for the current values of the log.

    Raises ConfigError if a current value cannot be read and is not among the settings to forget, and for
    unusable key files; OSError.
    """
    latest: dict[tuple[str, str], str] = {}
    ever: set[str] = set()
    for row in _secret_rows(connection):
        entity, key, new = row[2], row[3], row[5]
        latest.pop((entity, key), None)
        key_id = None if new is None else key_id_of(new)
        if key_id is not None:
            ever.add(key_id)
            latest[entity, key] = key_id
    current = keys.current(make=not latest)
    if current is None and all(key in forget for _, key in latest):
        current = keys.current(make=True)
    if current is None:
        raise ConfigError(KEY_NAME, str(keys.path), _missing(latest.items(), "there is no such file, and"))
    # Read only if necessary: the old key's name can remain in the configuration after its file is deleted.
    old = keys.old() if ever - {current.id} else None
    known = {current.id} | ({old.id} if old is not None else set())
    unreadable = {
        place: key_id for place, key_id in latest.items() if key_id not in known and place[1] not in forget
    }
    if unreadable:
        given = f"; {keys.old_path} does not contain it either" if old is not None else ""
        raise ConfigError(
            KEY_NAME,
            str(keys.path),
            _missing(unreadable.items(), f"it contains the key {current.id}{given};"),
        )
    return Seals(current, old)


def _missing(places: Iterable[tuple[tuple[str, str], str]], words: str) -> str:
    named = sorted({key for (_, key), _ in places})
    ids = sorted({key_id for _, key_id in places})
    return (
        f"the file with the key {' and '.join(ids)}: {words} {', '.join(named)} in the metadata is encrypted "
        f"with that key. Restore the file, or name it in {OLD_KEY_NAME}, or start once with "
        f"{' '.join(f'--forget {each}' for each in named)}"
    )


def encrypt_rows(connection: sqlite3.Connection, path: Path, seals: Seals, *, is_finished: bool) -> bool:
    """Encrypt every secret value of the log, including the audit trail, with the current key, and erase its
    previous contents from the file. Returns whether anything was rewritten.

    `is_finished` False: the file is from before encryption, or the last run was interrupted. Raises
    sqlite3.Error, ValueError; then the values are unchanged, or all encrypted.
    """
    changed = []
    for seq, kind, entity, key, old, new in _secret_rows(connection):
        fresh = [
            value
            if value is None or key_id_of(value) == seals.key.id
            else seals.written(kind, entity, key, seals.read_past(kind, entity, key, value))
            for value in (old, new)
        ]
        if fresh != [old, new]:
            changed.append((*fresh, seq))
    if is_finished and not changed:
        return False
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if changed:
            connection.execute("DROP TRIGGER change_is_not_edited")
            connection.executemany(_REPLACE, changed)
            connection.execute(NOT_EDITED)
        connection.execute("PRAGMA user_version = 1")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    # Erases what free pages of the file and the write-ahead log still contain of the old values.
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if changed:
        logger.info("secret settings were encrypted", extra={"file": str(path), "rows": len(changed)})
    return True


def _secret_rows(connection: sqlite3.Connection) -> list[tuple[int, str, str, str, str | None, str | None]]:
    rows = connection.execute(_SECRETS, (ChangeKind.BROKER_CONFIG.value, ChangeKind.ALERT_DESTINATION.value))
    return [row for row in rows if is_secret(row[1], row[3])]


def _place(kind: str, entity: str, key: str) -> str:
    return f"{kind}\n{entity}\n{key}"
