"""The folders of partitions against the metadata at the start: a broker that does not know the topics on its
own disk has lost its metadata, and must not serve as if it were new.

Used by broker.server before the logs are opened. Decides; `MetadataStore` writes and `log.folders` reads.
"""

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.log.folders import PartitionFolder
from broker.metadata.changes import Change, Kind
from broker.metadata.store import WAY_OUT, MetadataStore, MetadataUnusable

KEEP_EVERYTHING: Final = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}
"""The settings of an adopted topic: its own are lost, and the defaults might delete what it was to keep."""

_NAMED: Final = 5


def check_metadata_exists(path: Path, folders: Sequence[PartitionFolder]) -> None:
    """Raises MetadataUnusable where the file is missing or empty and there are partitions. The file may lie
    in another log directory, if their order was changed.
    """
    if not folders or (path.exists() and path.stat().st_size):
        return
    others = dict.fromkeys(os.path.dirname(each.path) for each in folders)
    elsewhere = [each for each in others if os.path.exists(os.path.join(each, path.name))]
    elsewhere = [each for each in elsewhere if os.path.abspath(each) != os.path.abspath(path.parent)]
    if elsewhere:
        words = f"{elsewhere[0]} has such a file: put that directory first in log.dirs"
    else:
        words = WAY_OUT
    state = "is empty" if path.exists() else "is missing"
    raise MetadataUnusable(f"{path} {state}, and there are folders of topics ({_names(folders)}). {words}")


def unknown_folders(store: MetadataStore, folders: Sequence[PartitionFolder]) -> list[PartitionFolder]:
    """Those of topics that the metadata has never known, and of partitions beyond those that a topic has. A
    folder of a deleted topic is known: a crash can leave it behind.
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
    """Raises MetadataUnusable where the metadata knows less than the disk."""
    unknown = unknown_folders(store, folders)
    if unknown:
        raise MetadataUnusable(
            f"{path} does not know the topics of some folders ({_names(unknown)}). {WAY_OUT}"
        )


def changes_to_adopt(
    store: MetadataStore,
    folders: Sequence[PartitionFolder],
    settings_of: Callable[[str], Mapping[str, str] | None],
) -> list[Change]:
    """What makes the unknown folders' topics known: with the id of their folders, all partitions up to the
    greatest, and `settings_of` the name, or KEEP_EVERYTHING for None. Raises MetadataUnusable where the
    folders of a topic do not agree on its id.
    """
    wanted: dict[str, list[PartitionFolder]] = {}
    for folder in unknown_folders(store, folders):
        wanted.setdefault(folder.topic, []).append(folder)
    changes: list[Change] = []
    for name, mine in wanted.items():
        topic = store.image.topics.get(name)
        ids = {each.topic_id for each in mine if each.topic_id is not None}
        if topic is not None:
            ids.add(topic.topic_id)
        if len(ids) > 1:
            paths = ", ".join(f"{each.path} ({(each.topic_id or b'').hex() or 'none'})" for each in mine)
            raise MetadataUnusable(
                f"the folders of topic {name} have different topic ids: {paths}. "
                "Move those away that do not belong to it"
            )
        count = max(each.partition for each in mine) + 1
        if topic is None:
            topic_id = ids.pop() if ids else secrets.token_bytes(16)
            changes.append(Change(Kind.TOPIC, name, "id", topic_id.hex()))
            settings = settings_of(name)
            settings = KEEP_EVERYTHING if settings is None else settings
            changes += [Change(Kind.TOPIC_CONFIG, name, key, value) for key, value in settings.items()]
        if topic is None or topic.partitions < count:
            changes.append(Change(Kind.TOPIC, name, "partitions", str(count)))
    return changes


def _names(folders: Sequence[PartitionFolder]) -> str:
    names = [os.path.basename(each.path) for each in folders]
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
