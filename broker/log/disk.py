"""All file system access of the log; no other file of the package opens, flushes or maps a file.

Called by the segments, the checkpoints and the store. Works on paths, descriptors and bytes. Passes every
`OSError` on unchanged: the caller decides what it means for the log.

`OpenFiles` caches descriptors and belongs to the event loop's thread. The functions are stateless and
thread-safe.
"""

import contextlib
import ctypes
import fcntl
import logging
import mmap
import os
from collections import OrderedDict
from collections.abc import Sequence
from errno import EINVAL, EIO, EMFILE, ENFILE, ENOSYS, EOPNOTSUPP
from itertools import count
from typing import Final, Protocol

from broker.records.header import Buffer

logger = logging.getLogger(__name__)

NO_DESCRIPTORS: Final = frozenset({EMFILE, ENFILE})

MIN_OPEN_FILES: Final = 8
"""Files kept open even if the process runs out of descriptors."""

_MAX_BUFFERS: Final = 1_024
"""IOV_MAX of Linux: the maximum number of buffers per writev."""

_COPY_CHUNK: Final = 1_048_576

_UNSUPPORTED: Final = (EOPNOTSUPP, ENOSYS, EINVAL)

_one_byte: Final = bytearray(1)

_serials = count(1)

MAX_FILE_MODE: Final = 0o640
MAX_FOLDER_MODE: Final = 0o750
"""Maximum modes, reduced further by the umask. Other users of the machine cannot read records."""


class OpenFile:
    """A descriptor that closes with its last reference.

    A slice on its way to a socket keeps the bytes of an evicted or deleted segment readable.
    """

    __slots__ = ("fd", "serial")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.serial = next(_serials)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


NO_FILE: Final = OpenFile(-1)
"""For a slice without bytes."""


def open_file(path: str, *, make: bool = False) -> OpenFile:
    """Open for reading and writing; `make` creates a missing file. Raises OSError."""
    return OpenFile(os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), MAX_FILE_MODE))


class OpenFiles:
    """LRU cache of at most `capacity` open files.

    When the process runs out of descriptors, files are closed until one is free, and `capacity` is halved so
    that connections get descriptors too; `recover` raises it again step by step.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = self._most = capacity
        self._files: OrderedDict[str, OpenFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: str, *, make: bool = False) -> OpenFile:
        """Return the file, open for reading and writing; `make` creates a missing file. Raises OSError."""
        files = self._files
        file = files.get(path)
        if file is not None:
            files.move_to_end(path)
            return file
        try:
            file = open_file(path, make=make)
        except OSError as error:
            if error.errno not in NO_DESCRIPTORS:
                raise
            self.shrink(error)
            file = self._open_evicting(path, make=make)
        while len(files) >= self.capacity:
            files.popitem(last=False)
        files[path] = file
        return file

    def shrink(self, error: OSError) -> None:
        """Halve the capacity after the process ran out of descriptors."""
        capacity = max(len(self._files) // 2, MIN_OPEN_FILES)
        if capacity < self.capacity:
            logger.warning(
                "out of file descriptors: fewer segment files are kept open",
                extra={"held": len(self._files), "now": capacity, "reason": str(error)},
            )
            self.capacity = capacity
        while len(self._files) > self.capacity:
            self._files.popitem(last=False)

    def recover(self) -> None:
        """Double the capacity, up to its initial value."""
        self.capacity = min(self.capacity * 2, self._most)

    def _open_evicting(self, path: str, *, make: bool) -> OpenFile:
        """Open the file, closing cached files until a descriptor is free.

        A slice in flight keeps its descriptor, so closing one cached file may free none. Raises OSError when
        the cache is empty.
        """
        while True:
            try:
                return open_file(path, make=make)
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS or not self._files:
                    raise
            self._files.popitem(last=False)

    def forget(self, path: str) -> None:
        """Remove a path that is obsolete or will name another file."""
        self._files.pop(path, None)

    def clear(self) -> None:
        self._files.clear()


class Sender(Protocol):
    """The part of socket.socket that a slice needs."""

    def fileno(self) -> int: ...

    def send(self, data: memoryview, /) -> int: ...


def is_cached(file: OpenFile, position: int) -> bool | None:
    """Return whether the byte at `position` is in the page cache; None if the file system does not say."""
    try:
        # Reads nothing if another process has truncated the file.
        return os.preadv(file.fd, (_one_byte,), position, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    except OSError as error:
        return None if error.errno in _UNSUPPORTED else False


def write_at(file: OpenFile, buffers: Sequence[Buffer], position: int) -> int:
    """Write all buffers in order and return the end position; continues short writes.

    Raises OSError, after which any part of the bytes may be written.
    """
    fd = file.fd
    wanted = position + sum(map(len, buffers))
    first = buffers if len(buffers) <= _MAX_BUFFERS else buffers[:_MAX_BUFFERS]
    end = position + os.pwritev(fd, first, position)
    while end < wanted:
        end += os.pwritev(fd, _left(buffers, end - position), end)
    return end


def _left(buffers: Sequence[Buffer], written: int) -> list[memoryview]:
    left: list[memoryview] = []
    for buffer in buffers:
        if written < len(buffer):
            left.append(memoryview(buffer)[written:])
            written = 0
            if len(left) == _MAX_BUFFERS:
                break
        else:
            written -= len(buffer)
    return left


def read_at(file: OpenFile, position: int, length: int) -> bytes:
    """Read exactly `length` bytes. Raises OSError, also if the file ends earlier."""
    piece = os.pread(file.fd, length, position)
    if len(piece) == length:
        return piece
    pieces = [piece]
    missing = length - len(piece)
    while missing:
        if not piece:
            raise too_short()
        piece = os.pread(file.fd, missing, position + length - missing)
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def copy(source: OpenFile, target: OpenFile, position: int, length: int) -> None:
    """Copy bytes to the same position of another file, which has no other writer.

    Usually one system call, because a thread waits for the GIL of a busy event loop after each. Raises
    OSError, after which any part of the bytes may be written.
    """
    os.lseek(target.fd, position, os.SEEK_SET)
    end = position + length
    while position < end:
        sent = os.sendfile(target.fd, source.fd, position, end - position)
        if sent == 0:
            raise too_short()
        position += sent


def too_short() -> OSError:
    """Return the error for a file that was truncated by another process."""
    return OSError(EIO, "a log file was truncated")


def read_into(file: OpenFile, view: memoryview, position: int) -> None:
    """Fill the whole view. Raises OSError, also if the file ends earlier."""
    filled = os.preadv(file.fd, (view,), position)
    while filled < len(view):
        more = os.preadv(file.fd, (view[filled:],), position + filled)
        if not more:
            raise too_short()
        filled += more


def send_file(sender: Sender, file: OpenFile, position: int, length: int) -> int:
    """Send from the page cache by sendfile(2). Raises BlockingIOError when the socket's buffer is full."""
    sent = os.sendfile(sender.fileno(), file.fd, position, length)
    if sent == 0:
        raise too_short()
    return sent


def map_window(file: OpenFile, position: int, length: int) -> mmap.mmap:
    """Map at most `length` existing bytes read-only from `position`, a multiple of the page size."""
    exists = min(length, size(file) - position)
    if exists <= 0:
        raise too_short()
    return mmap.mmap(file.fd, exists, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=position)


def size(file: OpenFile) -> int:
    """Return the size in bytes."""
    return os.fstat(file.fd).st_size


def truncate(file: OpenFile, length: int) -> None:
    os.ftruncate(file.fd, length)


def flush(file: OpenFile) -> None:
    """Block until the bytes are on disk.

    The caller must not retry after an error: the kernel may have dropped the pages and would report success.
    """
    os.fdatasync(file.fd)


def flush_file(path: str) -> None:
    """Block until the file is on disk, so that it survives a power loss. Raises OSError."""
    _flush_path(path, 0)


def flush_directory(path: str) -> None:
    """Make names that were added, renamed or removed in the directory durable."""
    _flush_path(path, os.O_DIRECTORY)


def _flush_path(path: str, flag: int) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flag)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def flush_file_system(path: str) -> None:
    """Flush the directory's file system: one call instead of several for each of a thousand files."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    finally:
        os.close(fd)


def space(path: str) -> tuple[int, int]:
    """Return (bytes, bytes available to this process) of the volume. Raises OSError."""
    volume = os.statvfs(path)
    return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize


def size_of(path: str) -> int:
    """Return the size in bytes; 0 for a missing file."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def modified_ms(path: str) -> int:
    """Return the modification time by the wall clock."""
    return os.stat(path).st_mtime_ns // 1_000_000


def set_modified_ms(path: str, wall_ms: int) -> None:
    """Set the modification time."""
    os.utime(path, ns=(wall_ms * 1_000_000, wall_ms * 1_000_000))


def exists(path: str) -> bool:
    return os.path.exists(path)


def is_directory(path: str) -> bool:
    return os.path.isdir(path)


def read_file(path: str) -> bytes | None:
    """Return the content; None for a missing file."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except FileNotFoundError:
        return None


def copy_file(path: str, to: str, *, flushed: bool = False) -> None:
    """Replace `to` by the content of `path`; does nothing if `path` is missing. Raises OSError."""
    try:
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with open(source, "rb", buffering=0) as old, open(to, "wb", buffering=0, opener=_private) as new:
        while piece := old.read(_COPY_CHUNK):
            new.write(piece)
        if flushed:
            os.fdatasync(new.fileno())


def replace_file(path: str, content: bytes, *, flushed: bool = False) -> None:
    """Replace the content atomically; with `flushed` also across a power loss."""
    fresh = path + ".tmp"
    with open(fresh, "wb", opener=_private) as file:
        file.write(content)
        if flushed:
            file.flush()
            os.fsync(file.fileno())
    os.replace(fresh, path)
    if flushed:
        flush_directory(os.path.dirname(path))


def lock_directory(path: str) -> OpenFile:
    """Lock the directory until the returned file or the process ends.

    Raises BlockingIOError when another process holds the lock.
    """
    file = OpenFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MAX_FILE_MODE))
    fcntl.flock(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def make_directory(path: str) -> None:
    """Create the directory and missing parents; only the last one gets a restricted mode. Raises OSError."""
    os.makedirs(path, MAX_FOLDER_MODE, exist_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, MAX_FILE_MODE)


def rename(old: str, new: str) -> None:
    os.rename(old, new)


def remove(path: str) -> None:
    """Remove a file or a directory of files; ignores a missing one."""
    with contextlib.suppress(FileNotFoundError):
        if not os.path.isdir(path):
            os.unlink(path)
            return
        for name in os.listdir(path):
            os.unlink(os.path.join(path, name))
        os.rmdir(path)


def names_in(path: str) -> list[str]:
    """Return the sorted names."""
    return sorted(os.listdir(path))
