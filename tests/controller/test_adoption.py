"""Partition folders that the metadata does not list: the broker does not start as a new one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config.load import load
from broker.controller.adoption import (
    KEEP_EVERYTHING,
    changes_to_adopt,
    check_all_known,
    check_metadata_exists,
    cluster_id_in,
    mark_directories,
    unknown_folders,
)
from broker.log.checkpoints import partition_text
from broker.log.directories import partition_folders
from broker.log.layout import COPY, RECOVERY_POINTS, START_OFFSETS
from broker.metadata.actor import BROKER_ITSELF
from broker.metadata.changes import Change, ChangeKind
from broker.metadata.secret_key import DEFAULT_FILE, KeyFiles
from broker.metadata.store import MetadataStore
from broker.metadata.wal import MetadataUnusable

ORDERS, OTHER = b"o" * 16, b"x" * 16


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MetadataStore]:
    store = MetadataStore.open(tmp_path / "metadata.sqlite", 1)
    yield store
    store.close()


def folder(where: Path, name: str, topic_id: bytes | None = ORDERS) -> Path:
    made = where / name
    made.mkdir(parents=True)
    (made / f"{0:020d}.log").touch()
    if topic_id is not None:
        (made / "partition.metadata").write_bytes(partition_text(topic_id))
    return made


def make_topic(store: MetadataStore, name: str, topic_id: bytes, partitions: int) -> None:
    changes = [
        Change(ChangeKind.TOPIC, name, "id", topic_id.hex()),
        Change(ChangeKind.TOPIC, name, "partitions", str(partitions)),
    ]
    store.commit(changes, BROKER_ITSELF, 2)


def delete_topic(store: MetadataStore, name: str) -> None:
    store.commit(
        [Change(ChangeKind.TOPIC, name, key, None) for key in ("id", "partitions")], BROKER_ITSELF, 3
    )


def check(path: Path, *directories: Path) -> None:
    names = [str(each) for each in (path.parent, *directories)]
    names = list(dict.fromkeys(names))
    check_metadata_exists(path, partition_folders(names), names, KeyFiles(path.with_name(DEFAULT_FILE)))


def own(_name: str) -> None:
    return None


def test_folders_are_found_in_every_directory_with_the_ids_in_them(tmp_path: Path) -> None:
    folder(tmp_path / "a", "orders-0")
    folder(tmp_path / "b", "orders-1", None)
    folder(tmp_path / "b", "orders-2.0123456789abcdef0123456789abcdef-stray")
    (tmp_path / "b" / "notes-1").mkdir()
    (tmp_path / "b" / "file-1").touch()
    found = partition_folders([str(tmp_path / each) for each in ("a", "missing", "b")])
    assert [(each.topic, each.partition, each.topic_id) for each in found] == [
        ("orders", 0, ORDERS),
        ("orders", 1, None),
    ]


@pytest.mark.parametrize(("content", "words"), [(None, "is missing"), (b"", "is empty")])
def test_a_start_without_metadata_over_folders_names_path_reason_and_way_out(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    folder(tmp_path, "orders-0")
    path = tmp_path / "weir-metadata.sqlite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(MetadataUnusable) as refused:
        check(path, tmp_path)
    assert f"{path} {words}" in str(refused.value)
    assert "orders-0" in str(refused.value) and "--rebuild-metadata" in str(refused.value)


def test_a_start_on_an_empty_directory_is_a_fresh_one(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".lock").touch()
    (tmp_path / ".kafka_cleanshutdown").touch()
    check(tmp_path / "weir-metadata.sqlite", tmp_path)


@pytest.mark.parametrize("content", [None, b""])
@pytest.mark.parametrize(
    "left", ["meta.properties", "weir-secret.key", RECOVERY_POINTS, START_OFFSETS + COPY]
)
def test_a_start_without_metadata_beside_files_of_an_earlier_one_is_refused(
    tmp_path: Path, left: str, content: bytes | None
) -> None:
    path = tmp_path / "weir-metadata.sqlite"
    if content is not None:
        path.write_bytes(content)
    check(path, tmp_path)
    (tmp_path / left).touch()
    with pytest.raises(MetadataUnusable) as refused:
        check(path, tmp_path)
    assert f"an earlier start left {tmp_path / left}. Restore a backup" in str(refused.value)


def test_a_key_that_an_operator_has_put_there_is_no_sign_of_an_earlier_start(tmp_path: Path) -> None:
    key = tmp_path / "weir-secret.key"
    key.touch()
    path = tmp_path / "weir-metadata.sqlite"
    check_metadata_exists(path, [], [str(tmp_path)], KeyFiles(key, configured=str(key)))


def test_the_cluster_id_of_a_log_directory_is_read_back(tmp_path: Path) -> None:
    directories = [str(tmp_path / each) for each in ("a", "b")]
    assert cluster_id_in(directories) is None
    (tmp_path / "a").mkdir()
    mark_directories(directories, "k-_4567890123456789012", 3)
    assert (tmp_path / "b" / "meta.properties").read_text() == (
        "cluster.id=k-_4567890123456789012\nnode.id=3\nversion=1\n"
    )
    (tmp_path / "a" / "meta.properties").write_bytes(b"cluster.id=\xff")
    assert cluster_id_in(directories) == "k-_4567890123456789012"
    mark_directories(directories, "another", 3)
    assert (tmp_path / "a" / "meta.properties").read_bytes() == b"cluster.id=\xff"


def test_a_metadata_file_in_another_log_directory_is_pointed_to(tmp_path: Path) -> None:
    folder(tmp_path / "b", "orders-0")
    (tmp_path / "b" / "m.sqlite").write_bytes(b"x")
    with pytest.raises(MetadataUnusable, match=r"put that directory first in log\.dirs"):
        check(tmp_path / "a" / "m.sqlite", tmp_path / "b")


@pytest.mark.parametrize(
    ("name", "topic_id", "is_known"),
    [
        ("orders-0", ORDERS, True),
        ("orders-2", ORDERS, True),
        ("orders-3", ORDERS, False),
        ("orders-0", OTHER, False),
        ("orders-0", None, True),
        ("orders-3", None, False),
        ("deleted-0", b"d" * 16, True),
        ("deleted-0", None, True),
        ("strange-0", OTHER, False),
        ("strange-0", None, False),
    ],
)
def test_a_folder_is_known_by_its_topic_id_by_its_name_without_one_and_up_to_the_count(
    tmp_path: Path, store: MetadataStore, name: str, topic_id: bytes | None, is_known: bool
) -> None:
    make_topic(store, "orders", ORDERS, 3)
    make_topic(store, "deleted", b"d" * 16, 1)
    delete_topic(store, "deleted")
    folder(tmp_path, name, topic_id)
    assert (unknown_folders(store, partition_folders([str(tmp_path)])) == []) is is_known


def test_metadata_that_knows_less_than_the_disk_stops_the_start(tmp_path: Path, store: MetadataStore) -> None:
    for index in range(7):
        folder(tmp_path, f"orders-{index}")
    with pytest.raises(
        MetadataUnusable, match=r"m.sqlite does not list.*orders-4 and 2 more.*--rebuild-metadata"
    ):
        check_all_known(tmp_path / "m.sqlite", store, partition_folders([str(tmp_path)]))


def test_adopted_topics_have_the_ids_and_the_count_of_their_folders_and_keep_everything(
    tmp_path: Path, store: MetadataStore
) -> None:
    folder(tmp_path, "orders-0")
    folder(tmp_path, "orders-4", None)
    folder(tmp_path, "lost-id-0", None)
    folders = partition_folders([str(tmp_path)])
    image = store.commit(changes_to_adopt(store, folders, own), BROKER_ITSELF, 4)
    orders = image.topics["orders"]
    assert (orders.topic_id, orders.partitions, orders.configs) == (ORDERS, 5, KEEP_EVERYTHING)
    assert (len(image.topics["lost-id"].topic_id), image.topics["lost-id"].partitions) == (16, 1)
    check_all_known(tmp_path, store, folders)
    assert changes_to_adopt(store, folders, own) == []


def test_a_topic_that_is_known_with_fewer_partitions_keeps_its_settings(
    tmp_path: Path, store: MetadataStore
) -> None:
    make_topic(store, "orders", ORDERS, 2)
    folder(tmp_path, "orders-2")
    changes = changes_to_adopt(store, partition_folders([str(tmp_path)]), own)
    assert changes == [Change(ChangeKind.TOPIC, "orders", "partitions", "3")]


def test_a_topic_of_the_brokers_own_gets_the_settings_that_it_was_made_with(
    tmp_path: Path, store: MetadataStore
) -> None:
    folder(tmp_path, "__consumer_offsets-0")
    changes = changes_to_adopt(
        store, partition_folders([str(tmp_path)]), lambda _: {"cleanup.policy": "compact"}
    )
    image = store.commit(changes, BROKER_ITSELF, 4)
    assert image.topics["__consumer_offsets"].configs == {"cleanup.policy": "compact"}


def test_folders_of_one_topic_with_two_ids_are_not_adopted(tmp_path: Path, store: MetadataStore) -> None:
    folder(tmp_path, "orders-0", ORDERS)
    folder(tmp_path, "orders-1", OTHER)
    with pytest.raises(MetadataUnusable, match="different topic ids"):
        changes_to_adopt(store, partition_folders([str(tmp_path)]), own)


def test_rebuilding_is_off_unless_asked_for() -> None:
    assert load(None, [], {}).rebuild_metadata is False
