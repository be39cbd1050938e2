"""How soon the broker's thread gets the interpreter back from another thread.

Used by `app` around the whole run. Helper threads write metadata and read pushed telemetry in Python. After
every look at the network the broker's thread waits for the interpreter, by default for up to 5 ms each time;
while thousands of rows are written, a client then waits for 25 to 180 ms. Threads that do not compete pay
nothing.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SWITCH_INTERVAL_SECONDS: Final = 0.0005
"""Python's default is 0.005. A switch takes some ten microseconds, so threads that compete lose 2 %."""


@contextmanager
def prompt_switches() -> Iterator[None]:
    """Let a waiting thread take the interpreter after `SWITCH_INTERVAL_SECONDS`, until the block is left."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
