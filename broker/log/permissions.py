"""File modes on disk: at most 0640 for files and 0750 for folders, independent of the process's umask.

broker.log.disk creates files with these modes; at startup, `tighten` reduces the modes of files that an
earlier version, Kafka or a copy left readable by others. Called for each opened log directory.
"""

import os
import stat
from collections.abc import Iterator
from typing import Final

import msgspec

from broker.log import layout
from broker.log.disk import MAX_FILE_MODE, MAX_FOLDER_MODE

_CHECKPOINTS: Final = (layout.RECOVERY_POINTS, layout.START_OFFSETS, layout.CLEANER_POINTS)
_OURS: Final = frozenset(
    {
        *_CHECKPOINTS,
        *(each + layout.COPY for each in _CHECKPOINTS),
        layout.CLEAN_SHUTDOWN,
        layout.LOCK,
    }
)
_ASIDE: Final = (layout.DELETED_DIRECTORY, layout.FUTURE_DIRECTORY, layout.STRAY_DIRECTORY)


class Exposure(msgspec.Struct):
    """Result of tightening one log directory.

    `tightened` files and folders were open to others. `error` is the first that could not be changed. `mode`
    is the log directory's own mode if others may list it or write to it, else 0: the directory may hold
    foreign files, so its mode is not changed.
    """

    directory: str
    tightened: int = 0
    error: OSError | None = None
    mode: int = 0

    def __bool__(self) -> bool:
        return bool(self.tightened or self.error or self.mode)


def tighten(directory: str) -> Exposure:
    """Restrict the modes of the log's files and folders in `directory`.

    Removes the rights of others, and the group's write right. Does not follow links and ignores files with
    other names. Raises OSError if the directory cannot be read.
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
    """Yield each file and folder of the log with its maximum mode."""
    with os.scandir(directory) as found:
        for entry in found:
            if entry.is_symlink():
                continue
            if entry.is_dir() and _is_partition(entry.name):
                yield entry, MAX_FOLDER_MODE
                try:
                    with os.scandir(entry.path) as files:
                        for file in files:
                            if file.is_file(follow_symlinks=False):
                                yield file, MAX_FILE_MODE
                except OSError as error:
                    exposure.error = exposure.error or error
            elif entry.name in _OURS and entry.is_file():
                yield entry, MAX_FILE_MODE


def _is_partition(name: str) -> bool:
    return layout.parse_partition(name) is not None or name.endswith(_ASIDE)
