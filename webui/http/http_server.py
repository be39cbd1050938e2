"""The console's connections: accepted, limited, and served by hypercorn, isolated from the broker.

Run by webui.serving. An exception in a connection ends only this one, a peer that does not read is
disconnected, and the number of connections is limited (http.connection_limits).

This is the only file that imports more of hypercorn than its types. hypercorn's public functions,
`hypercorn.trio.serve` and the command line, bind and accept by themselves. They do not suffice: an exception
in one connection would cancel the broker's nursery, a peer that does not read would block its shielded
`send_all` and so the shutdown for ever, and the number of connections is unlimited. hypercorn has no public
way to serve one accepted stream, so this module takes the classes behind `serve`:

    TCPServer      serves one stream; `HypercornConnection` ends it with its peer and frees its state
    H11Protocol    HTTP/1.1; `Http1` refuses what hypercorn would upgrade
    Updated        says when a connection becomes idle or busy
    WorkerContext  what all connections share; `terminated` ends keep-alive at the shutdown
    wrap_app       calls the application as ASGI

tests/webui/http/test_hypercorn.py fails when one of their signatures or attributes changes, or when `serve`
gets a parameter for accepted streams.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Event, Updated
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework
from hypercorn.utils import wrap_app

from webui.http.connection_client import ConnectionClients
from webui.http.connection_limits import ConnectionLimits, CountedConnection
from webui.http.encryption import Encryption, free_tls_state
from webui.http.request import CONNECTION, ENTRY, WEBSOCKET, RefusalLog
from webui.security.backoff import network_of
from webui.security.gate import LONGEST_HEAD

log = logging.getLogger(__name__)

CLIENT: Final = "webui.client"
"""State key of the address and port of a connection's client."""

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


def hypercorn_config() -> Config:
    """Return the configuration: 5 s and 16 KiB for the headers, 5 s of idle time, no logging by hypercorn, no
    Server header.
    """
    config = Config()
    config.accesslog = None
    config.errorlog = log
    config.keep_alive_timeout = 5.0
    config.h11_max_incomplete_size = LONGEST_HEAD
    config.include_server_header = False
    return config


class Http1(H11Protocol):
    """HTTP/1.1 only. hypercorn's own class upgrades to HTTP/2 on request, which bypasses the checks of a
    proxy in front of the console.
    """

    async def _check_protocol(self, event: h11.Request) -> None:
        pass

    async def _create_stream(self, request: h11.Request) -> None:
        """Create a stream, and mark a WebSocket upgrade as an HTTP request, which http.request refuses.
        hypercorn's WebSockets wait for no turn, and some of its own refusals never close the connection.
        """
        fields = list(request.headers)
        kept = [
            (name, value) for name, value in fields if name != b"upgrade" or value.lower() != b"websocket"
        ]
        self.connection_state[WEBSOCKET] = len(kept) < len(fields)
        if len(kept) < len(fields):
            request = h11.Request(
                method=request.method, target=request.target, headers=kept, http_version=request.http_version
            )
        await super()._create_stream(request)


class HypercornConnection(TCPServer):
    """A connection that ends when its peer closes it; hypercorn's own would wait for the keep-alive time and
    still be counted. Its state is freed at the end, since hypercorn's objects refer to each other and the
    garbage collector skips old objects (broker.server.interpreter).
    """

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            made = vars(self).get("protocol")
            if made is not None:
                vars(made.protocol).clear()
                vars(made).clear()
            vars(self).clear()

    async def _read_data(self) -> None:
        made = self.protocol
        made.protocol = Http1(
            made.app,
            made.config,
            made.context,
            made.task_group,
            made.state,
            made.ssl,
            made.state[CLIENT],
            made.server,
            made.send,
        )
        await super()._read_data()
        await self.idle_task.stop()

    async def _idle_timeout(self) -> None:
        """Close the connection at the end of its idle time, but read first what waits for its turn: on a busy
        machine the requests of many connections take longer than that, and a request cancels this task.
        """
        with trio.move_on_after(self.config.keep_alive_timeout):
            await self.context.terminated.wait()
        await self.stream.handled()
        with trio.CancelScope(shield=True):
            await self._initiate_server_close()

    async def protocol_send(self, event: Event) -> None:
        if isinstance(event, Updated):
            self.state[ENTRY].set_idle(event.idle)
        await super().protocol_send(event)


class Connections:
    """State that all connections of `app` share."""

    def __init__(self, app: ASGIFramework) -> None:
        self._config = hypercorn_config()
        self._app = wrap_app(app, self._config.wsgi_max_body_size, "asgi")
        self._context = WorkerContext(None)

    async def serve(self, stream: TimeoutStream, state: dict[str, object]) -> None:
        """Serve a stream until its end. `state` is that of every request of the connection (ASGI)."""
        await HypercornConnection(self._app, self._config, self._context, state, stream)  # type: ignore[arg-type]

    async def end_keep_alive(self) -> None:
        """Close idle connections, and each other one after its present request."""
        await self._context.terminated.set()


async def serve_connections(
    app: ASGIFramework,
    listeners: Sequence[trio.SocketListener],
    stopping: Callable[[], Awaitable[None]],
    limits: ConnectionLimits,
    clients: ConnectionClients,
    encryption: Encryption | None = None,
) -> None:
    """Serve `listeners` until `stopping` returns. Then close them, wait GRACE_S for requests in progress, and
    close the remaining connections. With `encryption` the console serves TLS only. `clients` says who the
    client of each connection is.
    """
    connections = Connections(app)
    scheduler = ReadScheduler()
    refused = RefusalLog(log, "console connection limit reached")

    async def connection(stream: trio.SocketStream) -> None:
        entry = None
        try:
            client = await clients.of(stream.socket)
            if client is None:
                return
            address = network_of(client.address)
            with trio.CancelScope() as scope:
                entry = limits.enter(address, scope.cancel, is_proxys=client.is_proxys)
                if entry is None:
                    refused.note(address)
                else:
                    await serve(stream, entry, (client.address, client.port))
        except OSError:
            pass  # the peer closed the connection before getpeername
        except Exception:
            log.exception("console connection failed, closing it")
        finally:
            if entry is not None:
                entry.leave()
            await trio.aclose_forcefully(stream)

    async def serve(stream: trio.SocketStream, entry: CountedConnection, client: tuple[str, int]) -> None:
        state: dict[str, object] = {ENTRY: entry, CLIENT: client}
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
