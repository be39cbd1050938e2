"""The console as one task of the broker.

Started by broker.server.app in the nursery `acceptors`. Binds at once, so that a port in use stops the start.
Loads the web framework, half a second and 20 MB of imports, in a thread afterwards, while the broker already
serves Kafka clients and browsers wait in the backlog. To keep the start quick, import only this module from
outside.
"""

import errno
import logging
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, TypeVar

import trio

from broker.common.errors import UnbindableError
from broker.config.sections.console import ConsoleConfig
from webui.backend import Backend

log = logging.getLogger(__name__)

Loaded = TypeVar("Loaded")

LISTENER: Final = "console.listener"

RETRY_LOAD_AFTER_S: Final = 1.0


async def serve_console(
    backend: Backend,
    settings: ConsoleConfig,
    *,
    shutdown: trio.Event,
    tls: Callable[[], ssl.SSLContext] | None = None,
    task_status: trio.TaskStatus[tuple[str, int]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `settings.listener` until `shutdown` is set and requests in progress have finished (3 s at most),
    or until cancelled. `tls` returns the context for the next connection; without it there is no TLS.

    Reports the bound address as started. Raises UnbindableError if it cannot be bound.
    """
    listener = settings.listener
    if listener is None:
        raise ValueError("console.listener is empty, expected an address")
    try:
        sockets = await trio.open_tcp_listeners(listener.port, host=listener.host or None, backlog=100)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason += "; stop the other program, or use another port"
        raise UnbindableError.of(LISTENER, str(listener), reason) from error
    async with AsyncExitStack() as until_served:
        for socket in sockets:
            await until_served.enter_async_context(socket)
        host, port = sockets[0].socket.getsockname()[:2]
        task_status.started((host, port))
        await _with_descriptors(_load)

        from webui.http.app import build_app, make_console
        from webui.http.connection_client import ConnectionClients
        from webui.http.connection_limits import ConnectionLimits
        from webui.http.encryption import Encryption
        from webui.http.http_server import serve_connections

        console = make_console(backend, settings, port)
        app = await _with_descriptors(partial(build_app, console))

        async def stopping() -> None:
            await shutdown.wait()
            console.live.end()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(console.live.run)
            nursery.start_soon(console.insights.run)
            encryption = None if tls is None else Encryption(tls, console.fair_queue)
            limits = ConnectionLimits(settings.max_connections, settings.max_connections_per_ip)
            clients = ConnectionClients(settings, backend.refused_headers)
            await serve_connections(app, sockets, stopping, limits, clients, encryption)
            nursery.cancel_scope.cancel()


async def _with_descriptors(load: Callable[[], Loaded]) -> Loaded:
    """Return the result of `load`, run in a thread and retried while it cannot read its files. That means
    there are no free descriptors, so browsers could not connect either; Kafka clients are served meanwhile.
    """
    while True:
        try:
            return await trio.to_thread.run_sync(load)
        except OSError as error:
            log.warning("cannot load the console, trying again", extra={"reason": str(error)})
            await trio.sleep(RETRY_LOAD_AFTER_S)


def _load() -> None:
    from webui.http import app, encryption, http_server  # noqa: F401
