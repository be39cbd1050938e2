"""Moves the bytes of large frames from one plain socket to another inside the kernel. (splice(2))

A frame takes a pipe from the pool when its head has been forwarded, and gives it back when its last byte has.
Pipes are kept, since creating one of this size costs as much as moving 100 kB.
"""

import contextlib
import fcntl
import os
from typing import Final

PIPE_BYTES: Final = 1024 * 1024
"""Requested size of a pipe; the kernel's default limit for users other than root. Ours."""

KEPT: Final = 64
"""Unused pipes kept by a processor; ours."""

AT_ONCE: Final = 1024 * 1024
"""Bytes moved for one connection before others have their turn; ours."""

FLAGS: Final = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK


class TargetError(OSError):
    """The socket that the bytes go to failed, and not the one that they come from."""


class Splice:
    """One frame's pipe. `held` are the bytes in the pipe."""

    __slots__ = ("_pool", "_reader", "_writer", "held")

    def __init__(self, pool: "PipePool", reader: int, writer: int) -> None:
        self._pool = pool
        self._reader = reader
        self._writer = writer
        self.held = 0

    def move(self, source: int, target: int, left: int) -> tuple[int, bool]:
        """Move up to `left` bytes, AT_ONCE at most. Returns the number of bytes taken from `source`, and
        whether `target` is full; the bytes that it did not take are `held`. Raises OSError, TargetError if
        that is the target's, and EOFError at the end of the source. The pipe must be empty.
        """
        taken = 0
        goal = min(left, AT_ONCE)
        while taken < goal:
            try:
                moved = os.splice(source, self._writer, goal - taken, flags=FLAGS)
            except BlockingIOError:
                break
            if not moved:
                raise EOFError
            taken += moved
            self.held += moved
            if not self.drain(target):
                return taken, True
        return taken, False

    def drain(self, target: int) -> bool:
        """Move the held bytes. Returns whether `target` has taken all. Raises TargetError."""
        while self.held:
            try:
                self.held -= os.splice(self._reader, target, self.held, flags=FLAGS)
            except BlockingIOError:
                return False
            except OSError as error:
                raise TargetError(*error.args) from error
        return True

    def release(self) -> None:
        """Give the pipe back; a pipe that still holds bytes is closed."""
        self._pool.put_back(self._reader, self._writer, is_empty=not self.held)


class PipePool:
    """The unused pipes of one processor."""

    def __init__(self) -> None:
        self._unused: list[tuple[int, int]] = []

    def take(self) -> Splice | None:
        """Return a pipe, or None if the process has no descriptors left: the frame is then copied."""
        if self._unused:
            return Splice(self, *self._unused.pop())
        try:
            reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        with contextlib.suppress(OSError):  # pipes are at the user's limit: a small one works too
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return Splice(self, reader, writer)

    def put_back(self, reader: int, writer: int, *, is_empty: bool) -> None:
        if is_empty and len(self._unused) < KEPT:
            self._unused.append((reader, writer))
            return
        os.close(reader)
        os.close(writer)

    def close(self) -> None:
        """Close the unused pipes."""
        while self._unused:
            for descriptor in self._unused.pop():
                os.close(descriptor)
