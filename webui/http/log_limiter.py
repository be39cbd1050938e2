"""A log line that strangers can cause, once a second at most.

Used by http.http_server and http.asgi for what they refuse.
"""

import logging
from typing import Final

import trio

BETWEEN_S: Final = 1.0


class SeldomLog:
    """`words` is the line. `refused` in it says how many were refused since the line before."""

    __slots__ = ("_count", "_log", "_next_at", "_words")

    def __init__(self, log: logging.Logger, words: str) -> None:
        self._count = 0
        self._log = log
        self._next_at = 0.0
        self._words = words

    def note(self, address: str) -> None:
        """One more of `address` was refused."""
        self._count += 1
        now = trio.current_time()
        if now >= self._next_at:
            self._log.info(self._words, extra={"address": address, "refused": self._count})
            self._count = 0
            self._next_at = now + BETWEEN_S
