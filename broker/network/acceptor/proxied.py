"""New connections on a listener with `proxy.protocol`: whose they are, before they are served.

A task of its own reads the beginning of each, so neither the accepting loop nor another connection waits for
a header. The limits of an address that may not send one apply at once. A balancer's connection takes a slot
and a turn of its listener and its broker first; the limits of its client's address apply when the header
names it.
"""

from collections.abc import Awaitable, Callable

import trio

from broker.common.proxy_headers import ProxyHeaders
from broker.common.proxy_protocol import HeaderError, HeaderRefusal
from broker.network.acceptor.connection_gate import ListenerGate
from broker.network.processor import Accepted
from broker.network.supervisor import TaskStarter


class ProxiedConnections:
    """Those of one acceptor. `serve` takes admitted connections over; `task` is the name of the tasks."""

    def __init__(
        self,
        gate: ListenerGate,
        headers: ProxyHeaders,
        serve: Callable[[Accepted], Awaitable[None]],
        tasks: TaskStarter,
        task: str,
    ) -> None:
        self._gate = gate
        self._headers = headers
        self._serve = serve
        self._tasks = tasks
        self._task = task

    async def take(self, accepted: Accepted) -> None:
        """Begin to read a new connection if the connection quotas admit it. If cancelled, closes it."""
        try:
            address = accepted.peer[0]
            if self._headers.trusts(address):
                accepted = accepted._replace(proxy=address)
                is_admitted = await self._gate.admits_unnamed(accepted)
            elif self._headers.requires:
                accepted.sock.close()
                self._gate.refuse_header(accepted, HeaderRefusal.UNTRUSTED)
                is_admitted = False
            else:
                is_admitted = await self._gate.admits(accepted)
        except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
            self._gate.report(error, accepted)
            accepted.sock.close()
            return
        if is_admitted:
            self._start(accepted)

    async def serve_throttled(self, accepted: Accepted) -> None:
        """Serve a connection that was throttled and is admitted now. One with a balancer has been read."""
        if accepted.proxy:
            await self._serve(accepted)
        else:
            self._start(accepted)
            await trio.lowlevel.checkpoint()  # many waits may end together

    def _start(self, accepted: Accepted) -> None:
        self._tasks.start_soon(self._identify, accepted, name=self._task)

    async def _identify(self, accepted: Accepted) -> None:
        """Serve an admitted connection once it is known whose it is, or close it. If cancelled, closes it."""
        try:
            sock = trio.socket.from_stdlib_socket(accepted.sock)
            client = await self._headers.read(sock, is_trusted=bool(accepted.proxy))
            await trio.lowlevel.checkpoint_if_cancelled()  # a listener that has ended has no processors
            if client is not None:
                named = accepted._replace(peer=client)
                if not self._gate.names(named):
                    return
                accepted = named
        except HeaderError as error:
            self._gate.attempt_release(accepted)
            if error.reason is not None:
                self._gate.refuse_header(accepted, error.reason)
        except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
            self._gate.report(error, accepted)
            self._gate.attempt_release(accepted)
        except trio.Cancelled:
            self._gate.attempt_release(accepted)
            raise
        else:
            await self._serve(accepted)
