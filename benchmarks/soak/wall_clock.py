"""`weir` with a wall clock that the soak moves: `python -m benchmarks.soak.wall_clock FILE serve ...`.

The file holds the difference to the machine's clock in nanoseconds. The monotonic clock stays, as when an
administrator or NTP sets a machine's clock. Only what Python reads is moved: the wall clock of the broker,
of its console and of its log.
"""

import mmap
import sys
import time
from pathlib import Path
from struct import Struct
from typing import Final

DIFFERENCE: Final = Struct("<q")


def set_difference(file: Path, seconds: float) -> None:
    """Move the clock of the processes that have this file."""
    with file.open("r+b") as opened:
        opened.write(DIFFERENCE.pack(round(seconds * 1e9)))


def make(file: Path) -> None:
    file.write_bytes(DIFFERENCE.pack(0))


def main() -> None:
    with Path(sys.argv.pop(1)).open("rb") as opened:
        shared = mmap.mmap(opened.fileno(), DIFFERENCE.size, prot=mmap.PROT_READ)
    real_ns, real_s = time.time_ns, time.time

    def difference_ns() -> int:
        return int(DIFFERENCE.unpack_from(shared)[0])

    time.time_ns = lambda: real_ns() + difference_ns()
    time.time = lambda: real_s() + difference_ns() / 1e9

    from broker.__main__ import main as weir

    weir()


if __name__ == "__main__":
    main()
