"""The console's connections: accepted, bounded, served by hypercorn, and never able to hurt the broker.

Run by webui.serving. hypercorn's own server would do but for a few things: an exception in one connection
would cancel the broker's nursery, a peer that does not read would hold its shielded `send_all` and with it
the shutdown for ever, and the number of connections is not limited.
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

from webui.http.connection_limits import ConnectionLimits, Entry
from webui.http.encryption import Encryption, take_apart
from webui.http.log_limiter import SeldomLog
from webui.http.web_request import CONNECTION, ENTRY, WEBSOCKET
from webui.security.backoff import network_of
from webui.security.gate import LONGEST_HEAD

log = logging.getLogger(__name__)

STALLED_AFTER_S: Final = 10.0
GRACE_S: Final = 3.0


def hypercorn_config() -> Config:
    """Headers must be whole after 5 s and 16 KiB, and connections idle no longer; hypercorn configures no
    logging of its own and names no software.
    """
    config = Config()
    config.accesslog = None
    config.errorlog = log
    config.keep_alive_timeout = 5.0
    config.h11_max_incomplete_size = LONGEST_HEAD
    config.include_server_header = False
    return config


class Turnstile:
    """Lets one connection after the other go on, one in each turn of the event loop: what arrives on many
    connections at once does not add up to one long turn, which everybody else would wait for.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = trio.Lock()

    async def passed(self) -> None:
        # Both to take a free lock and to be given one that was held end in the next turn of the loop.
        async with self._lock:
            pass


class TimeoutStream:
    """A stream whose `send_all` gives up on a peer that takes nothing for STALLED_AFTER_S, and whose
    `receive_some` returns when its turn has come.
    """

    def __init__(self, stream: trio.abc.Stream, turnstile: Turnstile) -> None:
        self._stream = stream
        self._turnstile = turnstile

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """What is received is lost if this is cancelled while it waits for its turn."""
        received = await self._stream.receive_some(max_bytes)
        await self._turnstile.passed()
        return received

    async def send_all(self, data: bytes) -> None:
        with trio.move_on_after(STALLED_AFTER_S) as limit:
            try:
                await self._stream.send_all(data)
            except trio.BusyResourceError as error:
                # hypercorn sends one thing at a time; what else is at work here says goodbye.
                raise trio.BrokenResourceError("the connection is being closed") from error
        if limit.cancelled_caught:
            await trio.aclose_forcefully(self._stream)
            raise trio.BrokenResourceError("the peer does not read")


class PatientStream(TimeoutStream):
    """A socket's. A `webui.live.sse_client.Connection`."""

    def __init__(self, stream: trio.SocketStream, turnstile: Turnstile) -> None:
        super().__init__(stream, turnstile)
        self.socket = stream.socket
        self.send_eof = stream.send_eof
        self.aclose = stream.aclose

    def send_nowait(self, data: bytes) -> int:
        # Closed, a socket's number is -1: never that of another one.
        return os.write(self.socket.fileno(), data)


class EncryptedStream(TimeoutStream):
    """The same over TLS, its handshake done: what hypercorn takes for such a stream."""

    def __init__(self, stream: trio.SSLStream[trio.SocketStream], turnstile: Turnstile) -> None:
        super().__init__(stream, turnstile)
        self.do_handshake = stream.do_handshake
        self.transport_stream = stream.transport_stream

    def selected_alpn_protocol(self) -> None:
        """Nothing is negotiated: it is HTTP/1.1."""

    async def aclose(self) -> None:
        """Says goodbye, as long as somebody listens."""
        with trio.move_on_after(STALLED_AFTER_S):
            await self._stream.aclose()


class Http1(H11Protocol):
    """HTTP/1.1 and nothing else: hypercorn's own goes over to HTTP/2 where a request asks for it, past
    whatever a proxy before us looks at.
    """

    async def _check_protocol(self, event: h11.Request) -> None:
        pass

    async def _create_stream(self, request: h11.Request) -> None:
        """A request to become a WebSocket stays one of HTTP, marked for http.asgi, which refuses it:
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


class Connection(TCPServer):
    """Ends when its peer has gone; hypercorn's own would sit out the keep-alive time and be counted. It is
    freed when it has ended: hypercorn's parts refer to each other, and the collector does not walk what is
    old (broker.garbage).
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
            made.client,
            made.server,
            made.send,
        )
        await super()._read_data()
        await self.idle_task.stop()

    async def protocol_send(self, event: Event) -> None:
        if isinstance(event, Updated):
            self.state[ENTRY].set_idle(event.idle)
        await super().protocol_send(event)


async def serve_connections(
    app: ASGIFramework,
    listeners: Sequence[trio.SocketListener],
    stopping: Callable[[], Awaitable[None]],
    limits: ConnectionLimits,
    encryption: Encryption | None = None,
) -> None:
    """Serves `listeners` until `stopping` returns; then closes them, lets what is in hand finish for GRACE_S,
    and closes the rest. With `encryption` nothing is answered that is not encrypted.
    """
    config = hypercorn_config()
    wrapped = wrap_app(app, config.wsgi_max_body_size, "asgi")
    context = WorkerContext(None)
    turnstile = Turnstile()
    refused = SeldomLog(log, "The console has no room for a connection")

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
            pass  # the peer had gone before it was asked for its address
        except Exception:
            log.exception("A connection of the console broke; it is closed")
        finally:
            if entry is not None:
                entry.leave()
            await trio.aclose_forcefully(stream)

    async def serve(stream: trio.SocketStream, entry: Entry) -> None:
        state: dict[str, object] = {ENTRY: entry}
        if encryption is None:
            patient = PatientStream(stream, turnstile)
            state[CONNECTION] = patient
            await Connection(wrapped, config, context, state, patient)  # type: ignore[arg-type]
        elif (begun := await encryption.begin(stream, entry.address)) is not None:
            encrypted = EncryptedStream(begun, turnstile)
            # Without CONNECTION: what is written past the framework is not encrypted.
            try:
                await Connection(wrapped, config, context, state, encrypted)  # type: ignore[arg-type]
            finally:
                take_apart(begun)

    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            accept = partial(trio.serve_listeners, handler_nursery=connections)
            accepting.start_soon(accept, connection, listeners)
            await stopping()
            accepting.cancel_scope.cancel()
        await context.terminated.set()
        connections.cancel_scope.deadline = trio.current_time() + GRACE_S
