"""Accepts connections of one listener and distributes them to its processors. (Kafka: SocketServer.Acceptor)

The constructor binds the port, so the port is known before any task runs. The gate decides which connections
are served, and may block the acceptor. The hand-off drops no accepted connection: it tries every processor in
turn, then waits for one. On a listener with `proxy.protocol`, a task of its own reads the beginning of each
connection before that.
"""

import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
import trio

from broker.common.errors import UnbindableError
from broker.config.listeners import Address
from broker.network.acceptor.connection_gate import ListenerGate
from broker.network.acceptor.proxied import ProxiedConnections
from broker.network.processor import Accepted, Processor
from broker.network.supervisor import Supervisor
from broker.quotas.connection_rates import canonical_address

logger = logging.getLogger(__name__)

LOST: Final = {errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP}
"""The listening socket itself is unusable: the acceptor cannot continue, so the broker stops."""

EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
BACK_OFF_SECONDS: Final = 0.1
"""Pause of the acceptor when the process has no descriptors or the kernel no memory left (as in Trio's own
servers).
"""

ACCEPTS_PER_TURN: Final = 64

SYSTEM_CHOICE: Final = -1

SAME_MACHINE_SEND_BUFFER: Final = 131_072
"""SO_SNDBUF of a connection within the machine, unless it is configured; ours. There, what is sent is in the
receiver's buffer at once. With the megabytes that the system allows, sendfile overruns it: the kernel drops
and sends again, and a fetch of 1 MB takes 1.7 times as long. Other connections keep the system's choice,
which grows with the distance.
"""


class SocketOptions(msgspec.Struct, frozen=True):
    """`socket.send.buffer.bytes`, `socket.receive.buffer.bytes` (each may be SYSTEM_CHOICE),
    `socket.listen.backlog.size`, `socket.listen.reuse.port`.
    """

    send_buffer: int
    receive_buffer: int
    backlog: int
    reuse_port: bool = False

    def send_buffer_between(self, own: str, peer: str) -> int:
        """Return SO_SNDBUF, or SYSTEM_CHOICE, of a connection between two addresses; `peer` is canonical."""
        if self.send_buffer == SYSTEM_CHOICE and _canonical(own) == peer:
            return SAME_MACHINE_SEND_BUFFER
        return self.send_buffer


class Acceptor:
    """One listening socket. `address` is the bound address with the actual port."""

    def __init__(self, name: str, host: str, port: int, options: SocketOptions, gate: ListenerGate) -> None:
        self.name = name
        self.gate = gate
        self._options = options
        self._socket = _bind(name, host, port, options)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        logger.info(f"Awaiting socket connections on {Address(*self.address)}.", extra={"listener": name})
        self._next = 0
        self._paused = False
        self._processors: Sequence[Processor] = ()

    async def run(self, processors: Sequence[Processor]) -> None:
        """Accept until cancelled. Then close the port, and every connection not yet handed to a processor."""
        self._processors = processors
        listening = self._socket
        task = trio.lowlevel.current_task().name
        throttled = f"{task}-throttled-sockets"
        headers = self.gate.proxy_headers
        try:
            async with trio.open_nursery() as nursery:
                tasks = Supervisor(nursery)
                if headers is None:
                    tasks.start_soon(self.gate.run, self._serve, name=throttled)
                    await self._accept(listening, self._take)
                else:
                    proxied = ProxiedConnections(
                        self.gate, headers, self._serve, tasks, f"{task}-proxy-header"
                    )
                    tasks.start_soon(self.gate.run, proxied.serve_throttled, name=throttled)
                    await self._accept(listening, proxied.take)
        finally:
            logger.debug(
                "Closing server socket, selector, and any throttled sockets.", extra={"listener": self.name}
            )
            listening.close()

    async def _accept(self, listening: socket.socket, take: Callable[[Accepted], Awaitable[None]]) -> None:
        while listening.fileno() >= 0:  # the loop may run once more after `close`
            await trio.lowlevel.wait_readable(listening)
            for _ in range(ACCEPTS_PER_TURN):
                try:
                    sock, (host, port, *_rest) = listening.accept()
                except BlockingIOError:
                    self._paused = False
                    break
                except OSError as error:
                    if error.errno in LOST and listening.fileno() >= 0:
                        raise
                    if error.errno in EXHAUSTED:
                        self._log_pause(error)
                        await trio.sleep(BACK_OFF_SECONDS)
                    break
                await take(Accepted(sock, (_canonical(host), port)))

    async def _take(self, accepted: Accepted) -> None:
        """Serve a new connection if the connection quotas admit it."""
        try:
            is_admitted = await self.gate.admits(accepted)
        except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
            self.gate.report(error, accepted)
            accepted.sock.close()
            return
        if is_admitted:
            await self._serve(accepted)

    def close(self) -> None:
        """Free the port; for callers that do not run the acceptor, or have cancelled it."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    def _log_pause(self, error: OSError) -> None:
        """Log the pause once, until the backlog is empty again."""
        if not self._paused:
            logger.warning("cannot accept", extra={"listener": self.name, "reason": str(error)})
        self._paused = True

    async def _serve(self, accepted: Accepted) -> None:
        """Hand over an admitted connection, or release it."""
        try:
            if self._configure(accepted):
                await self._hand_over(accepted, self._processors)
                return
        except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
            self.gate.report(error, accepted)
        self.gate.attempt_release(accepted)

    def _configure(self, accepted: Accepted) -> bool:
        sock = accepted.sock
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            peer = accepted.proxy or accepted.peer[0]
            send_buffer = self._options.send_buffer_between(sock.getsockname()[0], peer)
            if send_buffer != SYSTEM_CHOICE:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
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
                continue  # the processor retired; another has replaced it in the list
            except trio.Cancelled:
                self.gate.release(accepted)
                raise
            break
        self._handed_over(accepted, processor)

    def _handed_over(self, accepted: Accepted, processor: Processor) -> None:
        processor.selector.wakeup()
        if logger.isEnabledFor(logging.DEBUG):
            through = f" through {accepted.proxy}" if accepted.proxy else ""
            logger.debug(
                f"Accepted connection from {Address(*accepted.peer)}{through} on {Address(*self.address)} "
                f"and assigned it to processor {processor.id}",
                extra={"listener": self.name},
            )


def _canonical(host: str) -> str:
    return canonical_address(host) if ":" in host else host


def _bind(name: str, host: str, port: int, options: SocketOptions, *, listens: bool = True) -> socket.socket:
    """Return a listening, non-blocking socket. An empty host means every address. Raises UnbindableError with
    the listener's name.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options.reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if options.receive_buffer != SYSTEM_CHOICE:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer)
        sock.bind((host, port))
        if listens:
            sock.listen(options.backlog)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        hint = "; stop the other program, or use another port" if error.errno == errno.EADDRINUSE else ""
        where = f"{name}://{Address(host, port)}"
        raise UnbindableError.of("listeners", where, f"{error.strerror}{hint}") from error
    return sock


def check_bindable(name: str, host: str, port: int, options: SocketOptions) -> None:
    """Raise UnbindableError with the listener's name if its port cannot be bound now."""
    _bind(name, host, port, options, listens=False).close()
