"""A TCP relay that misbehaves on demand: it stalls, refuses, or closes in the middle of a frame.

Used by tests/endtoend/gateway between a gateway and an upstream broker. Threads, so that a test without an
event loop can use it; bytes are passed on as they come.
"""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

CHUNK: Final = 65_536


class Relay:
    """Listens at `port` of `host` and connects each client to `target`, a port of 127.0.0.1."""

    def __init__(self, port: int, target: int, host: str = "127.0.0.1") -> None:
        self.host = host
        self.port = port
        self.target = target
        self.accepted = 0
        self._passing = threading.Event()
        self._passing.set()
        self._cut_at: dict[str, int] = {}
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._server: socket.socket | None = None

    def __enter__(self) -> Self:
        self.listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._passing.set()
        self.refuse()

    def listen(self) -> None:
        """Accept connections, again after `refuse`."""
        self._server = socket.create_server((self.host, self.port))
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def refuse(self) -> None:
        """Close every connection and the listening socket."""
        if self._server is not None:
            with suppress(OSError):
                self._server.shutdown(socket.SHUT_RDWR)
            self._server.close()
            self._server = None
        self.close_connections()

    def close_connections(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            _close(pair)

    def stall(self) -> None:
        """Accept connections and bytes, and pass nothing on in either direction."""
        self._passing.clear()

    def go_on(self) -> None:
        """Pass on what was held up, and what comes."""
        self._passing.set()

    def cut(self, direction: str, after: int) -> None:
        """Close one connection after so many more bytes of all connections in this direction: `requests` or
        `responses`. The bytes before are passed on.
        """
        with self._lock:
            self._cut_at[direction] = after

    @property
    def is_cut(self) -> bool:
        """Whether every cut that was asked for has been made."""
        return not self._cut_at

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            upstream = socket.create_connection(("127.0.0.1", self.target), timeout=10)
        except OSError:
            client.close()
            return
        upstream.settimeout(None)
        pair = client, upstream
        for each in pair:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._pairs.add(pair)
        for source, sink, direction in ((client, upstream, "requests"), (upstream, client, "responses")):
            arguments = pair, source, sink, direction
            threading.Thread(target=self._pump, args=arguments, daemon=True).start()

    def _pump(
        self,
        pair: tuple[socket.socket, socket.socket],
        source: socket.socket,
        sink: socket.socket,
        direction: str,
    ) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                self._passing.wait()
                keep = self._before_cut(direction, len(data))
                sink.sendall(data[:keep])
                if keep < len(data):
                    break
        with self._lock:
            self._pairs.discard(pair)
        _close(pair)

    def _before_cut(self, direction: str, count: int) -> int:
        with self._lock:
            left = self._cut_at.get(direction)
            if left is None:
                return count
            if left >= count:
                self._cut_at[direction] = left - count
                return count
            del self._cut_at[direction]
            return left


def _close(pair: tuple[socket.socket, socket.socket]) -> None:
    for each in pair:
        # Wakes the thread that reads it.
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
