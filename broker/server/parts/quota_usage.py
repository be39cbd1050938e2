"""The task that saves usage and debts, so that a restart clears none (quota.usage.persistence.enable).

The loop collects the usage in slices; a thread encodes and writes it. A write replaces the file and does not
flush it: the page cache outlives a killed process, and a flush every second would cost the disk of the
records more than debts are worth. After a power loss the file is as old as the kernel left it, some tens of
seconds at most, or fails its checksum. The save of a stop is flushed.
"""

import logging
from pathlib import Path
from typing import Final

import trio

from broker.common.clock import Clock
from broker.common.steps import finished, freed
from broker.log import disk
from broker.network.metadata_writer import run_in_slices
from broker.quotas.saved_usage import Saved, UsageOfClients
from broker.quotas.usage_format import MAX_BYTES, UsageFileError, decode, encode

logger = logging.getLogger(__name__)

TASK: Final = "quota-usage"
FILE: Final = "weir-quota-usage"

SAVE_SECONDS: Final = 0.75
"""Pause between two saves. With the time of a save, a kill forgives less than a second."""


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
        saved = await run_in_slices(self._usage.collect(self._clock.ms(), self._clock.wall_ms()))
        if saved is not None:
            await trio.to_thread.run_sync(self._write, saved)
            await run_in_slices(freed(saved.entries))

    def close(self) -> None:
        """Save at the end, when no request is left, and flush. Does nothing before `resume`."""
        if self._path is not None and self._is_resumed:
            now_ms, wall_ms = self._clock.ms(), self._clock.wall_ms()
            saved = finished(self._usage.collect(now_ms, wall_ms, always=True))
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
