"""One HTTP/1.1 connection, served by hypercorn: the only file that imports more of hypercorn than its types.

Used by webui.http.http_server. hypercorn's public functions, `hypercorn.trio.serve` and the command line,
bind and accept by themselves. They do not suffice: an exception in one connection would cancel the broker's
nursery, a peer that does not read would block its shielded `send_all` and so the shutdown for ever, and the
number of connections is unlimited. hypercorn has no public way to serve one accepted stream, so this module
takes the classes behind `serve`:

    TCPServer      serves one stream; `HypercornConnection` ends it with its peer and frees its state
    H11Protocol    HTTP/1.1; `Http1` refuses what hypercorn would upgrade
    Updated        says when a connection becomes idle or busy
    WorkerContext  what all connections share; `terminated` ends keep-alive at the shutdown
    wrap_app       calls the application as ASGI

tests/webui/http/test_hypercorn_connection.py fails when one of their signatures or attributes changes, or
when `serve` gets a parameter for accepted streams.
"""

import logging
from typing import Protocol

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Event, Updated
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework
from hypercorn.utils import wrap_app

from webui.http.request import ENTRY, WEBSOCKET
from webui.security.gate import LONGEST_HEAD

log = logging.getLogger(__name__)


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


class Stream(Protocol):
    """What `TCPServer` requires of a stream; TLS adds `do_handshake`, `selected_alpn_protocol` and
    `transport_stream`, TCP `socket` and `send_eof`.
    """

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray: ...

    async def send_all(self, data: bytes) -> None: ...

    async def aclose(self) -> None: ...

    async def handled(self) -> None:
        """Return when what had arrived before the call is handled."""


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
            made.client,
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

    async def serve(self, stream: Stream, state: dict[str, object]) -> None:
        """Serve a stream until its end. `state` is that of every request of the connection (ASGI)."""
        await HypercornConnection(self._app, self._config, self._context, state, stream)  # type: ignore[arg-type]

    async def end_keep_alive(self) -> None:
        """Close idle connections, and each other one after its present request."""
        await self._context.terminated.set()
