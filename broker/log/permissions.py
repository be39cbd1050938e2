"""Modes of what is kept on disk: files 0640 at most, folders 0750 at most, whatever umask the process has.

New files are made so by broker.log.disk; a start takes rights away from files that an earlier version, Kafka
or a copy left readable by everybody. Called with each log directory that is opened.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from broker.log import layout

MOST_OF_FILE: Final = 0o640
MOST_OF_FOLDER: Final = 0o750

_OURS: Final = frozenset({layout.RECOVERY_POINTS, layout.START_OFFSETS, layout.CLEAN_SHUTDOWN, layout.LOCK})
_ASIDE: Final = (layout.DELETED_DIRECTORY, layout.FUTURE_DIRECTORY, layout.STRAY_DIRECTORY)


@dataclass(slots=True)
class Exposure:
    """`tightened` files and folders were open to others. `error` is the first that could not be changed.
    `mode` is the log directory's own where others may list it or write to it, 0 where not: it may hold what
    is not ours, so it stays as it is.
    """

    directory: str
    tightened: int = 0
    error: OSError | None = None
    mode: int = 0

    def __bool__(self) -> bool:
        return bool(self.tightened or self.error or self.mode)


def tighten(directory: str) -> Exposure:
    """Takes the rights of others, and the group's right to write, from the log's files and folders in
    `directory`. Links are not followed; files of other names are left alone. Raises OSError where the
    directory itself cannot be read.
    """
    mode = stat.S_IMODE(os.stat(directory).st_mode)
    exposure = Exposure(directory, mode=mode if mode & 0o007 else 0)
    for entry, most in _entries(directory, exposure):
        try:
            seen = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
            if seen & ~most & 0o777:
                os.chmod(entry.path, seen & most)
                exposure.tightened += 1
        except FileNotFoundError:
            continue
        except OSError as error:
            exposure.error = exposure.error or error
    return exposure


def _entries(directory: str, exposure: Exposure) -> Iterator[tuple["os.DirEntry[str]", int]]:
    """Each file and folder of the log, with the most that its mode may be."""
    with os.scandir(directory) as found:
        for entry in found:
            if entry.is_symlink():
                continue
            if entry.is_dir() and _is_partition(entry.name):
                yield entry, MOST_OF_FOLDER
                try:
                    with os.scandir(entry.path) as files:
                        for file in files:
                            if file.is_file(follow_symlinks=False):
                                yield file, MOST_OF_FILE
                except OSError as error:
                    exposure.error = exposure.error or error
            elif entry.name in _OURS and entry.is_file():
                yield entry, MOST_OF_FILE


def _is_partition(name: str) -> bool:
    return layout.parse_partition(name) is not None or name.endswith(_ASIDE)
