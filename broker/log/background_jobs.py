"""Disk work that takes too long for the event loop: flushing, removing, writing checkpoints.

Created by the store. The composition root calls `run` in a thread and then `finish` on the event loop's
thread, for every job:

    for job in store.due_flushes(now_wall_ms):
        await trio.to_thread.run_sync(job.run)
        job.finish()
"""

import contextlib
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol

from broker.log import disk
from broker.log.checkpoints import OffsetFile, write_offsets
from broker.log.disk import OpenFile


class BackgroundJob(Protocol):
    """After `finish`, `error` is the reason of a failure, or None."""

    error: OSError | None

    def run(self) -> None:
        """Do the work.

        Blocks; any thread may call it. Keeps an OSError for `finish` and does not raise it.
        """

    def finish(self) -> None:
        """Apply the result. Does not block."""


class FlushedLog(Hashable, Protocol):
    """The partition of a Flush."""

    directory: str
    deleted: bool
    has_new_names: bool

    def flushed(self, end_offset: int, now_ms: int, *, names_too: bool) -> None: ...

    def go_offline(self, error: OSError) -> None: ...


class Flush:
    """Flushes everything of a partition below `end_offset`.

    A failed flush is never retried: the kernel may have dropped the pages it could not write, and would then
    report success. The partition goes offline, and the next start recovers what is on disk.
    """

    def __init__(
        self,
        partition: FlushedLog,
        files: Sequence[OpenFile],
        end_offset: int,
        now_ms: int,
        not_begun: OSError | None = None,
    ) -> None:
        """Create the job.

        `files` stay open while this object exists. `now_ms`: later records are not part of the flush.
        `not_begun`: opening the files failed, which does not indicate a disk failure.
        """
        self.partition = partition
        self.end_offset = end_offset
        self.now_ms = now_ms
        self.error = not_begun
        self.finished = False
        self._left_to: Flush | None = None
        self._not_begun = not_begun
        self._files = files
        self._directory = partition.directory
        self._names_too = partition.has_new_names

    def leave_to(self, newer: "Flush") -> None:
        """Delegate to a later flush of the same partition, which covers this one."""
        self._files = ()
        self._left_to = newer

    def in_effect(self) -> "Flush":
        """Return the flush that does this one's work: itself unless delegated."""
        flush = self
        while flush._left_to is not None:
            flush = flush._left_to
        return flush

    def run(self) -> None:
        if self.error is not None:
            return
        try:
            for file in self._files:
                disk.flush(file)
            if self._names_too:
                # The partition may have been deleted meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    disk.flush_directory(self._directory)
                disk.flush_directory(os.path.dirname(self._directory))
        except OSError as error:
            self.error = error

    def finish(self) -> None:
        self.finished = True
        if self._directory != self.partition.directory:
            # The partition has moved meanwhile; the result does not apply to the new files.
            return
        if self.error is None:
            self.partition.flushed(self.end_offset, self.now_ms, names_too=self._names_too)
        elif self._not_begun is None and not self.partition.deleted:
            self.partition.go_offline(self.error)


class Removal:
    """Removes renamed, unused files or directories."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self.error: OSError | None = None

    def run(self) -> None:
        for path in self.paths:
            try:
                disk.remove(path)
            except OSError as error:
                self.error = error

    def finish(self) -> None:
        """Do nothing: the next start removes what could not be removed."""


class Checkpoint:
    """Replaces offset checkpoints atomically, and flushes those that were replaced without a flush.

    `contents` has a function by path, which formats the file in the thread.
    """

    def __init__(
        self, contents: Mapping[str, Callable[[], bytes]], replaced: Sequence[OffsetFile] = ()
    ) -> None:
        self._contents = contents
        self._replaced = replaced
        self.error: OSError | None = None

    def run(self) -> None:
        try:
            for path, content in self._contents.items():
                write_offsets(path, content(), flushed=True)
            for file in self._replaced:
                file.flush()
        except OSError as error:
            self.error = error

    def finish(self) -> None:
        """Do nothing: with the old content, the next start only checks more."""
