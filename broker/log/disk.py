"""Everything that the log asks of the file system; the only file of the room that opens, flushes or maps one.

Called by the segments, the checkpoints and the store. Knows paths, descriptors and bytes; no offset, no
batch. An `OSError` passes through as it came: the caller knows what it means for the log.

`OpenFiles` lends descriptors and belongs to the event loop's thread. The functions hold no state, so any
thread may call them.
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

FEWEST_OPEN: Final = 8
"""Files that are held open where there are hardly any descriptors."""

_MOST_BUFFERS: Final = 1_024
"""IOV_MAX of Linux: buffers that one writev takes."""

_COPIED_TOGETHER: Final = 1_048_576

_CANNOT_TELL: Final = (EOPNOTSUPP, ENOSYS, EINVAL)

_one_byte: Final = bytearray(1)

_serials = count(1)

_FILE_MODE: Final = 0o640
_FOLDER_MODE: Final = 0o750
"""At most: a umask takes more away. Other users of the machine read no records."""


class OpenFile:
    """A descriptor that is closed when the last one who holds it lets go: a slice on its way to a socket
    keeps the bytes of a segment readable that has been evicted, or deleted, meanwhile.
    """

    __slots__ = ("fd", "serial")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.serial = next(_serials)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


NOTHING: Final = OpenFile(-1)
"""For a slice without bytes."""


def open_file(path: str, *, make: bool = False) -> OpenFile:
    """For reading and writing; `make` it when it is missing. Raises OSError."""
    return OpenFile(os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), _FILE_MODE))


class OpenFiles:
    """At most `capacity` files held open; the one that was unused the longest is let go for the next.

    Where the process has no descriptor left, files are let go until there is one, and `capacity` becomes half
    of what was held, so that connections find some too; `recover` raises it again step by step.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = self._most = capacity
        self._files: OrderedDict[str, OpenFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: str, *, make: bool = False) -> OpenFile:
        """The file for reading and writing; `make` it when it is missing. Raises OSError."""
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
            file = self._open_at_any_price(path, make=make)
        while len(files) >= self.capacity:
            files.popitem(last=False)
        files[path] = file
        return file

    def shrink(self, error: OSError) -> None:
        """There was no descriptor: holds half as many files from now on."""
        capacity = max(len(self._files) // 2, FEWEST_OPEN)
        if capacity < self.capacity:
            words = {"held": len(self._files), "now": capacity, "reason": str(error)}
            logger.warning("no descriptor is left: fewer segments are held open", extra=words)
            self.capacity = capacity
        while len(self._files) > self.capacity:
            self._files.popitem(last=False)

    def recover(self) -> None:
        """Holds twice as many files again, up to what it began with."""
        self.capacity = min(self.capacity * 2, self._most)

    def _open_at_any_price(self, path: str, *, make: bool) -> OpenFile:
        """A slice on its way to a reader keeps its descriptor, so one let go may not be one more. Raises
        OSError when none is held any more.
        """
        while True:
            try:
                return open_file(path, make=make)
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS or not self._files:
                    raise
            self._files.popitem(last=False)

    def forget(self, path: str) -> None:
        """Nobody will ask for this path again, or it will mean another file."""
        self._files.pop(path, None)

    def clear(self) -> None:
        self._files.clear()


class Sender(Protocol):
    """The part of socket.socket that a slice sends into."""

    def fileno(self) -> int: ...

    def send(self, data: memoryview, /) -> int: ...


def is_cached(file: OpenFile, position: int) -> bool | None:
    """Whether the byte at `position` can be read without the disk; None where the file system cannot tell."""
    try:
        # Nothing is read where somebody else has shortened the file.
        return os.preadv(file.fd, (_one_byte,), position, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    except OSError as error:
        return None if error.errno in _CANNOT_TELL else False


def write_at(file: OpenFile, buffers: Sequence[Buffer], position: int) -> int:
    """Writes all of them, one after the other, and returns where they end; a short write is continued.

    Raises OSError after which any part of the bytes may be there.
    """
    fd = file.fd
    wanted = position + sum(map(len, buffers))
    first = buffers if len(buffers) <= _MOST_BUFFERS else buffers[:_MOST_BUFFERS]
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
            if len(left) == _MOST_BUFFERS:
                break
        else:
            written -= len(buffer)
    return left


def read_at(file: OpenFile, position: int, length: int) -> bytes:
    """All of them. Raises OSError, also where the file ends before."""
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
    """The same bytes to the same position of another file, which nobody else writes to. One call as a rule: a
    thread that must take turns with a busy event loop would wait for each. Raises OSError, after which any
    part of them may be there.
    """
    os.lseek(target.fd, position, os.SEEK_SET)
    end = position + length
    while position < end:
        sent = os.sendfile(target.fd, source.fd, position, end - position)
        if sent == 0:
            raise too_short()
        position += sent


def too_short() -> OSError:
    """Somebody else has shortened the file."""
    return OSError(EIO, "a file of the log is shorter than it was")


def read_into(file: OpenFile, view: memoryview, position: int) -> None:
    """Fills the whole view. Raises OSError, also where the file ends before it."""
    filled = os.preadv(file.fd, (view,), position)
    while filled < len(view):
        more = os.preadv(file.fd, (view[filled:],), position + filled)
        if not more:
            raise too_short()
        filled += more


def send_file(sender: Sender, file: OpenFile, position: int, length: int) -> int:
    """Page cache to socket by sendfile(2). Raises BlockingIOError when the socket takes nothing now."""
    sent = os.sendfile(sender.fileno(), file.fd, position, length)
    if sent == 0:
        raise too_short()
    return sent


def map_window(file: OpenFile, position: int, length: int) -> mmap.mmap:
    """A readable view of at most `length` bytes from `position` (a multiple of the page size) that exist."""
    exists = min(length, size(file) - position)
    if exists <= 0:
        raise too_short()
    return mmap.mmap(file.fd, exists, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=position)


def size(file: OpenFile) -> int:
    """Bytes."""
    return os.fstat(file.fd).st_size


def truncate(file: OpenFile, length: int) -> None:
    os.ftruncate(file.fd, length)


def flush(file: OpenFile) -> None:
    """Blocks until the bytes are on the disk. An error must not be answered by trying again: the kernel may
    have dropped the pages and would report success.
    """
    os.fdatasync(file.fd)


def flush_directory(path: str) -> None:
    """Makes names that were added, renamed or removed in it last."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def flush_file_system(path: str) -> None:
    """As `flush`, for everything on the file system that the directory lies on: one call instead of some for
    each of a thousand files and their directories.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    finally:
        os.close(fd)


def space(path: str) -> tuple[int, int]:
    """(bytes, bytes that we may still use) of the volume that a path lies on. Raises OSError."""
    volume = os.statvfs(path)
    return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize


def size_of(path: str) -> int:
    """Bytes; 0 for a file that is not there."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def modified_ms(path: str) -> int:
    """When it was last written, by the wall clock."""
    return os.stat(path).st_mtime_ns // 1_000_000


def exists(path: str) -> bool:
    return os.path.exists(path)


def is_directory(path: str) -> bool:
    return os.path.isdir(path)


def read_file(path: str) -> bytes | None:
    """None for a file that is not there."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(fd, "rb", buffering=0) as file:
        return file.read()


def copy_file(path: str, to: str, *, flushed: bool = False) -> None:
    """The whole content, over what was there; nothing where `path` is not there. Raises OSError."""
    try:
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with open(source, "rb", buffering=0) as old, open(to, "wb", buffering=0, opener=_private) as new:
        while piece := old.read(_COPIED_TOGETHER):
            new.write(piece)
        if flushed:
            os.fdatasync(new.fileno())


def replace_file(path: str, content: bytes, *, flushed: bool = False) -> None:
    """The file holds the old bytes or the new ones, never a part; `flushed`: also after a loss of power."""
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
    """Held as long as the returned file is, or the process lives. Raises BlockingIOError when another process
    has it.
    """
    file = OpenFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE))
    fcntl.flock(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def make_directory(path: str) -> None:
    """With the parents that are missing; only the last one is kept from others. Raises OSError."""
    os.makedirs(path, _FOLDER_MODE, exist_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, _FILE_MODE)


def rename(old: str, new: str) -> None:
    os.rename(old, new)


def remove(path: str) -> None:
    """A file or a directory of files; one that is not there is removed already."""
    with contextlib.suppress(FileNotFoundError):
        if not os.path.isdir(path):
            os.unlink(path)
            return
        for name in os.listdir(path):
            os.unlink(os.path.join(path, name))
        os.rmdir(path)


def names_in(path: str) -> list[str]:
    """Sorted."""
    return sorted(os.listdir(path))
