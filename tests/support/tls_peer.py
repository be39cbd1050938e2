"""The two sides of a TLS connection over a socket pair, without a broker: ours, and a client's whose
ciphertext a test can hold back, cut and drop.
"""

import contextlib
import socket
import ssl
from collections.abc import Iterator

from broker.config.sections import TlsConfig, UpstreamConfig
from broker.gateway.upstream.security import client_context
from broker.network.connection.tls_socket import CIPHERTEXT_BYTES, TlsSocket
from broker.security.tls import server_context
from tests.support.certificates import Identity, certificates

SCRATCH = memoryview(bytearray(CIPHERTEXT_BYTES))


class Peer:
    """The client's side, whose ciphertext a test can hold back, cut and drop."""

    def __init__(self, context: ssl.SSLContext, sock: socket.socket) -> None:
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def pull(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while more := self.sock.recv(65_536):
                self.incoming.write(more)

    def push(self, piece: int = 1 << 30) -> None:
        """Sends what is encrypted, so many bytes at a time."""
        data = self.outgoing.read()
        for at in range(0, len(data), piece):
            self.sock.sendall(data[at : at + piece])

    def step(self) -> bool:
        """A turn of the handshake; whether it is done on this side."""
        self.pull()
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self.push()
        return True

    def read(self) -> bytes:
        """All that has come."""
        self.pull()
        read = b""
        with contextlib.suppress(ssl.SSLWantReadError):
            while more := self.tls.read(65_536):
                read += more
        return read


def config(**more: object) -> TlsConfig:
    known = certificates()
    return TlsConfig(
        keystore_location=str(known.server.store),
        truststore_location=str(known.authority.certificate),
        **more,  # type: ignore[arg-type]
    )


@contextlib.contextmanager
def pair(
    settings: TlsConfig | None = None, shown: Identity | None = None
) -> Iterator[tuple[TlsSocket, Peer]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    tls = TlsSocket(ours, server_context(settings or config()), SCRATCH)
    with theirs:
        try:
            yield tls, Peer(certificates().client_context(shown), theirs)
        finally:
            tls._sock.close()


@contextlib.contextmanager
def facing(host: str = "localhost", **client: object) -> Iterator[tuple[TlsSocket, TlsSocket]]:
    """Our two sides over one socket pair, the client's first, before the handshake."""
    theirs, ours = socket.socketpair()
    with theirs, ours:
        theirs.setblocking(False)
        ours.setblocking(False)
        upstream = UpstreamConfig(
            ssl_truststore_location=str(certificates().authority.certificate),
            **client,  # type: ignore[arg-type]
        )
        yield (
            TlsSocket(theirs, client_context(upstream), SCRATCH, server_side=False, server_hostname=host),
            TlsSocket(ours, server_context(config()), SCRATCH),
        )


def shake(tls: TlsSocket, peer: Peer) -> None:
    for _ in range(10):
        theirs, ours = peer.step(), tls.handshake()
        if theirs and ours:
            peer.pull()
            return
    raise AssertionError("no handshake")


@contextlib.contextmanager
def connected(settings: TlsConfig | None = None) -> Iterator[tuple[TlsSocket, Peer]]:
    with pair(settings) as (tls, peer):
        shake(tls, peer)
        yield tls, peer


def fill_kernel(tls: TlsSocket) -> int:
    """Fills the kernel's buffer below TLS; how many bytes that took."""
    sock, filled = tls._sock, 0
    for size in (65_536, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                filled += sock.send(b"x" * size)
    return filled
