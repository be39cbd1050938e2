"""TLS handshakes of the console's connections.

Used by http.http_server if `console.ssl.*` is set. A handshake has a time limit. Beyond `MAX_AT_ONCE`, the
oldest handshake of the address with the most is cancelled, so stalled handshakes of one address block no
other. Like a request, a handshake waits for a turn in the queue of its address, since a signature takes a
millisecond of the broker's thread. A client that sends HTTP without TLS receives an error response.
"""

import socket
import ssl
from collections.abc import Callable
from typing import Final

import trio

from webui.fair_queue import FairQueue

HANDSHAKE_S: Final = 5.0
MAX_AT_ONCE: Final = 64
GOODBYE_S: Final = 1.0

_HANDSHAKE: Final = b"\x16"
_MESSAGE: Final = b"This console requires TLS; use an address that begins with https://\n"
_REFUSAL: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_MESSAGE), _MESSAGE)
)


class Encryption:
    """TLS for new connections. `context` is called for each, so a new certificate applies to the next one;
    `fair_queue` limit each address to its share of the broker's thread.
    """

    __slots__ = ("_context", "_fair_queue", "_handshakes")

    def __init__(self, context: Callable[[], ssl.SSLContext], fair_queue: FairQueue) -> None:
        self._handshakes: dict[str, dict[trio.CancelScope, None]] = {}
        self._context = context
        self._fair_queue = fair_queue

    async def begin(
        self, stream: trio.SocketStream, address: str
    ) -> trio.SSLStream[trio.SocketStream] | None:
        """Return the encrypted stream, or None if the handshake failed; the caller closes `stream`."""
        if sum(map(len, self._handshakes.values())) >= MAX_AT_ONCE:
            most = max(self._handshakes, key=lambda each: len(self._handshakes[each]))
            eldest = next(iter(self._handshakes[most]))
            self._end(most, eldest)
            eldest.cancel()
        with trio.move_on_after(HANDSHAKE_S) as limit:
            self._handshakes.setdefault(address, {})[limit] = None
            try:
                return await self._handshake(stream, address)
            except (trio.BrokenResourceError, OSError):
                return None
            finally:
                self._end(address, limit)
        return None

    def _end(self, address: str, scope: trio.CancelScope) -> None:
        of_address = self._handshakes.get(address)
        if of_address is not None:
            of_address.pop(scope, None)
            if not of_address:
                del self._handshakes[address]

    async def _handshake(
        self, stream: trio.SocketStream, address: str
    ) -> trio.SSLStream[trio.SocketStream] | None:
        first = await stream.socket.recv(1, socket.MSG_PEEK)
        if first != _HANDSHAKE:
            if first:
                await _refuse(stream)
            return None
        turn = self._fair_queue.turn(f"handshake {address}")
        try:
            if not turn.granted:
                return None
            if turn.wait_s > 0:
                await trio.sleep(turn.wait_s)
        finally:
            turn.done()
        encrypted = trio.SSLStream(stream, self._context(), server_side=True, https_compatible=True)
        try:
            await encrypted.do_handshake()
        except BaseException:
            free_tls_state(encrypted)
            raise
        return encrypted


def free_tls_state(ended: trio.SSLStream[trio.SocketStream]) -> None:
    """Free the TLS state of a closed stream. Trio's stream refers to itself, and the garbage collector skips
    old objects (broker.server.interpreter).
    """
    vars(ended).clear()


async def _refuse(stream: trio.SocketStream) -> None:
    """Send the error and read the rest: closing with unread bytes would reset the connection."""
    with trio.move_on_after(GOODBYE_S):
        await stream.send_all(_REFUSAL)
        await stream.send_eof()
        while await stream.receive_some(16_384):
            pass
