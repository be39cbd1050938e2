"""The memory available to this process: the limit of its control group, or the machine's memory. (KIP-72 uses
the JVM's heap)

Read once, when a socket server is created, from /proc and /sys/fs/cgroup. Enclosing groups limit a group too,
so the lowest limit counts. A container whose own path is not in the mounted hierarchy finds its limit at the
root.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

_V2: Final = ("sys/fs/cgroup", "memory.max")
_V1: Final = ("sys/fs/cgroup/memory", "memory.limit_in_bytes")


def memory_limit(root: Path = Path("/")) -> int:
    """Return the limit in bytes."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min((machine, *_limits(root)))


def _limits(root: Path) -> Iterator[int]:
    """Iterate over the limits of every group of this process, in version 2 and 1."""
    try:
        groups = (root / "proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in groups:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            mount, name = _V2
        elif "memory" in controllers.split(","):
            mount, name = _V1
        else:
            continue
        inside = PurePosixPath(path.lstrip("/"))
        for folder in (inside, *inside.parents):
            limit = _read(root / mount / folder / name)
            if limit is not None:
                yield limit


def _read(path: Path) -> int | None:
    """Return a limit, or None if there is none: no file, or the word `max`."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdecimal() and int(text) > 0 else None
