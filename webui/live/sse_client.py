"""The stream of one open page: its topics, the events already sent, and its connection.

Created by webui.rest.events, updated by live.broadcaster. The broadcaster writes to connections that take
bytes at once, with one system call and without waking a task, so fifty pages cost fifty writes. The
stream's own task acts only if a connection does not take all bytes.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import trio

from webui.live.snapshot import Snapshot

Section = Callable[[Snapshot], Awaitable[bytes]]

STILL_HERE: Final = b": still here\n\n"
QUIET_S: Final = 15.0
"""After this time without an event a comment is sent, as a keep-alive for proxies and browsers."""


class StreamConnection(Protocol):
    """A connection with a chunked response in progress."""

    def send_nowait(self, data: bytes) -> int:
        """Write without blocking and return the number of bytes taken. Raises OSError if it is closed."""

    async def send_all(self, data: bytes) -> None: ...


class StreamSubscriber:
    """The subscription of one stream. `sections` are its topics in order. `is_logged_in` is called for every
    snapshot. Without a `connection` the framework sends the bytes, and the stream's task handles each.
    """

    __slots__ = ("_rest", "_sections", "_sent", "_sent_at", "_wake", "connection", "is_logged_in")

    def __init__(
        self,
        sections: Sequence[tuple[str, Section]],
        is_logged_in: Callable[[], bool],
        connection: StreamConnection | None = None,
    ) -> None:
        self._sections = sections
        self._sent: dict[str, bytes] = {}
        self._sent_at = trio.current_time()
        self._rest = b""
        self._wake = trio.Event()
        self.is_logged_in = is_logged_in
        self.connection = connection

    async def new_events(self, snapshot: Snapshot) -> bytes:
        """Return the events that differ from the last ones of their topic, and note them as sent. Without
        any, return a keep-alive after QUIET_S, else nothing.
        """
        events = []
        for name, section in self._sections:
            data = await section(snapshot)
            if data != self._sent.get(name):
                self._sent[name] = data
                events.append(b"event: %b\ndata: %b\n\n" % (name.encode(), data))
        now = trio.current_time()
        if not events and now - self._sent_at < QUIET_S:
            return b""
        self._sent_at = now
        return b"".join(events) or STILL_HERE

    def send(self, news: bytes) -> None:
        """Send one chunk. The stream's task sends the rest that the connection does not take."""
        assert self.connection is not None
        chunk = b"%x\r\n%b\r\n" % (len(news), news)
        try:
            taken = self.connection.send_nowait(chunk)
        except BlockingIOError:
            taken = 0
        except OSError:
            # The connection's reader detects this too, and ends the stream.
            return
        if taken < len(chunk):
            self._rest = chunk[taken:]
            self.wake()

    def wake(self) -> None:
        """Wake the stream's task."""
        self._wake.set()

    async def woken(self) -> None:
        """Wait until the stream's task is woken."""
        await self._wake.wait()
        self._wake = trio.Event()

    async def send_rest(self) -> None:
        """Send the rest. Raises BrokenResourceError if the peer has closed or does not read."""
        if self._rest and self.connection is not None:
            rest, self._rest = self._rest, b""
            await self.connection.send_all(rest)
