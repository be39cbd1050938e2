"""How much memory this process may have: the limit of its control group, or the machine's memory. (KIP-72 has
the JVM's heap for this)

Asked once, where a socket server is made. Reads /proc and /sys/fs/cgroup: a group is limited by the groups
around it too, so the least limit counts. A container that does not see its own path in the mounted hierarchy
finds its limit at the root of it.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

_V2: Final = ("sys/fs/cgroup", "memory.max")
_V1: Final = ("sys/fs/cgroup/memory", "memory.limit_in_bytes")


def memory_limit(root: Path = Path("/")) -> int:
    """Bytes."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min((machine, *_limits(root)))


def _limits(root: Path) -> Iterator[int]:
    """Those of every group that this process is in, by version 2 and 1."""
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
    """None where there is no limit: no file, or the word `max`."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdecimal() and int(text) > 0 else None
