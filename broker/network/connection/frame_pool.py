"""A pool of buffers for large frames.

A new bytearray is zero-filled and faulted in page by page, which costs more than receiving into it, so
buffers of large frames are reused. Called by `network.connection.receive` and by handlers that release a
frame. Bounds the idle buffers that it keeps; the memory pool bounds the buffers in use (KIP-72). The buffers
of the largest frames are anonymous mappings, which are faulted in as bytes arrive, grow without a copy and
are not kept: a bytearray of 32 MiB takes 20 ms to create, and a copy of 4 MiB into new memory 3 to 9 ms.
"""

from collections.abc import Callable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final

from broker.common.clock import Clock
from broker.network.reaper import Reaper

MIB: Final = 1024 * 1024

MAX_IDLE_BYTES: Final = 32 * MIB
"""Idle buffer bytes kept for the next large frames; ours, without a Kafka counterpart. Enough for 16
one-megabyte batches.
"""

TRUSTED_BYTES: Final = 64 * MIB
"""Up to this total, a frame gets its whole buffer when its size arrives; beyond it a buffer grows as bytes
arrive, so a thousand peers that announce 100 MB and send nothing take almost no memory.
"""

TRUSTED_FRAME: Final = 4 * MIB
FIRST_CHUNK: Final = 128 * 1024


Buffer = bytearray | mmap


class FramePool:
    """Recycles bytearrays in power-of-two sizes up to TRUSTED_FRAME. A buffer may exceed its frame. `unmap`
    returns a mapping to the system; by default that happens at once.
    """

    def __init__(self, unmap: Callable[[mmap], None] | None = None) -> None:
        self._unmap = unmap
        self._free: dict[int, list[bytearray]] = {}
        self.idle_bytes = 0
        self.outstanding = 0

    def take(self, size: int, arrived: int) -> Buffer:
        """Return a buffer of at least `arrived` bytes, or of the whole `size` up to TRUSTED_BYTES in total.

        Raises MemoryError, and counts nothing, if allocation fails after freeing the idle buffers.
        """
        is_mapped = size > TRUSTED_FRAME
        if is_mapped or self.outstanding + size > TRUSTED_BYTES:
            size = min(size, max(FIRST_CHUNK, 2 * arrived))
        rounded = 1 << (size - 1).bit_length()
        if is_mapped:
            mapping = _mapping(rounded)
            self.outstanding += rounded
            return mapping
        free = self._free.get(rounded)
        if free:
            self.idle_bytes -= rounded
            buffer = free.pop()
        else:
            try:
                buffer = bytearray(rounded)
            except MemoryError:
                self._free.clear()
                self.idle_bytes = 0
                buffer = bytearray(rounded)
        self.outstanding += rounded
        return buffer

    def grow(self, frame: Buffer, wanted: int) -> Buffer:
        """Return a buffer of twice the size, or `wanted` if less, with the bytes of the full `frame`. Raises
        MemoryError as `take` does, and leaves `frame` unchanged then.
        """
        if isinstance(frame, mmap):
            full = len(frame)
            size = 1 << (min(wanted, 2 * full) - 1).bit_length()
            try:
                frame.resize(size)
            except OSError as error:
                raise MemoryError from error
            self.outstanding += size - full
            return frame
        larger = self.take(wanted, len(frame))
        larger[: len(frame)] = frame
        self.give_back(frame)
        return larger

    def give_back(self, frame: Buffer) -> None:
        """Keep `frame` for reuse, unless it is a mapping or a memoryview still refers to it."""
        size = len(frame)
        self.outstanding -= size
        if isinstance(frame, mmap):
            if self._unmap is not None:
                self._unmap(frame)
            return
        if self.idle_bytes + size > MAX_IDLE_BYTES:
            return
        try:
            frame.pop()  # raises BufferError while any memoryview exports it
        except BufferError:
            return
        frame.append(0)
        self.idle_bytes += size
        self._free.setdefault(size, []).append(frame)

    def release(self, frame: memoryview) -> None:
        """Give back the buffer of the view `frame`, once its request has been handled."""
        buffer = frame.obj
        frame.release()
        assert isinstance(buffer, Buffer)
        self.give_back(buffer)


def _mapping(size: int) -> mmap:
    """Map anonymous memory. Raises MemoryError."""
    try:
        return mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError from error


PIECE: Final = 2 * 1024 * 1024
"""Bytes unmapped before other tasks run; ours."""


class Unmapping:
    """Returns the mappings of very large frames to the system in pieces. The kernel needs up to 0.3 ms to
    take back a MiB, so that all connections would wait 20 ms for the end of a request of 100 MB.

    There is one per server: the frame pool gives its mappings to it, and `reaper` shrinks them. A mapping
    that a memoryview still refers to ends with it.
    """

    def __init__(self, clock: Clock, task_name_prefix: str = "") -> None:
        self._mappings: list[mmap] = []
        self.reaper = Reaper(f"{task_name_prefix}frame-unmapping-reaper", self._next, self._unmap, clock)

    def begin(self, mapping: mmap) -> None:
        """Return the mapping, which the caller no longer uses."""
        self._mappings.append(mapping)
        self.reaper.wake_by(0)

    @property
    def left(self) -> int:
        """The bytes still mapped."""
        return sum(map(len, self._mappings))

    def _next(self) -> int | None:
        return 0 if self._mappings else None

    def _unmap(self, _now_ms: int) -> None:
        if not self._mappings:
            return
        mapping = self._mappings[-1]
        size = len(mapping)
        try:
            if size > PIECE:
                mapping.resize(size - PIECE)
                return
            mapping.close()
        except (BufferError, OSError):
            pass
        self._mappings.pop()
