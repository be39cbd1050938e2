"""Counts the system calls that the broker's own modules make in a block of a test.

Trio's wait for the next event is not among them, and compiled modules hide theirs.
"""

import fcntl
import select
import socket
import struct
import sys
import termios
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio.testing

import broker.network.clock
from broker.server.compiled import COMPILED

needs_interpreted = pytest.mark.skipif(
    COMPILED, reason="a profile function does not see what compiled code calls"
)

READING = trio.testing.MockClock.current_time.__code__
CLOCK = vars(broker.network.clock)
POSIX: Any = sys.modules["posix"]
NO_CALLS = frozenset({"fspath"})


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts the broker's calls of this thread: system calls by name, and readings of the mock clock."""
    calls: Counter[str] = Counter()

    def note(frame: Any, event: str, called: Any) -> None:
        if event == "call" and frame.f_code is READING and frame.f_back.f_globals is CLOCK:
            calls["clock"] += 1
        if event != "c_call" or not str(frame.f_globals.get("__name__")).startswith("broker."):
            return
        owner, name = called.__self__, called.__name__
        if (owner is POSIX and name not in NO_CALLS) or isinstance(owner, (socket.socket, select.epoll)):
            calls[name] += 1

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def undelivered(descriptor: int) -> int:
    """Return the bytes that the peer's kernel has not acknowledged."""
    (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))
    return int(count)
