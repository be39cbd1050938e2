"""A disk without space: a limit of a process's files, or a small file system of its own."""

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

DISK_BYTES: Final = 4 * 1024 * 1024


@contextmanager
def files_refused(pid: int, most: int = 0) -> Iterator[None]:
    """No file of the process grows beyond `most` bytes: what a quota of the file system does."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@contextmanager
def small_file_system(directory: Path) -> Iterator[Path]:
    """A file system of DISK_BYTES, mounted below the directory. Skips the test where that is not allowed."""
    mounted = directory / "disk"
    mounted.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(mounted)]
    try:
        subprocess.run(options, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only an administrator can make a disk")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """The file system has no byte left in the block."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        for size in (65_536, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    try:
        yield
    finally:
        filler.unlink()
