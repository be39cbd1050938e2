"""Work on the disk that takes too long for the event loop: flushing, removing, writing checkpoints.

Handed out by the store. The composition root calls `run` in a thread and then `finish` on the event loop's
thread, for every chore that it was given:

    for chore in store.due_flushes(now_wall_ms):
        await trio.to_thread.run_sync(chore.run)
        chore.finish()
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from broker.log import disk
from broker.log.disk import OpenFile

if TYPE_CHECKING:
    from broker.log.segmented import SegmentedLog


class BackgroundJob(Protocol):
    """`error` says after `finish` why it did not succeed."""

    error: OSError | None

    def run(self) -> None:
        """Blocks; any thread may call it. Never raises OSError: it is kept for `finish`."""

    def finish(self) -> None:
        """Draws the conclusions; does not block."""


class Flush:
    """Puts everything of a partition below `end_offset` on the disk.

    One that fails is never tried again: the kernel may have dropped what it could not write, and would then
    report success. The partition goes offline, and the next start reads what the disk really has.
    """

    def __init__(
        self,
        partition: "SegmentedLog",
        files: Sequence[OpenFile],
        end_offset: int,
        now_ms: int,
        not_begun: OSError | None = None,
    ) -> None:
        """`files` stay open as long as this exists; `now_ms`: records that come later are not part of it.
        `not_begun`: the files could not even be opened, which says nothing about the disk.
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
        """A later flush of the same partition puts there what this one would have, and is carried out in its
        place.
        """
        self._files = ()
        self._left_to = newer

    def in_effect(self) -> "Flush":
        """The flush that does this one's work: itself, if it was not left to another."""
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
            # The partition has moved meanwhile; what holds of the old files says nothing of the new ones.
            return
        if self.error is None:
            self.partition.flushed(self.end_offset, self.now_ms, names_too=self._names_too)
        elif self._not_begun is None and not self.partition.deleted:
            self.partition.go_offline(self.error)


class Removal:
    """Removes files or directories that nobody looks up any more."""

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
        """What could not be removed is removed by the next start."""


class Checkpoint:
    """Replaces small files by new content, whole."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.contents = contents
        self.error: OSError | None = None

    def run(self) -> None:
        try:
            for path, content in self.contents.items():
                disk.replace_file(path, content, flushed=True)
        except OSError as error:
            self.error = error

    def finish(self) -> None:
        """The old content stays where the new could not be written: the next start checks more than it
        must.
        """
