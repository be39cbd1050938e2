"""Buffers for large frames, used again and again.

A fresh bytearray is filled with zeros and faulted in page by page, which costs more than receiving into it,
so buffers of large frames are kept when their request is done. Called by `network.connection.receive` and
by the handlers' release; bounded by what it keeps, not by what is outstanding: that is the memory pool's
business (KIP-72). The largest are mappings of memory instead, which are faulted in as bytes arrive, grow
without a copy and are not kept: a bytearray of 32 MiB takes 20 ms to make.
"""

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final

MIB: Final = 1024 * 1024

KEPT_BYTES: Final = 32 * MIB
"""How much idle buffer is kept for the next large frames; ours, there is no ancestor. Enough for 16 one-
megabyte batches.
"""

TRUSTED_BYTES: Final = 64 * MIB
"""Up to here in total, an announced frame gets its whole buffer at once; beyond it a buffer grows as bytes
arrive, so a thousand peers that announce 100 MB and send nothing hold next to nothing.
"""

TRUSTED_FRAME: Final = 4 * MIB
FIRST_CHUNK: Final = 128 * 1024


Buffer = bytearray | mmap


class FramePool:
    """Recycles bytearrays in power-of-two sizes, up to TRUSTED_FRAME. A buffer may be longer than the frame
    in it.
    """

    __slots__ = ("_free", "kept", "outstanding")

    def __init__(self) -> None:
        self._free: dict[int, list[bytearray]] = {}
        self.kept = 0
        self.outstanding = 0

    def take(self, size: int, arrived: int) -> Buffer:
        """A buffer that holds at least `arrived` bytes, and the whole of `size` where that can be trusted.

        Raises MemoryError where there is none even without the buffers that are kept, and counts nothing.
        """
        if size > TRUSTED_FRAME or self.outstanding + size > TRUSTED_BYTES:
            size = min(size, max(FIRST_CHUNK, 2 * arrived))
        rounded = 1 << (size - 1).bit_length()
        if rounded > TRUSTED_FRAME:
            mapping = _mapping(rounded)
            self.outstanding += rounded
            return mapping
        free = self._free.get(rounded)
        if free:
            self.kept -= rounded
            buffer = free.pop()
        else:
            try:
                buffer = bytearray(rounded)
            except MemoryError:
                self._free.clear()
                self.kept = 0
                buffer = bytearray(rounded)
        self.outstanding += rounded
        return buffer

    def grow(self, frame: Buffer, wanted: int) -> Buffer:
        """The same bytes in a buffer of twice the size (or what is wanted, if less), once `frame` is full.
        Raises MemoryError as `take`, and leaves `frame` as it is then.
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
        """Keeps `frame` for another, unless it is a mapping or a view of it is still held somewhere: then it
        is left to its holder.
        """
        size = len(frame)
        self.outstanding -= size
        if isinstance(frame, mmap):
            return
        if self.kept + size > KEPT_BYTES:
            return
        try:
            frame.pop()  # refused with BufferError while any memoryview exports it
        except BufferError:
            return
        frame.append(0)
        self.kept += size
        self._free.setdefault(size, []).append(frame)

    def release(self, frame: memoryview) -> None:
        """Gives back the buffer that `frame` is a view of, once its request has been handled."""
        buffer = frame.obj
        frame.release()
        assert isinstance(buffer, Buffer)
        self.give_back(buffer)


def _mapping(size: int) -> mmap:
    """Raises MemoryError."""
    try:
        return mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError from error
