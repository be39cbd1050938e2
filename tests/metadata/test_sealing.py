"""Secret settings are never plaintext on disk; keys are found, replaced and reported missing."""

import base64
import os
import secrets
import sqlite3
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar

import pytest

from broker.common.errors import ConfigError
from broker.metadata import sealing
from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.metadata.changes import AuditFilter, Change, ChangeKind
from broker.metadata.row_sums import sum_rows
from broker.metadata.sealing import NOT_EDITED, Unreadable
from broker.metadata.secret_key import KeyFiles
from broker.metadata.store import MetadataStore
from broker.metadata.wal import MetadataUnusable

JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
KEY = "ssl.keystore.key"
KEY_PASSWORD = "listener.name.ssl.ssl.key.password"
SECRETS = {JAAS: "user_ann=hunter2-jaas", KEY: "-----BEGIN hunter2-key", KEY_PASSWORD: "hunter2-password"}
EVE = Actor("eve", Role.ADMIN, "10.0.0.9", ChangeOrigin.PAGE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "metadata.sqlite"


def setting(key: str, value: str | None) -> Change:
    return Change(ChangeKind.BROKER_CONFIG, "1", key, value)


def opened(
    path: Path, key: Path | None = None, old: Path | None = None, *, forget: Collection[str] = ()
) -> MetadataStore:
    keys = KeyFiles(path.with_name("weir-secret.key"), str(key or ""), str(old or ""))
    return MetadataStore.open(path, 1_000, keys=keys, forget=forget)


def key_file(path: Path, mode: int = 0o600) -> Path:
    path.write_bytes(base64.b64encode(secrets.token_bytes(32)) + b"\n")
    path.chmod(mode)
    return path


def holding(folder: Path, *texts: str) -> set[str]:
    """Return the files that contain any of these bytes."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert files
    return {file.name for file in files if any(text.encode() in file.read_bytes() for text in texts)}


def dynamic(store: MetadataStore) -> dict[str, str]:
    return dict(store.image.broker_configs.get("1", {}))


def set_all(store: MetadataStore) -> None:
    store.commit([setting(key, value) for key, value in SECRETS.items()], EVE, 2_000)


def in_the_clear(path: Path) -> None:
    """Write the file as the previous version does, with some values replaced and one removed again."""
    store = opened(path)
    set_all(store)
    store.commit([setting(JAAS, "user_ann=hunter2-second"), setting("log.retention.ms", "9")], EVE, 3_000)
    store.commit([setting(KEY_PASSWORD, None)], EVE, 4_000)
    rows = [(row.old, row.new, row.seq) for row in store.history(AuditFilter())]
    store.close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("DROP TRIGGER change_is_not_edited")
    connection.executemany("UPDATE change SET old = ?, new = ? WHERE seq = ?", rows)
    connection.execute(NOT_EDITED)
    connection.execute("DROP TABLE random")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    path.with_name("weir-secret.key").unlink()


# At rest


@pytest.mark.parametrize("when", ["while it is open", "after a stop", "after a start"])
def test_no_byte_of_the_directory_reveals_a_secret_setting(path: Path, when: str) -> None:
    store = opened(path)
    set_all(store)
    store.commit([setting(JAAS, "user_ann=hunter2-second")], EVE, 3_000)
    store.commit([setting(JAAS, None)], EVE, 4_000)
    if when != "while it is open":
        store.close()
    if when == "after a start":
        store = opened(path)
    assert holding(path.parent, "hunter2") == set()
    assert holding(path.parent, JAAS) >= {"metadata.sqlite"}, "the names are there"
    if when != "after a stop":
        store.close()


def test_a_setting_that_is_no_secret_stays_readable(path: Path) -> None:
    store = opened(path)
    store.commit([setting("log.retention.ms", "86399999")], EVE, 2_000)
    store.close()
    assert "metadata.sqlite" in holding(path.parent, "86399999")


def test_a_restart_reads_what_was_written(path: Path) -> None:
    store = opened(path)
    set_all(store)
    before = store.image
    store.close()
    again = opened(path)
    assert again.image == before and dynamic(again) == SECRETS
    assert [(row.old, row.new) for row in again.history(AuditFilter(search=JAAS))] == [(None, SECRETS[JAAS])]
    again.close()


def test_the_same_value_twice_is_two_texts_in_the_file(path: Path) -> None:
    store = opened(path)
    store.commit([setting(KEY, "hunter2"), setting(KEY_PASSWORD, "hunter2")], EVE, 2_000)
    store.close()
    with sqlite3.connect(path) as connection:
        texts = [new for (new,) in connection.execute("SELECT new FROM change WHERE kind = 'broker-config'")]
    connection.close()
    assert len(set(texts)) == 2 and all(text.startswith("weir1:") for text in texts)


def test_a_value_that_was_moved_to_another_setting_is_refused(path: Path) -> None:
    store = opened(path)
    set_all(store)
    store.close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TRIGGER change_is_not_edited")
    connection.execute(f"UPDATE change SET key = '{KEY}' WHERE key = '{KEY_PASSWORD}'")
    sum_rows(connection)
    connection.close()
    with pytest.raises(MetadataUnusable, match="was modified"):
        opened(path)


def test_a_value_that_looks_encrypted_is_encrypted_like_any(path: Path) -> None:
    text = "weir1:0123456789abcdef:aGVsbG8="
    store = opened(path)
    store.commit([setting(KEY_PASSWORD, text)], EVE, 2_000)
    store.close()
    again = opened(path)
    assert dynamic(again) == {KEY_PASSWORD: text}
    again.close()


# Files of an earlier version


def test_a_start_encrypts_what_an_earlier_version_wrote_and_leaves_no_remnant(path: Path) -> None:
    in_the_clear(path)
    assert holding(path.parent, "hunter2") == {"metadata.sqlite"}
    store = opened(path)
    assert holding(path.parent, "hunter2") == set()
    assert dynamic(store) == {
        JAAS: "user_ann=hunter2-second",
        KEY: SECRETS[KEY],
        "log.retention.ms": "9",
    }
    trail = [(row.old, row.new) for row in store.history(AuditFilter(search=KEY_PASSWORD))]
    assert trail == [(SECRETS[KEY_PASSWORD], None), (None, SECRETS[KEY_PASSWORD])]
    with pytest.raises(sqlite3.IntegrityError, match="append only"):
        store._connection.execute("UPDATE change SET actor = 'nobody'")
    store.close()


class Failing(sqlite3.Connection):
    """Fails one statement as SQLite does on a full disk; `seen` are the executed statements."""

    fault = ""
    seen: ClassVar[list[str]] = []

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        self.seen.append(sql)
        if sql == self.fault:
            raise sqlite3.OperationalError("database or disk is full")
        return super().execute(sql, *parameters)


@pytest.mark.parametrize("fault", ["DROP TRIGGER change_is_not_edited", NOT_EDITED, "COMMIT", "VACUUM"])
def test_a_start_that_failed_midway_loses_nothing_and_is_finished_by_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    in_the_clear(path)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, **more, factory=Failing))
    monkeypatch.setattr(Failing, "fault", fault)
    with pytest.raises(MetadataUnusable, match=r"metadata\.sqlite: database or disk is full"):
        opened(path)
    monkeypatch.setattr(Failing, "fault", "")
    Failing.seen.clear()
    store = opened(path)
    assert dynamic(store)[JAAS] == "user_ann=hunter2-second" and dynamic(store)[KEY] == SECRETS[KEY]
    store.close()
    assert holding(path.parent, "hunter2") == set()
    opened(path).close()
    assert Failing.seen.count("VACUUM") == 1, "not at every start"


# Keys


def test_the_default_key_is_made_once_for_its_owner_only(path: Path) -> None:
    opened(path).close()
    made = path.with_name("weir-secret.key")
    before = made.read_bytes()
    assert len(base64.b64decode(before)) == 32 and made.stat().st_mode & 0o777 == 0o600
    opened(path).close()
    assert made.read_bytes() == before and not made.with_name("weir-secret.key.tmp").exists()


def test_a_configured_key_file_is_not_made(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="openssl rand") as refused:
        opened(path, tmp_path / "absent")
    assert (refused.value.key, refused.value.value) == ("config.secret.key.file", str(tmp_path / "absent"))
    assert not (tmp_path / "absent").exists() and not path.with_name("weir-secret.key").exists()


def test_a_configured_key_file_is_used(path: Path, tmp_path: Path) -> None:
    key = key_file(tmp_path / "key")
    store = opened(path, key)
    set_all(store)
    store.close()
    assert not path.with_name("weir-secret.key").exists()
    again = opened(path, key)
    assert dynamic(again) == SECRETS
    again.close()


def test_a_key_file_may_be_moved(path: Path, tmp_path: Path) -> None:
    store = opened(path)
    set_all(store)
    store.close()
    path.with_name("weir-secret.key").rename(tmp_path / "elsewhere")
    again = opened(path, tmp_path / "elsewhere")
    assert dynamic(again) == SECRETS
    again.close()


@pytest.mark.parametrize("how", ["missing", "another"])
def test_a_missing_or_another_key_stops_the_start_with_path_and_reason_and_loses_nothing(
    path: Path, tmp_path: Path, how: str
) -> None:
    store = opened(path)
    set_all(store)
    store.close()
    before, key = path.read_bytes(), path.with_name("weir-secret.key")
    content = key.read_bytes()
    key.unlink()
    if how == "another":
        key_file(key)
    with pytest.raises(ConfigError) as refused:
        opened(path)
    assert (refused.value.key, refused.value.value) == ("config.secret.key.file", str(key))
    assert f"{JAAS}, {KEY_PASSWORD}, {KEY} in the metadata" in str(refused.value)
    assert ("there is no such file" in str(refused.value)) is (how == "missing")
    assert "hunter2" not in str(refused.value)
    assert path.read_bytes() == before
    key.write_bytes(content)
    key.chmod(0o600)
    again = opened(path)
    assert dynamic(again) == SECRETS
    again.close()


def test_a_lost_key_is_got_over_by_forgetting_the_settings(path: Path) -> None:
    store = opened(path)
    set_all(store)
    store.close()
    path.with_name("weir-secret.key").unlink()
    with pytest.raises(ConfigError, match=KEY_PASSWORD):
        opened(path, forget=[JAAS, KEY])
    store = opened(path, forget=list(SECRETS))
    assert set(dynamic(store)) == set(SECRETS), "there for who takes them back"
    store.commit([setting(key, None) for key in SECRETS], EVE, 5_000)
    store.commit([setting(KEY, "hunter2-new")], EVE, 6_000)
    store.close()
    again = opened(path)
    assert dynamic(again) == {KEY: "hunter2-new"}
    rows = again.history(AuditFilter(search=KEY_PASSWORD))
    assert [(type(row.old), type(row.new)) for row in rows] == [
        (Unreadable, type(None)),
        (type(None), Unreadable),
    ]
    again.close()


def test_a_new_key_takes_over_from_the_old_one_in_every_row(path: Path, tmp_path: Path) -> None:
    first, second = key_file(tmp_path / "first"), key_file(tmp_path / "second")
    store = opened(path, first)
    set_all(store)
    store.commit([setting(KEY_PASSWORD, None)], EVE, 3_000)
    store.close()
    with sqlite3.connect(path) as connection:
        old_texts = [new for (new,) in connection.execute("SELECT new FROM change WHERE new LIKE 'weir1:%'")]
    connection.close()
    with pytest.raises(ConfigError, match=r"config\.secret\.old\.key\.file"):
        opened(path, second)
    rotated = opened(path, second, first)
    assert dynamic(rotated) == {JAAS: SECRETS[JAAS], KEY: SECRETS[KEY]}
    rotated.close()
    assert len(old_texts) == 3 and holding(path.parent, *(text.split(":")[2] for text in old_texts)) == set()
    first.unlink()
    again = opened(path, second, first)
    assert dynamic(again) == {JAAS: SECRETS[JAAS], KEY: SECRETS[KEY]}, "the old key is not needed"
    (removal, _) = again.history(AuditFilter(search=KEY_PASSWORD))
    assert removal.old == SECRETS[KEY_PASSWORD], "the trail was encrypted anew too"
    again.close()
    with pytest.raises(ConfigError):
        opened(path, key_file(tmp_path / "third"), second.with_name("absent"))


@pytest.mark.parametrize(("mode", "good"), [(0o400, True), (0o600, True), (0o640, False), (0o604, False)])
def test_a_key_that_others_may_read_is_refused(path: Path, tmp_path: Path, mode: int, good: bool) -> None:
    key = key_file(tmp_path / "key", mode)
    if good:
        opened(path, key).close()
        return
    with pytest.raises(ConfigError, match=f"not {mode:04o}: chmod 0600 {key}"):
        opened(path, key)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize(("mode", "owner", "good"), [(0o640, 0, True), (0o644, 0, False), (0o600, 77, False)])
def test_a_key_of_root_may_be_read_by_a_group_and_anothers_is_refused(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, good: bool
) -> None:
    key = key_file(tmp_path / "key", mode)
    os.chown(key, owner, 0)
    monkeypatch.setattr(os, "geteuid", lambda: 909)
    if good:
        opened(path, key).close()
        return
    with pytest.raises(ConfigError):
        opened(path, key)


@pytest.mark.parametrize("length", [31, 33, 0, 2_000])
def test_a_key_of_another_length_is_refused(path: Path, tmp_path: Path, length: int) -> None:
    key = tmp_path / "key"
    key.write_bytes(base64.b64encode(bytes(length)))
    key.chmod(0o600)
    with pytest.raises(ConfigError, match="32 bytes in base64"):
        opened(path, key)


@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "text"])
def test_a_path_of_no_key_file_is_refused_and_not_waited_for(path: Path, tmp_path: Path, kind: str) -> None:
    key = tmp_path / "key"
    if kind == "folder":
        key.mkdir()
    elif kind == "fifo":
        os.mkfifo(key, 0o600)
    elif kind == "device":
        key = Path("/dev/zero")
    else:
        key.write_text("not a key")
        key.chmod(0o600)
    with pytest.raises(ConfigError) as refused:
        opened(path, key)
    assert refused.value.value == str(key)


def test_a_key_that_nobody_knows_may_be_a_password_and_one_that_becomes_known_stays_readable(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(path)
    store.commit([setting("num.io.threads", "7")], EVE, 1_000)
    with monkeypatch.context() as earlier:
        earlier.setattr(sealing, "setting_of", lambda _: None)
        store.commit([setting("log.retention.ms", "7654321")], EVE, 2_000)
    store.commit([setting("no.such.key", "hunter2-plugin")], EVE, 3_000)
    store.close()
    assert not holding(path.parent, "hunter2", "7654321")
    again = opened(path)
    assert dynamic(again) == {
        "num.io.threads": "7",
        "log.retention.ms": "7654321",
        "no.such.key": "hunter2-plugin",
    }
    again.close()
