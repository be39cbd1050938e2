"""The metadata log: atomic, never modified, and with the same image after any restart."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.metadata.actor import BROKER_ITSELF, Actor, ChangeOrigin, Role
from broker.metadata.changes import NOTES, AuditFilter, AuditRow, Change, ChangeKind, write_pairs
from broker.metadata.sealing import Seals
from broker.metadata.secret_key import SecretKey
from broker.metadata.store import MetadataStore
from broker.metadata.wal import MetadataUnusable

ALICE = write_pairs((("user", "alice"),))
EVE = Actor("eve", Role.EDITOR, "10.0.0.9", ChangeOrigin.PAGE)


def limit(value: str | None, key: str = "producer_byte_rate", entity: str = ALICE) -> Change:
    return Change(ChangeKind.CLIENT_QUOTA, entity, key, value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[MetadataStore]:
    store = MetadataStore.open(path, 1_000)
    yield store
    store.close()


def test_a_new_store_has_a_cluster_id_of_22_characters_that_stays(path: Path) -> None:
    store = MetadataStore.open(path, 1_000)
    first = store.image.cluster_id
    store.close()
    assert len(first) == 22 and not first.startswith("-")
    again = MetadataStore.open(path, 2_000)
    assert (again.image.cluster_id, again.image.version) == (first, 1)
    again.close()


def test_the_image_after_a_restart_is_the_image_before(path: Path, store: MetadataStore) -> None:
    store.commit([limit("1000"), limit("5", "request_percentage")], EVE, 2_000)
    store.commit([limit(None, "request_percentage")], EVE, 3_000)
    store.commit(
        [
            Change(ChangeKind.TOPIC, "t", "id", bytes(range(16)).hex()),
            Change(ChangeKind.TOPIC, "t", "partitions", "3"),
            Change(ChangeKind.TOPIC_CONFIG, "t", "retention.ms", "7"),
            Change(ChangeKind.BROKER_CONFIG, "", "log.retention.ms", "9"),
            Change(ChangeKind.PRODUCER_IDS, "", "next", "1000"),
            Change(ChangeKind.ADMIN_TOKEN, "first", "token", '{"role":"ADMIN","salt":"0a","digest":"0b"}'),
        ],
        EVE,
        4_000,
    )
    before = store.image
    store.close()
    again = MetadataStore.open(path, 5_000)
    assert again.image == before
    assert (before.next_producer_id, before.version) == (1000, 10)
    again.close()


def test_a_commit_leaves_earlier_images_alone(store: MetadataStore) -> None:
    before = store.image
    after = store.commit([limit("1000")], EVE, 2_000)
    assert before.quotas == {} and len(after.quotas) == 1
    assert after is store.image


@pytest.mark.parametrize("kind", [each for each in ChangeKind if each in NOTES])
def test_an_action_outside_the_metadata_is_only_in_the_trail(
    kind: ChangeKind, path: Path, store: MetadataStore
) -> None:
    """A broker whose connections an operator's program closes would keep a value for each."""
    before = store._state.copy()
    for at_ms in (2_000, 3_000):
        store.commit([Change(kind, "10.0.0.9", "closed", "app")], EVE, at_ms)
    assert store._state == before
    assert [(row.old, row.new) for row in store.history(AuditFilter(kind=kind))] == [(None, "app")] * 2
    store.close()
    again = MetadataStore.open(path, 4_000)
    assert (kind.value, "10.0.0.9") not in again._state
    again.close()


def test_the_trail_has_actor_time_address_and_both_values(store: MetadataStore) -> None:
    store.commit([limit("1000"), limit("5", "request_percentage")], EVE, 2_000)
    store.commit([limit("2000")], replace(EVE, name="bob", origin=ChangeOrigin.WIRE), 3_000)
    row = AuditRow(
        seq=4,
        batch=4,
        time_ms=3_000,
        actor="bob",
        role="editor",
        address="10.0.0.9",
        origin="wire",
        kind="client-quota",
        entity=ALICE,
        key="producer_byte_rate",
        old="1000",
        new="2000",
    )
    rows = store.history(AuditFilter(kind="client-quota"))
    assert rows[0] == row
    assert [(each.seq, each.batch, each.old, each.new) for each in rows[1:]] == [
        (3, 2, None, "5"),
        (2, 2, None, "1000"),
    ]


def test_what_was_read_is_a_log_of_its_own(store: MetadataStore) -> None:
    notes = ("read", "produced", "read")
    store.commit([Change(ChangeKind.RECORDS, "orders", each, "partition 0") for each in notes], EVE, 2_000)
    store.commit([limit("1")], EVE, 3_000)
    seqs = {
        reads: [row.seq for row in store.history(AuditFilter(reads=reads))] for reads in (None, True, False)
    }
    assert seqs == {None: [5, 4, 3, 2, 1], True: [4, 2], False: [5, 3, 1]}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AuditFilter(), [4, 3, 2, 1]),
        (AuditFilter(kind="client-quota", entity=ALICE), [3, 2]),
        (AuditFilter(actor="bob"), [4]),
        (AuditFilter(actor="nobody"), []),
        (AuditFilter(seq=2), [2]),
        (AuditFilter(origin="page"), [4, 3, 2]),
        (AuditFilter(origin="broker"), [1]),
        (AuditFilter(origin="wire"), []),
        (AuditFilter(not_origin="broker"), [4, 3, 2]),
        (AuditFilter(search="BOB"), [4]),
        (AuditFilter(search="10.0.0.9"), [4, 3, 2]),
        (AuditFilter(search="byte_RATE"), [4, 3, 2]),
        (AuditFilter(search="%"), []),
        (AuditFilter(before_seq=3), [2, 1]),
        (AuditFilter(after_seq=2), [4, 3]),
        (AuditFilter(oldest_first=True), [1, 2, 3, 4]),
        (AuditFilter(oldest_first=True, after_seq=1, limit=2), [2, 3]),
        (AuditFilter(limit=2), [4, 3]),
        (AuditFilter(limit=0), [4]),
        (AuditFilter(kind="' OR 1=1 --"), []),
        (AuditFilter(reads=False), [4, 3, 2, 1]),
        (AuditFilter(reads=True), []),
    ],
)
def test_the_trail_is_filtered_and_paged_newest_first(
    store: MetadataStore, wanted: AuditFilter, expected: list[int]
) -> None:
    store.commit([limit("1")], EVE, 2_000)
    store.commit([limit("2")], EVE, 3_000)
    store.commit([limit("3", entity=write_pairs((("user", "bob"),)))], replace(EVE, name="bob"), 4_000)
    assert [row.seq for row in store.history(wanted)] == expected


def test_a_page_of_the_trail_has_at_most_1001_rows(store: MetadataStore) -> None:
    store.commit([limit(str(n), entity=write_pairs((("user", str(n)),))) for n in range(1_002)], EVE, 2_000)
    assert [len(store.history(AuditFilter(limit=n))) for n in (1_000, 1_001, 1_002)] == [1_000, 1_001, 1_001]


def test_an_entitys_version_outlives_its_removal_and_a_restart(path: Path, store: MetadataStore) -> None:
    store.commit([limit("1"), limit("2", "consumer_byte_rate")], EVE, 2_000)
    store.commit([limit(None)], EVE, 3_000)
    (entry,) = store.image.quotas.values()
    assert entry.version == 4
    store.close()
    again = MetadataStore.open(path, 4_000)
    assert next(iter(again.image.quotas.values())).version == 4
    again.close()


def test_rows_are_neither_edited_nor_deleted(path: Path, store: MetadataStore) -> None:
    store.commit([limit("1")], EVE, 2_000)
    store.close()
    connection = sqlite3.connect(path)
    for statement in ("UPDATE change SET actor = 'nobody'", "DELETE FROM change"):
        with pytest.raises(sqlite3.IntegrityError, match="append only"):
            connection.execute(statement)
    connection.close()


def test_only_the_owner_can_read_it(path: Path, store: MetadataStore) -> None:
    store.commit([limit("1")], EVE, 2_000)
    assert {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {
        "metadata.sqlite": 0o600,
        "metadata.sqlite-wal": 0o600,
        "weir-secret.key": 0o600,
    }


def test_a_world_readable_copy_is_private_after_a_start(path: Path, store: MetadataStore) -> None:
    store.close()
    path.chmod(0o644)
    log = path.with_name(path.name + "-wal")
    log.touch()
    log.chmod(0o644)
    MetadataStore.open(path, 2_000).close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert not log.exists() or log.stat().st_mode & 0o777 == 0o600


def test_a_second_broker_on_the_same_directory_is_refused(path: Path, store: MetadataStore) -> None:
    with pytest.raises(MetadataUnusable, match="another broker"):
        MetadataStore.open(path, 2_000)
    store.commit([limit("1")], EVE, 2_000)


def test_a_file_of_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to be looked at" * 100)
    before = path.read_bytes()
    with pytest.raises(MetadataUnusable):
        MetadataStore.open(path, 1_000)
    assert path.read_bytes() == before


@pytest.mark.parametrize("old_format", [1, 2])
def test_a_file_whose_origins_were_doors_is_migrated(
    path: Path, store: MetadataStore, old_format: int
) -> None:
    store.commit([limit("1000")], EVE, 2_000)
    before, rows = store.image, store.history(AuditFilter())
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE change RENAME COLUMN origin TO door")
    connection.execute(f"PRAGMA user_version = {old_format}")
    connection.close()
    for _ in range(2):
        again = MetadataStore.open(path, 3_000)
        assert again.image == before and again.history(AuditFilter()) == rows
        assert [row.seq for row in again.history(AuditFilter(origin="page"))] == [2]
        again.close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (4,)
    with pytest.raises(sqlite3.IntegrityError, match="append only"):
        connection.execute("UPDATE change SET origin = 'rest'")
    connection.close()


def test_a_migration_that_was_interrupted_is_finished(path: Path, store: MetadataStore) -> None:
    store.commit([limit("1000")], EVE, 2_000)
    before, rows = store.image, store.history(AuditFilter())
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    again = MetadataStore.open(path, 3_000)
    assert again.image == before and again.history(AuditFilter()) == rows
    again.close()


def test_a_database_of_another_format_is_refused(path: Path, store: MetadataStore) -> None:
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 5")
    connection.close()
    with pytest.raises(MetadataUnusable, match="format 5"):
        MetadataStore.open(path, 2_000)


# Disk errors


class Disk(sqlite3.Connection):
    """A connection on which statements that start with `failing` fail as SQLite does on a failing disk."""

    fault: str | None = None
    failing = "COMMIT"

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql.startswith(self.failing) and self.fault is not None:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = self.fault
            raise error
        return super().execute(sql, *parameters)


@pytest.fixture
def disk(path: Path, store: MetadataStore) -> Iterator[Disk]:
    store.commit([limit("1")], BROKER_ITSELF, 1_500)
    store.close()
    disk = sqlite3.connect(path, isolation_level=None, factory=Disk)
    yield disk
    disk.close()


def refuse(store: MetadataStore, changes: list[Change]) -> None:
    before = store.image
    with pytest.raises(ApiError) as caught:
        store.commit(changes, EVE, 2_000)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert store.image is before
    assert [row.seq for row in store.history(AuditFilter())] == [2, 1]


def test_a_full_disk_refuses_the_change_whole_and_takes_the_next_once_there_is_space(disk: Disk) -> None:
    store = MetadataStore(disk, Seals(SecretKey(bytes(32))))
    (pages,) = disk.execute("PRAGMA page_count").fetchone()
    disk.execute(f"PRAGMA max_page_count = {pages}")
    refuse(store, [limit("2"), limit("x" * 100_000, entity=write_pairs((("user", "y" * 100_000),)))])
    disk.execute("PRAGMA max_page_count = 1000000")
    assert store.commit([limit("3")], EVE, 3_000).version == 3


def test_a_failed_write_is_refused_and_can_be_tried_again(disk: Disk) -> None:
    store = MetadataStore(disk, Seals(SecretKey(bytes(32))))
    disk.fault = "SQLITE_IOERR_WRITE"
    refuse(store, [limit("2")])
    disk.fault = None
    assert store.commit([limit("3")], EVE, 3_000).version == 3


def test_a_failed_fsync_is_never_retried_as_success(disk: Disk) -> None:
    store = MetadataStore(disk, Seals(SecretKey(bytes(32))))
    disk.fault = "SQLITE_IOERR_FSYNC"
    refuse(store, [limit("2")])
    disk.fault = None
    refuse(store, [limit("3")])


@pytest.mark.parametrize("fault", ["SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC"])
def test_a_failed_write_is_logged_with_the_file_once_a_minute(
    disk: Disk, path: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    store = MetadataStore(disk, Seals(SecretKey(bytes(32))))
    disk.fault = fault
    for now_ms in (2_000, 2_001, 61_999, 62_000, 62_001):
        with pytest.raises(ApiError, match="cannot write the metadata: disk I/O error") as refused:
            store.commit([limit("2")], EVE, now_ms)
        assert str(path) not in str(refused.value)
    lines = [vars(each) for each in caplog.records]
    assert [(each["message"], each["file"]) for each in lines] == [("a change was refused", str(path))] * 2
    assert all("disk I/O error" in each["reason"] for each in lines)
    is_fatal = fault == "SQLITE_IOERR_FSYNC"
    assert all(("until the next start" in each["reason"]) == is_fatal for each in lines)


@pytest.mark.parametrize(("fault", "is_fatal"), [("SQLITE_IOERR_WRITE", False), ("SQLITE_IOERR_FSYNC", True)])
def test_a_write_ahead_log_that_cannot_be_emptied_is_logged(
    disk: Disk, path: Path, caplog: pytest.LogCaptureFixture, fault: str, is_fatal: bool
) -> None:
    store = MetadataStore(disk, Seals(SecretKey(bytes(32))))
    disk.fault, disk.failing = fault, "PRAGMA wal_checkpoint"
    assert store.commit([limit("2")], EVE, 2_000).version == 3
    (line,) = [vars(each) for each in caplog.records]
    assert (line["message"], line["file"]) == ("the write-ahead log was not emptied", str(path))
    disk.fault = None
    if is_fatal:
        with pytest.raises(ApiError, match="until the next start"):
            store.commit([limit("3")], EVE, 3_000)
    else:
        assert store.commit([limit("3")], EVE, 3_000).version == 4


def test_a_trail_that_cannot_be_read_is_an_error_with_the_file_in_the_log(
    disk: Disk, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = MetadataStore(disk, Seals(SecretKey(bytes(32))))
    disk.fault, disk.failing = "SQLITE_IOERR_READ", "SELECT"
    with pytest.raises(ApiError, match="cannot read the metadata: disk I/O error"):
        store.history(AuditFilter())
    (line,) = [vars(each) for each in caplog.records]
    assert (line["message"], line["file"]) == ("the audit trail cannot be read", str(path))


def test_a_text_that_no_encoding_takes_leaves_nothing_behind(store: MetadataStore) -> None:
    with pytest.raises(UnicodeEncodeError):
        store.commit([limit("1"), limit("2", entity="\ud800")], EVE, 2_000)
    assert store.commit([limit("3")], EVE, 2_000).version == 2
