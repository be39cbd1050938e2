"""Accepts connections of one listener and deals them out to its processors. (Kafka: SocketServer.Acceptor)

The port is bound when the acceptor is made, so it is known before anything runs. Its gate says which
connections are served, and may let it wait. No accepted connection is dropped at the hand-off: every
processor is tried in turn, and the last try waits.
"""

import errno
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import trio

from broker.errors import ConfigError
from broker.network.acceptor.connection_gate import ListenerGate
from broker.network.failures import Place
from broker.network.processor import Accepted, Processor
from broker.network.supervisor import Supervisor
from broker.quotas.connection_rates import canonical_address

logger = logging.getLogger(__name__)

LOST: Final = {errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP}
"""The listening socket itself is gone: no listener is served any more, so the broker stops."""

EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
BACK_OFF_SECONDS: Final = 0.1
"""How long accepting rests when the process has no descriptors or the kernel no memory left (as Trio's own
servers do).
"""

ACCEPTS_PER_TURN: Final = 64


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """`socket.send.buffer.bytes`, `socket.receive.buffer.bytes` (-1 leaves the system's choice),
    `socket.listen.backlog.size`.
    """

    send_buffer: int
    receive_buffer: int
    backlog: int


class Acceptor:
    """One listening socket. `address` is what was bound, the real port included."""

    def __init__(self, name: str, host: str, port: int, options: SocketOptions, gate: ListenerGate) -> None:
        self.name = name
        self.gate = gate
        self._options = options
        self._socket = _bind(name, host, port, options)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        logger.info(f"Awaiting socket connections on {_shown(*self.address)}.", extra={"listener": name})
        self._next = 0
        self._rests = False
        self._processors: Sequence[Processor] = ()

    async def run(self, processors: Sequence[Processor]) -> None:
        """Accepts until cancelled; then the port is closed, and every connection that no processor has."""
        self._processors = processors
        listening = self._socket
        name = f"{trio.lowlevel.current_task().name}-parked"
        try:
            async with trio.open_nursery() as nursery:
                Supervisor(nursery).start_soon(self.gate.run, self._serve, name=name)
                await self._accept(listening)
        finally:
            logger.debug(
                "Closing server socket, selector, and any throttled sockets.", extra={"listener": self.name}
            )
            listening.close()

    async def _accept(self, listening: socket.socket) -> None:
        while listening.fileno() >= 0:  # a turn may come after `close`
            await trio.lowlevel.wait_readable(listening)
            for _ in range(ACCEPTS_PER_TURN):
                try:
                    sock, (host, port, *_rest) = listening.accept()
                except BlockingIOError:
                    self._rests = False
                    break
                except OSError as error:
                    if error.errno in LOST and listening.fileno() >= 0:
                        raise
                    if error.errno in EXHAUSTED:
                        self._tell_of_rest(error)
                        await trio.sleep(BACK_OFF_SECONDS)
                    break
                await self._take((sock, (canonical_address(host) if ":" in host else host, port)))

    async def _take(self, accepted: Accepted) -> None:
        """Serves a new connection if the connection quotas admit it."""
        try:
            is_admitted = await self.gate.admits(accepted)
        except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
            self._report(error, accepted)
            accepted[0].close()
            return
        if is_admitted:
            await self._serve(accepted)

    def close(self) -> None:
        """The port is free from here on; for whoever does not run it, or has cancelled that."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    def _tell_of_rest(self, error: OSError) -> None:
        """Once, until nobody waits to be accepted any more."""
        if not self._rests:
            logger.warning("cannot accept", extra={"listener": self.name, "reason": str(error)})
        self._rests = True

    async def _serve(self, accepted: Accepted) -> None:
        """Hands over a connection that was admitted, or releases it."""
        try:
            if self._configure(accepted[0]):
                await self._hand_over(accepted, self._processors)
                return
        except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
            self._report(error, accepted)
        address, port = accepted[1]
        self.gate.failures.attempt(Place.ACCEPT, f"{address}:{port}", self.gate.release, accepted)

    def _report(self, error: Exception, accepted: Accepted) -> None:
        address, port = accepted[1]
        self.gate.failures.report(Place.ACCEPT, error, listener=self.name, connection=f"{address}:{port}")

    def _configure(self, sock: socket.socket) -> bool:
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._options.send_buffer != -1:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._options.send_buffer)
        except OSError as error:
            logger.warning(
                "cannot configure a connection", extra={"listener": self.name, "reason": str(error)}
            )
            return False
        return True

    async def _hand_over(self, accepted: Accepted, processors: Sequence[Processor]) -> None:
        for _ in range(len(processors)):
            processor = processors[self._next % len(processors)]
            self._next += 1
            try:
                processor.new_connections.send_nowait(accepted)
            except trio.WouldBlock:
                continue
            self._handed_over(accepted, processor)
            return
        while True:
            processor = processors[self._next % len(processors)]
            self._next += 1
            processor.selector.wakeup()
            try:
                with self.gate.blocked:
                    await processor.new_connections.send(accepted)
            except trio.BrokenResourceError:
                continue  # it retired meanwhile; another has taken its place in the list
            except trio.Cancelled:
                self.gate.release(accepted)
                raise
            break
        self._handed_over(accepted, processor)

    def _handed_over(self, accepted: Accepted, processor: Processor) -> None:
        processor.selector.wakeup()
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                f"Accepted connection from {_shown(*accepted[1])} on {_shown(*self.address)} and assigned it "
                f"to processor {processor.id}",
                extra={"listener": self.name},
            )


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bind(name: str, host: str, port: int, options: SocketOptions, *, listens: bool = True) -> socket.socket:
    """A listening, non-blocking socket. An empty host is every address. Raises ConfigError naming the
    listener.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options.receive_buffer != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer)
        sock.bind((host, port))
        if listens:
            sock.listen(options.backlog)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise ConfigError(
            "listeners", f"{name}://{host}:{port}", f"an address that can be bound ({error.strerror})"
        ) from error
    return sock


def check_bindable(name: str, host: str, port: int, options: SocketOptions) -> None:
    """Raises ConfigError naming the listener where its port cannot be had now."""
    _bind(name, host, port, options, listens=False).close()
