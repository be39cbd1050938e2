"""TLS over a non-blocking socket, with a socket's methods, and the receiving half of such a connection.
(Kafka: SslTransportLayer, Selector.keysWithBufferedRead)

`network.handshakes` creates one per connection of a TLS listener, `gateway.upstream.connect` one per
connection to a TLS broker. Encrypts into memory and not into the
socket, so that one system call sends many records. Independent of the content of frames and of channels.

Writing follows OpenSSL's rule: encrypted bytes must be sent, so a `send` that the kernel takes only in part
reports no byte of that run as sent, and the retry must begin with the same bytes. `network.connection.send`
does this anyway, so write interest is correct: ciphertext waits only while a response is not fully sent.

One read from the kernel can bring many records, and one record many frames, which epoll does not report:
`has_buffered` does.
"""

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from broker.network.connection.receive import EndOfStream, Frame, Receive
from broker.network.connection.transport import Readable, Transport, Writable
from broker.security.tls import server_name

RUN: Final = 64 * 1024
"""Plaintext bytes encrypted at a time: four records, and the maximum that a blocked connection holds."""

CIPHERTEXT_BYTES: Final = 64 * 1024
"""Bytes read from the kernel at a time, into a buffer that all connections of a processor share."""

UNASKED_BYTES: Final = 64 * 1024
"""Bytes that may wait for a peer outside responses: refused renegotiations, key updates, alerts."""

NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST")


class TlsError(OSError):
    """Authentication failed, or the peer violated the protocol later: the connection must close. (Kafka:
    SslAuthenticationException)
    """


class TlsSocket:
    """`has_buffered`: bytes of the peer have left the kernel that `recv_into` has not returned, so epoll does
    not report them. `is_within_record`: a part of a record has left it, and the rest has not arrived; or it
    was one without data. `is_blocked`: ciphertext waits for the kernel to take it. `meter` is called with the
    number of ciphertext bytes received, until it returns False. A client's side (`server_side=False`) names
    the server that it wants, and checks the certificate as its context says.
    """

    __slots__ = (
        "_incoming",
        "_meter",
        "_outgoing",
        "_owed",
        "_scratch",
        "_sock",
        "_tls",
        "_unsent",
        "has_buffered",
        "is_within_record",
    )

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        scratch: memoryview,
        meter: Callable[[int], bool] | None = None,
        *,
        server_side: bool = True,
        server_hostname: str | None = None,
    ) -> None:
        self._sock = sock
        self._scratch = scratch
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )
        self._unsent = memoryview(b"")
        self._owed = 0
        self.has_buffered = self.is_within_record = False
        self._meter = meter

    @property
    def is_blocked(self) -> bool:
        return bool(self._unsent)

    def handshake(self) -> bool:
        """Continue as far as the received bytes allow. Returns whether the handshake is done; `is_blocked`
        then says whether bytes for the peer still wait. Raises TlsError, EndOfStream, OSError.
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
                    self.flush()  # sends the alert
                raise TlsError(f"the TLS handshake failed: {_reason(error)}") from error
            else:
                self.flush()
                self.has_buffered = self._incoming.pending > 0
                return True

    def recv_into(self, buffer: Writable, /) -> int:
        """Read as much plaintext as is available and fits. Returns 0 after close_notify. Raises EndOfStream
        if the peer closes without it, TlsError, BlockingIOError, OSError.
        """
        tls, incoming = self._tls, self._incoming
        filled, size = 0, len(buffer)
        with memoryview(buffer) as view:
            while True:
                try:
                    n: int = tls.read(size - filled, view[filled:])  # type: ignore[assignment]
                except ssl.SSLWantReadError:
                    if filled:
                        self.is_within_record = True
                        break
                    self.is_within_record |= self.has_buffered
                    self._send_unsolicited()
                    self.has_buffered = False
                    self._fill()
                    self.is_within_record = True
                    continue
                except ssl.SSLZeroReturnError:
                    n = 0
                except ssl.SSLError as error:
                    with contextlib.suppress(OSError):
                        self.flush()
                    raise TlsError(f"TLS failed: {_reason(error)}") from error
                filled += n
                self.is_within_record = False
                if not n:
                    self.has_buffered = filled > 0  # return the data first, then the end of the stream
                    return filled
                if filled == size or not (incoming.pending or tls.pending()):
                    break
        self.has_buffered = bool(incoming.pending or tls.pending())
        return filled

    def recv(self, size: int, flags: int, /) -> bytes:
        """Return bytes in the kernel, still encrypted; only to look at (MSG_PEEK)."""
        return self._sock.recv(size, flags | socket.MSG_PEEK)

    def send(self, data: Readable, /) -> int:
        """Send plaintext. Returns the number of bytes whose ciphertext the kernel has. The others may be
        encrypted already and must come first in the next call. Raises BlockingIOError, TlsError, OSError.
        """
        return self.sendmsg((data,))

    def sendmsg(self, buffers: Iterable[Readable], _ancillary: object = (), _flags: int = 0, /) -> int:
        """Send several buffers as `send` does; adjacent buffers share records."""
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
                raise TlsError(f"TLS failed: {_reason(error)}") from error
            if not self.flush():
                self._owed = size
                if not sent:
                    raise BlockingIOError
                break
            sent += size
        return sent

    def flush(self) -> bool:
        """Send waiting ciphertext. Returns whether none is left. Raises OSError if the peer is gone."""
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
        """Return -1: the kernel must not send plaintext."""
        return -1

    def close(self) -> None:
        """Send close_notify if the socket takes it, and close. Frees the TLS objects, which are large, since
        a closed channel stays referenced for a while.
        """
        with contextlib.suppress(OSError, ValueError):
            try:
                self._tls.unwrap()
            except ssl.SSLWantReadError:
                self.flush()
        self._sock.close()
        self._unsent = memoryview(b"")
        self.has_buffered = False  # the read that has closed it reads no more
        self._meter = None
        del self._tls, self._incoming, self._outgoing

    @property
    def server_name(self) -> str | None:
        """The host name that the client asked for in its handshake (SNI), or None."""
        return server_name(self._tls)

    def cipher(self) -> tuple[str, str]:
        """Return the negotiated cipher suite and TLS version."""
        name = self._tls.cipher()
        return (name[0] if name else "unknown", self._tls.version() or "unknown")

    def peer_certificate(self) -> bytes | None:
        """Return the verified certificate of the peer as DER, or None."""
        return self._tls.getpeercert(binary_form=True)

    def _fill(self) -> None:
        """Read more ciphertext. Raises EndOfStream if the peer closes without close_notify."""
        count = self._sock.recv_into(self._scratch)
        if not count:
            raise EndOfStream("closed by the peer, without close_notify")
        if self._meter is not None and not self._meter(count):
            self._meter = None
        self._incoming.write(self._scratch[:count])

    def _send_unsolicited(self) -> None:
        """Send TLS messages that are not responses, now or with the next response. Fails if the peer triggers
        them and does not read.
        """
        outgoing = self._outgoing
        if outgoing.pending and not self.flush() and outgoing.pending > UNASKED_BYTES:
            raise TlsError("the peer triggers TLS messages and does not read them")


def _runs(buffers: Iterable[Readable]) -> Iterator[Readable]:
    """Yield the same bytes in runs of RUN bytes; the last may be shorter."""
    parts: list[Readable] = []
    size = 0
    for buffer in buffers:
        if size + len(buffer) <= RUN:
            parts.append(buffer)
            size += len(buffer)
            continue
        view = memoryview(buffer)
        while size + len(view) > RUN:
            parts.append(view[: RUN - size])
            yield parts[0] if len(parts) == 1 else b"".join(parts)
            view = view[RUN - size :]
            parts, size = [], 0
        parts.append(view)
        size = len(view)
    if size:
        yield parts[0] if len(parts) == 1 else b"".join(parts)


def _reason(error: ssl.SSLError) -> str:
    if error.reason in NOT_TLS:
        return "this is not TLS"
    return (error.reason or str(error)).lower().replace("_", " ")


class TlsReceive:
    """A `Receive` whose socket is `tls`."""

    __slots__ = ("_receive", "_tls")

    def __init__(self, receive: Receive, tls: TlsSocket) -> None:
        self._receive = receive
        self._tls = tls

    @property
    def limit(self) -> int:
        return self._receive.limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._receive.limit = limit

    @property
    def has_buffered(self) -> bool:
        return self._receive.has_buffered or self._tls.has_buffered

    @property
    def waits_for_memory(self) -> bool:
        return self._receive.waits_for_memory

    @property
    def has_memory(self) -> bool:
        return self._receive.has_memory

    def read(self, sock: Transport) -> Frame | None:
        """Read as `Receive.read` does, until there is a frame or no decrypted or buffered bytes remain."""
        receive, tls = self._receive, self._tls
        frame = receive.read(sock)
        while frame is None and tls.has_buffered and not receive.waits_for_memory:
            frame = receive.read(sock)
        return frame

    def next_buffered(self) -> Frame | None:
        frame = self._receive.next_buffered()
        return self.read(self._tls) if frame is None and self._tls.has_buffered else frame

    def close(self) -> None:
        self._receive.close()
