"""TLS above a non-blocking socket, with a socket's own methods. (Kafka: SslTransportLayer)

Made for each connection of a listener that speaks TLS, by `network.tls.handshakes`. Encrypts into memory
and not into the socket, so that many records leave in one system call. Knows ciphertext and plaintext, and
neither frames nor channels.

Writing follows OpenSSL's own rule: what was encrypted must leave, so a `send` that the kernel takes only a
part of reports nothing of that run as sent, and whoever tries again must begin with the same bytes. That is
what `network.connection.send` does anyway, and it makes write interest right: there is ciphertext waiting
only where a response is not yet sent.
"""

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from broker.network.connection.receive import EndOfStream
from broker.network.connection.transport import Readable, Writable

RUN: Final = 64 * 1024
"""Plaintext that is encrypted at a time: four records, and what a connection that is blocked holds of it."""

CIPHERTEXT_BYTES: Final = 64 * 1024
"""How much is taken from the kernel at a time, into a buffer that all connections of a processor share."""

UNASKED_BYTES: Final = 64 * 1024
"""What may wait for a peer that has asked for no response: refused renegotiations, key updates, alerts."""

NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST")


class TlsError(OSError):
    """The peer could not be authenticated, or broke the protocol after it was: the connection is over.
    (Kafka: SslAuthenticationException)
    """


class TlsSocket:
    """`has_buffered`: bytes of the peer have left the kernel that `recv_into` has not given yet, so that the
    kernel alone does not tell what is ready. `is_blocked`: ciphertext waits for the kernel to take it.
    `meter` is told how many bytes of ciphertext were received, until it answers that it need not be any more.
    """

    __slots__ = (
        *("_incoming", "_outgoing", "_owed", "_scratch", "_sock", "_tls", "_unsent", "has_buffered"),
        "meter",
    )

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, scratch: memoryview) -> None:
        self._sock = sock
        self._scratch = scratch
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._unsent = memoryview(b"")
        self._owed = 0
        self.has_buffered = False
        self.meter: Callable[[int], bool] | None = None

    @property
    def is_blocked(self) -> bool:
        return bool(self._unsent)

    def handshake(self) -> bool:
        """Goes on as far as what has arrived allows; whether the handshake is done. Then `is_blocked` says
        whether the peer can know. Raises TlsError, EndOfStream, OSError.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                if not self.flush():
                    return False
                try:
                    self._fill()
                except BlockingIOError:
                    return False
            except ssl.SSLError as error:
                with contextlib.suppress(OSError):
                    self.flush()  # the alert that tells the peer why
                raise TlsError(f"the TLS handshake failed: {_words(error)}") from error
            else:
                self.flush()
                self.has_buffered = self._incoming.pending > 0
                return True

    def recv_into(self, buffer: Writable, /) -> int:
        """Plaintext, as much as there is and fits. 0 after close_notify; raises EndOfStream where the peer
        has closed without it, TlsError, BlockingIOError, OSError.
        """
        tls, incoming = self._tls, self._incoming
        filled, size = 0, len(buffer)
        with memoryview(buffer) as view:
            while True:
                try:
                    n: int = tls.read(size - filled, view[filled:])  # type: ignore[assignment]
                except ssl.SSLWantReadError:
                    if filled:
                        break
                    self._say_unasked()
                    self.has_buffered = False
                    self._fill()
                    continue
                except ssl.SSLZeroReturnError:
                    n = 0
                except ssl.SSLError as error:
                    with contextlib.suppress(OSError):
                        self.flush()
                    raise TlsError(f"TLS failed: {_words(error)}") from error
                filled += n
                if not n:
                    self.has_buffered = filled > 0  # the end comes after what is before it
                    return filled
                if filled == size or not (incoming.pending or tls.pending()):
                    break
        self.has_buffered = bool(incoming.pending or tls.pending())
        return filled

    def recv(self, size: int, flags: int, /) -> bytes:
        """What the kernel holds, still encrypted; only to be looked at (MSG_PEEK)."""
        return self._sock.recv(size, flags | socket.MSG_PEEK)

    def send(self, data: Readable, /) -> int:
        """Plaintext bytes whose ciphertext is with the kernel. What is not reported was perhaps encrypted and
        must come first in the next call. Raises BlockingIOError, TlsError, OSError.
        """
        return self.sendmsg((data,))

    def sendmsg(self, buffers: Iterable[Readable], _ancillary: object = (), _flags: int = 0, /) -> int:
        """Like `send`, for all of them in turn; neighbours share records."""
        if self._unsent and not self.flush():
            raise BlockingIOError
        sent = 0
        for run in _runs(buffers):
            size = len(run)
            if self._owed:
                known = min(self._owed, size)
                self._owed -= known
                sent += known
                if known == size:
                    continue
                run = memoryview(run)[known:]
                size -= known
            try:
                self._tls.write(run)
            except ssl.SSLError as error:
                raise TlsError(f"TLS failed: {_words(error)}") from error
            if not self.flush():
                self._owed = size
                if not sent:
                    raise BlockingIOError
                break
            sent += size
        return sent

    def flush(self) -> bool:
        """Gives the kernel ciphertext that waits; whether none is left. OSError when the peer is gone."""
        outgoing = self._outgoing
        while True:
            unsent = self._unsent
            if not unsent:
                if not outgoing.pending:
                    return True
                unsent = memoryview(outgoing.read())
            try:
                sent = self._sock.send(unsent)
            except BlockingIOError:
                sent = 0
            self._unsent = unsent[sent:]
            if self._unsent:
                return False

    def fileno(self) -> int:
        """-1: the kernel must not write what is to be encrypted."""
        return -1

    def close(self) -> None:
        """Says close_notify if the peer's window allows, and closes. What TLS holds for a connection is a lot
        for a channel that is referred to for a while yet, so it is dropped here.
        """
        with contextlib.suppress(OSError, ValueError):
            try:
                self._tls.unwrap()
            except ssl.SSLWantReadError:
                self.flush()
        self._sock.close()
        self._unsent = memoryview(b"")
        self.meter = None
        del self._tls, self._incoming, self._outgoing

    def cipher(self) -> tuple[str, str]:
        """The suite and the version that were agreed on."""
        name = self._tls.cipher()
        return (name[0] if name else "unknown", self._tls.version() or "unknown")

    def peer_certificate(self) -> bytes | None:
        """The certificate that the peer has shown and that was found good, as DER."""
        return self._tls.getpeercert(binary_form=True)

    def _fill(self) -> None:
        """More ciphertext. EndOfStream where the peer has closed without close_notify."""
        count = self._sock.recv_into(self._scratch)
        if not count:
            raise EndOfStream("closed by the peer, without close_notify")
        if self.meter is not None and not self.meter(count):
            self.meter = None
        self._incoming.write(self._scratch[:count])

    def _say_unasked(self) -> None:
        """Answers of TLS itself leave when they can, or with the next response. A peer that makes TLS talk
        and does not listen is refused.
        """
        outgoing = self._outgoing
        if outgoing.pending and not self.flush() and outgoing.pending > UNASKED_BYTES:
            raise TlsError("the peer makes TLS answer, and takes no answer")


def _runs(buffers: Iterable[Readable]) -> Iterator[Readable]:
    """The same bytes in runs of RUN at most, all but the last of that size."""
    held: list[Readable] = []
    size = 0
    for buffer in buffers:
        if size + len(buffer) <= RUN:
            held.append(buffer)
            size += len(buffer)
            continue
        view = memoryview(buffer)
        while size + len(view) > RUN:
            held.append(view[: RUN - size])
            yield held[0] if len(held) == 1 else b"".join(held)
            view = view[RUN - size :]
            held, size = [], 0
        held.append(view)
        size = len(view)
    if size:
        yield held[0] if len(held) == 1 else b"".join(held)


def _words(error: ssl.SSLError) -> str:
    if error.reason in NOT_TLS:
        return "this is not TLS"
    return (error.reason or str(error)).lower().replace("_", " ")
