"""The console's connections: accepts, limits and serves them, isolated from the broker.

Run by webui.serving. An exception in a connection ends only this one, a peer that does not read is
disconnected, and the number of connections is limited (http.connection_limits). http.hypercorn_connection
serves each of them.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import trio
from hypercorn.typing import ASGIFramework

from webui.http.connection_limits import ConnectionLimits, CountedConnection
from webui.http.encryption import Encryption, free_tls_state
from webui.http.hypercorn_connection import Connections
from webui.http.request import CONNECTION, ENTRY, RefusalLog
from webui.security.backoff import network_of

log = logging.getLogger(__name__)

STALLED_AFTER_S: Final = 10.0
GRACE_S: Final = 3.0


class ReadScheduler:
    """Lets one connection continue in each turn of the event loop, so that data received on many connections
    at once does not add up to one long turn.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = trio.Lock()

    async def turn(self) -> None:
        # To take a free lock and to wait for one both end in the next turn of the event loop.
        async with self._lock:
            pass


class TimeoutStream:
    """A stream whose `send_all` fails if the peer reads nothing for STALLED_AFTER_S, and whose `receive_some`
    waits for a turn of the scheduler.
    """

    def __init__(self, stream: trio.abc.Stream, scheduler: ReadScheduler) -> None:
        self._stream = stream
        self._scheduler = scheduler
        self._handled: trio.Event | None = None

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive bytes. Cancelled while it waits for its turn, it loses the received bytes."""
        if self._handled is not None:
            self._handled.set()
            self._handled = None
        received = await self._stream.receive_some(max_bytes)
        self._handled = trio.Event()
        await self._scheduler.turn()
        return received

    async def handled(self) -> None:
        """Wait until what has arrived is handled: until the reader calls `receive_some` again."""
        await trio.lowlevel.checkpoint()  # a reader that is due together with the caller takes its bytes
        if self._handled is not None:
            await self._handled.wait()

    async def send_all(self, data: bytes) -> None:
        with trio.move_on_after(STALLED_AFTER_S) as limit:
            try:
                await self._stream.send_all(data)
            except trio.BusyResourceError as error:
                # hypercorn sends one message at a time, so the other task is closing the connection.
                raise trio.BrokenResourceError("the connection is closing") from error
        if limit.cancelled_caught:
            await trio.aclose_forcefully(self._stream)
            raise trio.BrokenResourceError(f"the peer read nothing for {STALLED_AFTER_S:g} s")


class PlainStream(TimeoutStream):
    """A `TimeoutStream` over TCP without TLS. Implements `webui.live.sse_client.StreamConnection`."""

    def __init__(self, stream: trio.SocketStream, scheduler: ReadScheduler) -> None:
        super().__init__(stream, scheduler)
        self.socket = stream.socket
        self.send_eof = stream.send_eof
        self.aclose = stream.aclose

    def send_nowait(self, data: bytes) -> int:
        # A closed socket's number is -1, never the number of another socket.
        return os.write(self.socket.fileno(), data)


class EncryptedStream(TimeoutStream):
    """A `TimeoutStream` over TLS after its handshake, with the attributes that hypercorn requires."""

    def __init__(self, stream: trio.SSLStream[trio.SocketStream], scheduler: ReadScheduler) -> None:
        super().__init__(stream, scheduler)
        self.do_handshake = stream.do_handshake
        self.transport_stream = stream.transport_stream

    def selected_alpn_protocol(self) -> None:
        """Return None: ALPN is not used, the protocol is HTTP/1.1."""

    async def aclose(self) -> None:
        """Close the TLS stream, with a time limit for the close notification."""
        with trio.move_on_after(STALLED_AFTER_S):
            await self._stream.aclose()


async def serve_connections(
    app: ASGIFramework,
    listeners: Sequence[trio.SocketListener],
    stopping: Callable[[], Awaitable[None]],
    limits: ConnectionLimits,
    encryption: Encryption | None = None,
) -> None:
    """Serve `listeners` until `stopping` returns. Then close them, wait GRACE_S for requests in progress, and
    close the remaining connections. With `encryption` the console serves TLS only.
    """
    connections = Connections(app)
    scheduler = ReadScheduler()
    refused = RefusalLog(log, "console connection limit reached")

    async def connection(stream: trio.SocketStream) -> None:
        entry = None
        try:
            address = network_of(stream.socket.getpeername()[0])
            with trio.CancelScope() as scope:
                entry = limits.enter(address, scope.cancel)
                if entry is None:
                    refused.note(address)
                else:
                    await serve(stream, entry)
        except OSError:
            pass  # the peer closed the connection before getpeername
        except Exception:
            log.exception("console connection failed, closing it")
        finally:
            if entry is not None:
                entry.leave()
            await trio.aclose_forcefully(stream)

    async def serve(stream: trio.SocketStream, entry: CountedConnection) -> None:
        state: dict[str, object] = {ENTRY: entry}
        if encryption is None:
            plain = PlainStream(stream, scheduler)
            state[CONNECTION] = plain
            await connections.serve(plain, state)
        elif (begun := await encryption.begin(stream, entry.address)) is not None:
            encrypted = EncryptedStream(begun, scheduler)
            # Without CONNECTION, since bytes written past the framework would not be encrypted.
            try:
                await connections.serve(encrypted, state)
            finally:
                free_tls_state(begun)

    async with trio.open_nursery() as open_connections:
        async with trio.open_nursery() as accepting:
            accept = partial(trio.serve_listeners, handler_nursery=open_connections)
            accepting.start_soon(accept, connection, listeners)
            await stopping()
            accepting.cancel_scope.cancel()
        await connections.end_keep_alive()
        open_connections.cancel_scope.deadline = trio.current_time() + GRACE_S
