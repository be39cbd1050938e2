"""The volumes of the log directories. Asking them is slow where a disk is: for a worker thread."""

import os
from collections.abc import Sequence

from broker.controller.rows.broker import DiskRow


def disk_rows(directories: Sequence[str]) -> list[DiskRow]:
    """Return the rows of the directories whose volume can be asked, the fullest first."""
    rows = []
    for directory in directories:
        try:
            volume = os.statvfs(directory)
        except OSError:
            continue
        used = volume.f_blocks - volume.f_bfree
        if used + volume.f_bavail > 0:
            size = volume.f_frsize
            share = used / (used + volume.f_bavail)
            rows.append(DiskRow(directory, volume.f_blocks * size, volume.f_bavail * size, share))
    return sorted(rows, key=lambda row: -row.used)
