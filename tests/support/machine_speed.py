"""How slow this machine is at present, for bounds of processor time and of waits.

Processor time grows when other processes share the caches and the execution units, by two at times, and a
slower machine takes more of it. A bound is stated for one machine and scaled by what the same work takes now.
"""

import os
import statistics
import time
from typing import Final

REFERENCE_MS: Final = 5.0
"""What `_work` took on the machine on which the bounds were set, while little else ran."""

ROUNDS: Final = 15

WITHIN_S: Final = 30.0
"""For what takes a fraction of a second: long enough for a machine on which ten times as much runs as it has
cores for. What has not happened by then does not happen.
"""

PASS_S: Final = 0.010
"""Processor time that one record may take at once. They take 1 to 3 ms here; with another build of
the interpreter they took up to 5.5 ms.
"""


def slowness() -> float:
    """How many times longer the same work takes now; at least 1."""
    return max(1.0, statistics.median(_work_ms() for _ in range(ROUNDS)) / REFERENCE_MS)


def crowding() -> float:
    """How many times longer a wait may take by the clock where more want to run than there are cores: twice
    the processes for each core, as they do not take turns. At least 1.
    """
    return max(1.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))


def _work_ms() -> float:
    began = time.thread_time_ns()
    made = {}
    for number in range(20_000):
        made[number] = (number, str(number))
    sum(len(text) for _, text in made.values())
    return (time.thread_time_ns() - began) / 1_000_000
