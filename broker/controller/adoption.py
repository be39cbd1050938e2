"""Compares what is on disk with the metadata at start.

A broker whose metadata does not list the topics on its disk, or that has started before and has no metadata,
has lost it and must not start as a new one. Used by broker.server.broker before the logs are opened.
`MetadataStore` writes the changes, and `log.directories` lists the folders.
"""

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.log import disk
from broker.log.directories import PartitionFolder
from broker.log.layout import CLEANER_POINTS, COPY, META_PROPERTIES, RECOVERY_POINTS, START_OFFSETS
from broker.metadata.changes import Change, ChangeKind
from broker.metadata.secret_key import KeyFiles
from broker.metadata.store import MetadataStore
from broker.metadata.wal import RECOVERY_HINT, MetadataUnusable

KEEP_EVERYTHING: Final = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}
"""The settings of an adopted topic. Its own are lost, and the defaults could delete records that it kept."""

_NAMED: Final = 5
_CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")


_LEFT_BY_A_START: Final = (
    META_PROPERTIES,
    RECOVERY_POINTS,
    START_OFFSETS,
    CLEANER_POINTS,
    RECOVERY_POINTS + COPY,
    START_OFFSETS + COPY,
    CLEANER_POINTS + COPY,
)
"""Files that a start writes after its metadata. Not those that `rm -rf DIRECTORY/*` leaves."""


def check_metadata_exists(
    path: Path, folders: Sequence[PartitionFolder], directories: Sequence[str], keys: KeyFiles
) -> None:
    """Raise MetadataUnusable if the file is missing or empty although an earlier start had one.

    The file can be in another log directory if their order has changed. A start makes the default key after
    the metadata, so a first start that was interrupted has not left a key only.
    """
    if path.exists() and path.stat().st_size:
        return
    left = [
        os.path.join(directory, name)
        for directory in directories
        for name in _LEFT_BY_A_START
        if os.path.exists(os.path.join(directory, name))
    ]
    if not keys.configured and keys.path.exists():
        left.append(str(keys.path))
    if not folders and not left:
        return
    others = [each for each in directories if os.path.abspath(each) != os.path.abspath(path.parent)]
    other_directories = [each for each in others if os.path.exists(os.path.join(each, path.name))]
    if other_directories:
        hint = f"{other_directories[0]} contains such a file: put that directory first in log.dirs"
    else:
        hint = RECOVERY_HINT
    state = "is empty" if path.exists() else "is missing"
    found = f"there are topic folders ({_names(folders)})" if folders else f"an earlier start left {left[0]}"
    raise MetadataUnusable(f"{path} {state}, but {found}. {hint}")


def cluster_id_in(directories: Iterable[str]) -> str | None:
    """Return the cluster id of the first readable meta.properties; None without one."""
    for directory in directories:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = Path(directory, META_PROPERTIES).read_text("ascii")
            for line in text.splitlines():
                name, _, value = line.partition("=")
                if name == "cluster.id" and _CLUSTER_ID.fullmatch(value):
                    return value
    return None


def mark_directories(directories: Iterable[str], cluster_id: str, node_id: int) -> None:
    """Write a missing meta.properties to each log directory, in Kafka's format: a sign that the broker has
    started before. A directory that cannot be written goes offline later.
    """
    text = f"cluster.id={cluster_id}\nnode.id={node_id}\nversion=1\n"
    for directory in directories:
        with contextlib.suppress(OSError):
            path = os.path.join(directory, META_PROPERTIES)
            if not os.path.exists(path):
                disk.make_directory(directory)
                disk.replace_file(path, text.encode(), flushed=True)


def unknown_folders(store: MetadataStore, folders: Sequence[PartitionFolder]) -> list[PartitionFolder]:
    """Return the folders of unknown topics, and of partitions beyond a topic's count.

    The folder of a deleted topic is known: a crash can leave it behind.
    """
    if not folders:
        return []
    ids, names = store.topics_ever()
    topics = store.image.topics
    unknown = []
    for folder in folders:
        if folder.topic_id is None:
            is_known = folder.topic in names
        else:
            is_known = folder.topic_id in ids
        topic = topics.get(folder.topic)
        if topic is not None and folder.topic_id in (None, topic.topic_id):
            is_known = is_known and folder.partition < topic.partitions
        if not is_known:
            unknown.append(folder)
    return unknown


def check_all_known(path: Path, store: MetadataStore, folders: Sequence[PartitionFolder]) -> None:
    """Raise MetadataUnusable if the metadata does not list all topics on disk."""
    unknown = unknown_folders(store, folders)
    if unknown:
        raise MetadataUnusable(
            f"{path} does not list the topics of some folders ({_names(unknown)}). {RECOVERY_HINT}"
        )


def changes_to_adopt(
    store: MetadataStore,
    folders: Sequence[PartitionFolder],
    settings_of: Callable[[str], Mapping[str, str] | None],
) -> list[Change]:
    """Return the changes that create the topics of unknown folders.

    A topic gets the id of its folders, all partitions up to the highest, and the settings that `settings_of`
    returns for its name, or KEEP_EVERYTHING for None. Raises MetadataUnusable if a topic's folders have
    different ids.
    """
    wanted: dict[str, list[PartitionFolder]] = {}
    for folder in unknown_folders(store, folders):
        wanted.setdefault(folder.topic, []).append(folder)
    changes: list[Change] = []
    for name, topic_folders in wanted.items():
        topic = store.image.topics.get(name)
        ids = {each.topic_id for each in topic_folders if each.topic_id is not None}
        if topic is not None:
            ids.add(topic.topic_id)
        if len(ids) > 1:
            paths = ", ".join(
                f"{each.path} ({(each.topic_id or b'').hex() or 'none'})" for each in topic_folders
            )
            raise MetadataUnusable(
                f"the folders of topic {name} have different topic ids: {paths}. "
                "Move the folders that do not belong to it out of the log directories"
            )
        count = max(each.partition for each in topic_folders) + 1
        if topic is None:
            topic_id = ids.pop() if ids else secrets.token_bytes(16)
            changes.append(Change(ChangeKind.TOPIC, name, "id", topic_id.hex()))
            settings = settings_of(name)
            settings = KEEP_EVERYTHING if settings is None else settings
            changes += [Change(ChangeKind.TOPIC_CONFIG, name, key, value) for key, value in settings.items()]
        if topic is None or topic.partitions < count:
            changes.append(Change(ChangeKind.TOPIC, name, "partitions", str(count)))
    return changes


def _names(folders: Sequence[PartitionFolder]) -> str:
    names = [os.path.basename(each.path) for each in folders]
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
