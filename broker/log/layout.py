"""File and directory names of the log: Kafka's names, so that Kafka's tools work on them."""

import os
import re
from typing import Final

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
SNAPSHOT: Final = ".snapshot"
TXN_INDEX: Final = ".txnindex"
INDEX_RECORD: Final = ".indexrecord"
"""Ours: what the indexes of a closed segment contain (`IndexRecord`). Kafka ignores the file."""

DELETED: Final = ".deleted"
"""Suffix of a segment file that waits for its removal."""

CLEANED: Final = ".cleaned"
"""Suffix of the files of a cleaned segment that is being written."""

SWAP: Final = ".swap"
"""Suffix of the files of a cleaned segment that is complete and replaces others."""

DELETED_DIRECTORY: Final = "-delete"
FUTURE_DIRECTORY: Final = "-future"
STRAY_DIRECTORY: Final = "-stray"
PARTITION_METADATA: Final = "partition.metadata"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANER_POINTS: Final = "cleaner-offset-checkpoint"
COPY: Final = ".copy"
"""Suffix of our copy of a checkpoint, with a checksum. Kafka ignores the file."""

META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"

_MAX_NAME_BYTES: Final = 255

_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<index>\d{1,10})")
_FUTURE = re.compile(r"(?P<name>.+)\.[0-9a-f]{32}" + FUTURE_DIRECTORY)
_SEGMENT_FILE = re.compile(r"(?P<offset>\d{20})(?P<suffix>\.[a-z]+)")


def partition_directory(topic: str, index: int) -> str:
    """Return the partition's directory name.

    Raises ValueError for a topic name that would not parse back; `control` rejects such names earlier.
    """
    name = f"{topic}-{index}"
    if parse_partition(name) != (topic, index):
        raise ValueError(f"{topic!r} is not a valid topic name")
    return name


def parse_partition(directory: str) -> tuple[str, int] | None:
    found = _PARTITION.fullmatch(directory)
    return (found["topic"], int(found["index"])) if found else None


def future_directory(topic: str, index: int, unique: str) -> str:
    """Return the name of the directory for a move's copy; `unique` are 32 hex digits.

    Raises ValueError if the name is too long.
    """
    name = f"{partition_directory(topic, index)}.{unique}{FUTURE_DIRECTORY}"
    if len(name) > _MAX_NAME_BYTES:
        raise ValueError("The topic name is too long.")
    return name


def parse_future(directory: str) -> tuple[str, int] | None:
    found = _FUTURE.fullmatch(directory)
    return parse_partition(found["name"]) if found else None


def renamed_directory(directory: str, unique: str, suffix: str) -> str:
    """Return another name in the same parent directory, with the old name truncated to the length limit."""
    parent, name = os.path.split(directory)
    behind = f".{unique}{suffix}"
    return os.path.join(parent, name[: _MAX_NAME_BYTES - len(behind)] + behind)


def segment_file(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[int, str] | None:
    """Return (base offset, suffix)."""
    found = _SEGMENT_FILE.fullmatch(name)
    return (int(found["offset"]), found["suffix"]) if found else None
