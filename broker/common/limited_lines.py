"""Decides which refused requests are logged.

A hostile client can be refused as often as it likes, so the lines about each client and about all together
are limited; the next line has the number of those left out. Time is an argument. Used by the authorizer, the
transaction service and the selector.
"""

from typing import Final

WINDOW_MS: Final = 60_000
LINES_OF_CLIENT: Final = 10
LINES: Final = 100
"""Lines in a window about one principal on one host, and about all together; ours. Kafka has no limit."""

LONGEST_SHOWN: Final = 256
"""Characters of a name in a line; ours. No topic's name is longer."""


class LimitedLines:
    """The lines about one kind of refusal; a client has `of_client` of them."""

    def __init__(self, of_client: int = LINES_OF_CLIENT) -> None:
        self._of_client = of_client
        self._by_client: dict[tuple[str, str], int] = {}
        self._left = 0
        self._left_out = 0
        self._until_ms: int | None = None

    def line(self, principal: str, host: str, now_ms: int) -> int | None:
        """Return how many lines were left out before this one, or None if this one is left out too."""
        if self._until_ms is None or now_ms >= self._until_ms:
            self._until_ms = now_ms + WINDOW_MS
            self._by_client.clear()
            self._left = LINES
        client = (principal, host)
        lines = self._by_client.get(client, 0)
        if lines >= self._of_client or self._left <= 0:
            self._left_out += 1
            return None
        self._by_client[client] = lines + 1
        self._left -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out


def shown(name: str) -> str:
    """Return a name as a line has it."""
    return name if len(name) <= LONGEST_SHOWN else f"{name[: LONGEST_SHOWN - 3]}..."
