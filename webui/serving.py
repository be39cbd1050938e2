"""The console as one task of the broker.

Started by broker.app in the front nursery. Binding is immediate, so that a taken port stops the start; the
web framework, which is half a second and 20 MB of imports, is loaded in a thread afterwards, while Kafka
clients are already served and browsers wait in the backlog. Import this module and nothing below it to keep
the start quick.
"""

import logging
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, TypeVar

import trio

from broker.errors import ConfigError
from webui.backend import Backend, ConsoleSettings

log = logging.getLogger(__name__)

Loaded = TypeVar("Loaded")

LISTENER: Final = "console.listener"

LOADED_AGAIN_AFTER_S: Final = 1.0


async def serve_console(
    backend: Backend,
    settings: ConsoleSettings,
    *,
    shutdown: trio.Event,
    tls: Callable[[], ssl.SSLContext] | None = None,
    task_status: trio.TaskStatus[tuple[str, int]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serves `settings.listener` until `shutdown` is set and what is in hand has finished (3 s at most), or
    until cancelled. `tls` is what the next connection is to be encrypted with; without it there is none.

    Started with the address that is really bound, once it is. Raises ConfigError where it cannot be.
    """
    listener = settings.listener
    if listener is None:
        raise ValueError("console.listener is empty: there is nothing to serve")
    try:
        sockets = await trio.open_tcp_listeners(listener.port, host=listener.host or None, backlog=100)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(LISTENER, str(listener), f"an address that can be bound ({reason})") from error
    async with AsyncExitStack() as until_served:
        for socket in sockets:
            await until_served.enter_async_context(socket)
        host, port = sockets[0].socket.getsockname()[:2]
        task_status.started((host, port))
        await _with_descriptors(_load)

        from webui.console import make_console
        from webui.http.app import build_app
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
            encryption = None if tls is None else Encryption(tls, console.lines)
            limits = ConnectionLimits(settings.max_connections, settings.max_connections_per_ip)
            await serve_connections(app, sockets, stopping, limits, encryption)
            nursery.cancel_scope.cancel()


async def _with_descriptors(load: Callable[[], Loaded]) -> Loaded:
    """What `load` gives, in a thread, tried again while it cannot read its files. Without descriptors to read
    them with there are none for browsers either, but Kafka clients are served all the time.
    """
    while True:
        try:
            return await trio.to_thread.run_sync(load)
        except OSError as error:
            log.warning("The console cannot be loaded yet", extra={"reason": str(error)})
            await trio.sleep(LOADED_AGAIN_AFTER_S)


def _load() -> None:
    import webui.console
    import webui.http.app
    import webui.http.encryption
    import webui.http.http_server  # noqa: F401
