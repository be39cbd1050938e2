"""Connections of Kafka clients from an address of choice, in threads, as cheap as they can be: an ApiVersions
or a login each.
"""

import socket
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Self

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
ANSWERED_S: Final = 20.0
RETRY_S: Final = 0.05


class Refused(Exception):
    """The connection was closed, or its login failed."""


class RawClient:
    """One connection from `source`. With a `user`, it logs in by PLAIN. Raises Refused."""

    def __init__(self, address: str, source: str, user: str | None = None, password: str = "") -> None:
        host, _, port = address.rpartition(":")
        try:
            self._sock = socket.create_connection((host, int(port)), ANSWERED_S, (source, 0))
        except OSError as error:
            raise Refused from error
        try:
            if user is None:
                self._ask(API_VERSIONS, 0, b"")
            else:
                self._ask(SASL_HANDSHAKE, 1, struct.pack(">h", 5) + b"PLAIN")
                token = f"\0{user}\0{password}".encode()
                self._ask(SASL_AUTHENTICATE, 1, struct.pack(">i", len(token)) + token)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._sock.close()

    def is_open(self) -> bool:
        """Whether the peer has not closed it."""
        self._sock.setblocking(False)
        try:
            return self._sock.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _ask(self, key: int, version: int, body: bytes) -> None:
        request = struct.pack(">hhih", key, version, 1, -1) + body
        try:
            self._sock.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", self._exactly(4))
            answer = self._exactly(size)
        except OSError as error:
            raise Refused from error
        if struct.unpack(">h", answer[4:6]) != (0,):
            raise Refused

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            more = self._sock.recv(count - len(found))
            if not more:
                raise ConnectionResetError
            found += more
        return found


def open_many(address: str, count: int, source: str, *login: str) -> list[RawClient]:
    """Try so many times, and return the connections that are served."""
    found = []
    for _ in range(count):
        with suppress(Refused):
            found.append(RawClient(address, source, *login))
    return found


class Connecting:
    """Threads that connect to each of `addresses` for ever, so many to each as `threads` says, and close what
    is served at once. `served` counts by address.
    """

    def __init__(self, addresses: Sequence[str], threads: Sequence[int], source: str, *login: str) -> None:
        self.served = dict.fromkeys(addresses, 0)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._connect, args=(address, source, login))
            for address, count in zip(addresses, threads, strict=True)
            for _ in range(count)
        ]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        for each in self._threads:
            each.join()

    def rate(self, seconds: float) -> float:
        """Return the connections per second that are served from now on at all addresses."""
        before, begun = sum(self.served.values()), time.monotonic()
        time.sleep(seconds)
        return (sum(self.served.values()) - before) / (time.monotonic() - begun)

    def _connect(self, address: str, source: str, login: tuple[str, ...]) -> None:
        while not self._ended.is_set():
            try:
                RawClient(address, source, *login).close()
            except Refused:
                self._ended.wait(RETRY_S)
            else:
                with self._lock:
                    self.served[address] += 1
