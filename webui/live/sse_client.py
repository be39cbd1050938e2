"""One open page's stream: what it wants of each beat, what it has been told, and its connection.

Made by webui.rest.events, told by live.broadcaster. A page whose connection takes bytes at once is told by
the beat itself, with one system call and without waking anybody: fifty pages cost as much as fifty writes.
Only when the connection does not take all of it has the stream's own task something to do.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import trio

from webui.live.snapshot import Snapshot

Section = Callable[[Snapshot], Awaitable[bytes]]

STILL_HERE: Final = b": still here\n\n"
QUIET_S: Final = 15.0
"""After this long without an event a comment goes out, so that proxies and browsers see that we live."""


class Connection(Protocol):
    """A connection in the middle of an answer in chunks."""

    def send_nowait(self, data: bytes) -> int:
        """How many bytes were taken; OSError where it is gone."""

    async def send_all(self, data: bytes) -> None: ...


class Subscriber:
    """`sections` are the topics in the order in which they go out. `signed_in` is asked with every beat.
    `connection` None: the framework carries the bytes, and the stream's task takes every beat itself.
    """

    __slots__ = ("_call", "_rest", "_sections", "_sent", "_told_at", "connection", "signed_in")

    def __init__(
        self,
        sections: Sequence[tuple[str, Section]],
        signed_in: Callable[[], bool],
        connection: Connection | None = None,
    ) -> None:
        self._sections = sections
        self._sent: dict[str, bytes] = {}
        self._told_at = trio.current_time()
        self._rest = b""
        self._call = trio.Event()
        self.signed_in = signed_in
        self.connection = connection

    async def news(self, snapshot: Snapshot) -> bytes:
        """The events that differ from the last of their kind, which are then taken as sent; a sign of life
        after QUIET_S without any; nothing otherwise.
        """
        events = []
        for name, section in self._sections:
            data = await section(snapshot)
            if data != self._sent.get(name):
                self._sent[name] = data
                events.append(b"event: %b\ndata: %b\n\n" % (name.encode(), data))
        now = trio.current_time()
        if not events and now - self._told_at < QUIET_S:
            return b""
        self._told_at = now
        return b"".join(events) or STILL_HERE

    def send(self, news: bytes) -> None:
        """One chunk. What the connection does not take is left to the stream's task."""
        assert self.connection is not None
        chunk = b"%x\r\n%b\r\n" % (len(news), news)
        try:
            taken = self.connection.send_nowait(chunk)
        except BlockingIOError:
            taken = 0
        except OSError:
            # Whoever reads the connection has seen it too, and ends the stream.
            return
        if taken < len(chunk):
            self._rest = chunk[taken:]
            self.call()

    def call(self) -> None:
        """Calls the stream's task."""
        self._call.set()

    async def called(self) -> None:
        """Waits until the stream's task is called."""
        await self._call.wait()
        self._call = trio.Event()

    async def send_rest(self) -> None:
        """Raises BrokenResourceError for a peer that has gone or does not read."""
        if self._rest and self.connection is not None:
            rest, self._rest = self._rest, b""
            await self.connection.send_all(rest)
