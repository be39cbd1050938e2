"""Each kind of damage to the files of the metadata.

The broker starts with every change, or refuses in one line that names the file: never with another value.
"""

import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from broker.common.errors import ConfigError
from broker.config.load import load
from broker.metadata.actor import BROKER_ITSELF, Actor, ChangeOrigin, Role
from broker.metadata.changes import AuditFilter, AuditRow, Change, ChangeKind, write_pairs
from broker.metadata.image import Image
from broker.metadata.store import MetadataStore
from broker.server.disk.stores import METADATA_FILE, open_metadata

ANN: Final = write_pairs((("user", "ann"),))
EVE: Final = Actor("eve", Role.EDITOR, "10.0.0.9", ChangeOrigin.PAGE)
KEY: Final = "weir-secret.key"
WAL: Final = METADATA_FILE + "-wal"
CHANGES: Final = 150


def opened(where: Path, *, rebuild: bool = False) -> MetadataStore:
    configuration = load(None, (f"log.dirs={where}",), {})
    return open_metadata(replace(configuration, rebuild_metadata=rebuild), 1_000)


class Written(NamedTuple):
    """A directory after a kill, and what is in it."""

    directory: Path
    image: Image
    trail: list[AuditRow]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    where = tmp_path_factory.mktemp("metadata") / "data"
    store = opened(where)
    for number in range(CHANGES):
        store.commit(
            [Change(ChangeKind.CLIENT_QUOTA, ANN, "producer_byte_rate", str(123_456 + number))], EVE, 2_000
        )
    store.commit([Change(ChangeKind.BROKER_CONFIG, "1", "ssl.key.password", "secret")], EVE, 2_000)
    trail = store.history(AuditFilter(limit=1_000))
    shutil.copytree(where, where.with_name("killed"))
    store.close()
    assert (where.with_name("killed") / WAL).exists()
    return Written(where.with_name("killed"), store.image, trail)


@pytest.fixture
def where(tmp_path: Path, written: Written) -> Path:
    return Path(shutil.copytree(written.directory, tmp_path / "data"))


def check(where: Path, written: Written, name: str) -> bool:
    """Return whether the broker starts; it then has every change and takes the next one."""
    try:
        store = opened(where)
    except (OSError, ConfigError) as error:
        refused = str(error)
        assert name in refused and "\n" not in refused
        return False
    try:
        assert store.image == written.image
        assert store.history(AuditFilter(limit=1_000)) == written.trail
        store.commit([Change(ChangeKind.CLIENT_QUOTA, ANN, "producer_byte_rate", "5")], BROKER_ITSELF, 3_000)
    finally:
        store.close()
    again = opened(where)
    assert again.image.version == written.image.version + 1
    again.close()
    return True


def flip(path: Path, at: int, bit: int = 0x10) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= bit
    path.write_bytes(content)


@pytest.mark.rotates
@pytest.mark.parametrize(
    "seed", [*range(60), *(pytest.param(each, marks=pytest.mark.slow) for each in range(60, 600))]
)
def test_a_flipped_bit_in_the_file_changes_no_value(where: Path, written: Written, seed: int) -> None:
    chance = random.Random(seed)
    path = where / METADATA_FILE
    flip(path, chance.randrange(path.stat().st_size), 1 << chance.randrange(8))
    check(where, written, METADATA_FILE)


@pytest.mark.rotates
@pytest.mark.parametrize("at", range(100))
def test_a_flipped_bit_in_the_head_of_the_file_changes_no_value(
    where: Path, written: Written, at: int
) -> None:
    flip(where / METADATA_FILE, at)
    check(where, written, METADATA_FILE)


def test_each_flipped_bit_of_a_stored_quota_is_refused(where: Path, written: Written) -> None:
    path = where / METADATA_FILE
    content = path.read_bytes()
    value = str(123_456 + CHANGES - 1).encode()
    at = content.index(value)
    for place in range(at, at + len(value)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            assert not check(where, written, METADATA_FILE)


TAIL: Final = bytes(range(7, 107))


def become_a_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGE: Final[dict[str, Callable[[Path], object]]] = {
    "truncated": truncate,
    "emptied": lambda path: path.write_bytes(b""),
    "removed": lambda path: path.unlink(missing_ok=True),
    "zeros behind": lambda path: path.write_bytes(path.read_bytes() + bytes(5_000)),
    "garbage behind": lambda path: path.write_bytes(path.read_bytes() + TAIL * 50),
    "garbage only": lambda path: path.write_bytes(TAIL * 50),
    "first bit": lambda path: flip(path, 0),
    "last bit": lambda path: flip(path, -1),
    "a directory": become_a_directory,
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", [METADATA_FILE, WAL, METADATA_FILE + "-shm", KEY, "meta.properties"])
def test_damage_is_harmless_or_refused(where: Path, written: Written, name: str, damage: str) -> None:
    path = where / name
    if not path.exists() or not path.stat().st_size:
        path.write_bytes(b"left over")
    DAMAGE[damage](path)
    starts = check(where, written, name.removesuffix("-shm"))
    if name == METADATA_FILE and damage in ("emptied", "removed"):
        assert not starts
    if name == "meta.properties":
        assert starts


@pytest.mark.parametrize("how", ["removed", "emptied"])
def test_a_lost_file_before_the_first_record_is_refused(tmp_path: Path, how: str) -> None:
    opened(tmp_path).close()
    DAMAGE[how](tmp_path / METADATA_FILE)
    for name in (WAL, METADATA_FILE + "-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(OSError, match=f"an earlier start left {tmp_path / 'meta.properties'}"):
        opened(tmp_path)
    (tmp_path / "meta.properties").unlink()
    with pytest.raises(OSError, match=f"an earlier start left {tmp_path / KEY}"):
        opened(tmp_path)


def test_a_first_start_that_was_interrupted_is_no_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each file that it writes."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    places = ("sqlite3.connect", "broker.metadata.store.open_seals", "broker.metadata.secret_key._write")
    places += ("broker.metadata.store.MetadataStore.commit", "broker.server.disk.stores.mark_directories")
    for place in places:
        with monkeypatch.context() as patch:
            patch.setattr(place, killed)
            with pytest.raises(KeyboardInterrupt):
                opened(tmp_path)
    opened(tmp_path).close()
    assert (tmp_path / KEY).exists() and (tmp_path / "meta.properties").exists()


def test_a_rebuild_keeps_the_cluster_id_and_takes_damaged_rows_as_they_are(
    where: Path, written: Written, caplog: pytest.LogCaptureFixture
) -> None:
    path = where / METADATA_FILE
    content = path.read_bytes()
    flip(path, content.index(str(123_456 + CHANGES - 1).encode()), 0x08)
    with pytest.raises(OSError, match=rf"1 of its rows are damaged: number {CHANGES + 1} \(client-quota"):
        opened(where)
    store = opened(where, rebuild=True)
    (line,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert line.getMessage() == "a damaged row of the metadata is used: check its value"
    assert store.image.version == written.image.version
    store.close()
    opened(where).close()
    path.unlink()
    store = opened(where, rebuild=True)
    assert store.image.cluster_id == written.image.cluster_id
    store.close()


def test_an_index_that_differs_from_its_rows_is_refused_and_rebuilt_on_request(
    where: Path, written: Written
) -> None:
    connection = sqlite3.connect(where / METADATA_FILE)
    connection.execute("PRAGMA writable_schema = ON")
    other = "CREATE INDEX change_by_key ON change (kind, entity)"
    connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'change_by_key'", (other,))
    connection.commit()
    connection.close()
    assert not check(where, written, METADATA_FILE)
    opened(where, rebuild=True).close()
    assert check(where, written, METADATA_FILE)


def test_a_file_of_the_version_before_gets_its_checksums_once(where: Path, written: Written) -> None:
    connection = sqlite3.connect(where / METADATA_FILE)
    connection.execute("ALTER TABLE change DROP COLUMN crc")
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    shutil.copy(where / METADATA_FILE, where / "old")
    assert check(where, written, METADATA_FILE)
    shutil.copy(where / "old", where / METADATA_FILE)
    opened(where).close()
    flip(where / METADATA_FILE, (where / METADATA_FILE).read_bytes().index(b"123460"))
    with pytest.raises(OSError, match="rows are damaged"):
        opened(where)
