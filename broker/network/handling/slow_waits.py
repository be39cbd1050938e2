"""Measures how long handlers wait within slow requests, such as for a metadata commit.

A handler that waits serves no other request, as a thread of Kafka's, but leaves the thread to others.
"""


class SlowWaits:
    """`ended_ns` is the total of the waits that are over, of all handlers of a pool."""

    __slots__ = ("_began_ns", "_waiting", "ended_ns")

    def __init__(self) -> None:
        self.ended_ns = 0
        self._waiting = 0
        self._began_ns = 0

    def begin(self, now_ns: int) -> None:
        """A handler begins to wait."""
        self._waiting += 1
        self._began_ns += now_ns

    def end(self, began_ns: int, now_ns: int) -> None:
        """Note that a handler that began to wait at `began_ns` continues."""
        self._waiting -= 1
        self._began_ns -= began_ns
        self.ended_ns += now_ns - began_ns

    def total_ns(self, now_ns: int) -> int:
        """Return the total, with the waits in progress."""
        return self.ended_ns + self._waiting * now_ns - self._began_ns
