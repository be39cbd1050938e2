"""Log lines about refused requests and connections, at most one a second.

Used by http.http_server and http.asgi.
"""

import logging
from typing import Final

import trio

BETWEEN_S: Final = 1.0


class SeldomLog:
    """Logs `words` with the number of refusals since the last line as `refused`."""

    __slots__ = ("_count", "_log", "_next_at", "_words")

    def __init__(self, log: logging.Logger, words: str) -> None:
        self._count = 0
        self._log = log
        self._next_at = 0.0
        self._words = words

    def note(self, address: str) -> None:
        """Count a refusal of `address`."""
        self._count += 1
        now = trio.current_time()
        if now >= self._next_at:
            self._log.info(self._words, extra={"address": address, "refused": self._count})
            self._count = 0
            self._next_at = now + BETWEEN_S
