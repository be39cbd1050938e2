"""The task that saves usage and debts, so that a restart clears none (quota.usage.persistence.enable).

The loop collects the usage in slices; a thread encodes and writes it. A write replaces the file and does not
flush it: the page cache outlives a killed process, and a flush every second would cost the disk of the
records more than debts are worth. After a power loss the file is as old as the kernel left it, some tens of
seconds at most, or fails its checksum. The save of a stop is flushed.

The file is a line with the version, the checksum, and what follows as MessagePack. One that is damaged, too
large or of a newer version is refused as a whole: debts are no reason not to start, and half of them would be
arbitrary.
"""

import logging
from collections.abc import Iterator
from heapq import merge
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec
import trio

from broker.common.clock import Clock
from broker.common.slice_runner import run_slices
from broker.common.slices import freed, run_through
from broker.log import disk
from broker.quotas.saved_usage import Saved, SavedUsage, UsageOfClients

logger = logging.getLogger(__name__)

TASK: Final = "quota-usage"
FILE: Final = "weir-quota-usage"

SAVE_SECONDS: Final = 0.75
"""Pause between two saves. With the time of a save, a kill forgives less than a second."""

VERSION: Final = 1
_NAME: Final = b"weir-quota-usage "
_HEAD: Final = _NAME + b"%d\n" % VERSION
_CRC_BYTES: Final = 4

MAX_BYTES: Final = 4 * 1024 * 1024
"""Of the whole file, which is written every second: 12,000 entities with eleven windows each, or 50,000 that
owe something. Clients choose their ids, and could fill it with them: limits of users, addresses and listeners
come first, and among them those that were used most.
"""

SORTED_AT_ONCE: Final = 1_000
"""Sorting more in one piece would hold the interpreter for milliseconds."""


class UsageFileError(Exception):
    """The file cannot be used; the message says why."""


class QuotaUsageFile:
    """The file in `directory`, or none (None): then nothing is saved."""

    def __init__(self, directory: str | None, usage: UsageOfClients, clock: Clock) -> None:
        self._path = None if directory is None else str(Path(directory) / FILE)
        self._usage = usage
        self._clock = clock
        self._is_resumed = False
        self._has_failed = False

    def resume(self) -> None:
        """Continue with the saved usage, once all limits are in force. A file that cannot be used is named in
        the log.
        """
        self._is_resumed = True
        if self._path is None:
            return
        try:
            if disk.size_of(self._path) > MAX_BYTES:
                raise UsageFileError(f"it has more than {MAX_BYTES} bytes")
            data = disk.read_file(self._path)
            if data is None:
                return
            count = self._usage.resume(decode(data), self._clock.ms(), self._clock.wall_ms())
        except (OSError, UsageFileError) as error:
            self._report("quotas start without the usage of the last run", error)
            return
        logger.debug("quotas continue with the usage of the last run", extra={"entities": count})

    async def run(self) -> None:
        """Save what changed, every `SAVE_SECONDS`, until cancelled."""
        if self._path is None:
            return
        while True:
            await trio.sleep(SAVE_SECONDS)
            await self.save()

    async def save(self) -> None:
        """Save the usage if it has changed. Cancellation does not abandon a write."""
        saved = await run_slices(self._usage.collect(self._clock.ms(), self._clock.wall_ms()))
        if saved is not None:
            await trio.to_thread.run_sync(self._write, saved)
            await run_slices(freed(saved.entries))

    def close(self) -> None:
        """Save at the end, when no request is left, and flush. Does nothing before `resume`."""
        if self._path is not None and self._is_resumed:
            now_ms, wall_ms = self._clock.ms(), self._clock.wall_ms()
            saved = run_through(self._usage.collect(now_ms, wall_ms, always=True))
            assert saved is not None
            self._write(saved, flushed=True)

    def _write(self, saved: Saved, *, flushed: bool = False) -> None:
        assert self._path is not None
        try:
            disk.replace_file(self._path, encode(saved), flushed=flushed)
            self._has_failed = False
        except OSError as error:
            if not self._has_failed:
                self._report("usage of quotas is not saved, a restart would clear it", error)
            self._has_failed = True

    def _report(self, message: str, error: Exception) -> None:
        logger.warning(message, extra={"file": self._path, "reason": str(error)})


def encode(saved: Saved, most_bytes: int = MAX_BYTES) -> bytes:
    """Return the file, with as many entities as fit into `most_bytes`."""
    encoder = msgspec.msgpack.Encoder()
    facts = (saved.now_ms, saved.wall_ms, saved.window, saved.mutation_window)
    before = b"\x95" + b"".join(map(encoder.encode, facts))
    left = most_bytes - len(_HEAD) - _CRC_BYTES - len(before) - 5
    written: list[bytes] = []
    for entry in _in_order(saved.entries):
        try:
            data = encoder.encode(entry)
        except UnicodeEncodeError:
            continue  # one name that is no text must not keep all others out
        left -= len(data)
        if left < 0:
            break
        written.append(data)
    body = b"".join([before, b"\xdd", len(written).to_bytes(4, "big"), *written])
    return b"".join([_HEAD, crc32(body).to_bytes(_CRC_BYTES, "big"), body])


def decode(data: bytes) -> Saved:
    """Return what `encode` was given. Raises UsageFileError."""
    if len(data) > MAX_BYTES:
        raise UsageFileError(f"it has {len(data)} bytes, more than {MAX_BYTES}")
    line, newline, rest = data[: len(_HEAD) + 8].partition(b"\n")
    version = line.removeprefix(_NAME)
    if not newline or not line.startswith(_NAME) or not version.isdigit():
        raise UsageFileError("it is damaged: no version")
    if int(version) != VERSION:
        raise UsageFileError(f"its version is {int(version)}, not {VERSION}")
    body = data[len(_HEAD) + _CRC_BYTES :]
    if crc32(body).to_bytes(_CRC_BYTES, "big") != rest[:_CRC_BYTES]:
        raise UsageFileError("it is damaged: its checksum is another one")
    try:
        return msgspec.msgpack.decode(body, type=Saved)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UsageFileError(f"it is damaged: {error}") from None


def _in_order(entries: list[SavedUsage]) -> Iterator[SavedUsage]:
    """Return the entities in the order in which they are kept."""
    pieces = (entries[first : first + SORTED_AT_ONCE] for first in range(0, len(entries), SORTED_AT_ONCE))
    return merge(*(sorted(piece, key=_rank) for piece in pieces), key=_rank)


def _rank(entry: SavedUsage) -> tuple[bool, float]:
    return entry.client_id is not None, -entry.worth_s
