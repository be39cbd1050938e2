"""A data folder whose disk can be full for a while.

Root mounts a file system of a fixed size in memory and fills it, so that writes fail with ENOSPC in the
middle of anything. Without root, the broker's limit on the size of a file (RLIMIT_FSIZE) is set to nothing,
and writes that would grow a file fail with EFBIG.
"""

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SIZE: Final = 2 << 30
STEP: Final = 1 << 20


class Disk:
    """`how` says which of the two it is."""

    def __init__(self, folder: Path, mounted: bool) -> None:
        self.folder = folder
        self._mounted = mounted
        self.how = f"a file system of {SIZE >> 20} MiB in memory, filled" if mounted else "RLIMIT_FSIZE of 0"

    @contextlib.contextmanager
    def full(self, pid: int) -> Iterator[None]:
        """Let no file of the process grow inside the block. The process may end meanwhile."""
        if self._mounted:
            ballast = self.folder / "ballast"
            try:
                self._fill(ballast)
                yield
            finally:
                ballast.unlink(missing_ok=True)
        else:
            before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
            try:
                yield
            finally:
                with contextlib.suppress(ProcessLookupError):
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

    def _fill(self, ballast: Path) -> None:
        with ballast.open("wb") as opened:
            for step in (STEP, os.sysconf("SC_PAGESIZE")):
                with contextlib.suppress(OSError):
                    while True:
                        end = opened.seek(0, os.SEEK_END)
                        os.posix_fallocate(opened.fileno(), end, step)


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    """Make an empty data folder; the block's end unmounts it."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        yield Disk(folder, mounted=False)
        return
    try:
        yield Disk(folder, mounted=True)
    finally:
        subprocess.run(["umount", str(folder)], check=True)
