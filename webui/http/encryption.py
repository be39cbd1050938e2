"""The console's TLS: the handshake of a new connection, before anything that it says is read.

Used by http.http_server where `console.ssl.*` is set. A handshake that stalls ends in time. Where there are
too many, the eldest of the address with the most makes room, so that stalled handshakes of one address stop
no other. A handshake takes a turn in the line of its address, like a request: a signature is a millisecond of
the broker's thread. A client that speaks HTTP without TLS is told so.
"""

import socket
import ssl
from collections.abc import Callable
from typing import Final

import trio

from webui.http.fair_queue import FairQueue

HANDSHAKE_S: Final = 5.0
MOST_AT_ONCE: Final = 64
GOODBYE_S: Final = 1.0

_HANDSHAKE: Final = b"\x16"
_WORDS: Final = b"This console speaks TLS: its address begins with https://\n"
_REFUSAL: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_WORDS), _WORDS)
)


class Encryption:
    """`context` is asked for every connection, so that a new certificate is taken by the next; `lines` give
    each address its share of the broker's thread.
    """

    __slots__ = ("_begun", "_context", "_lines")

    def __init__(self, context: Callable[[], ssl.SSLContext], lines: FairQueue) -> None:
        self._begun: dict[str, dict[trio.CancelScope, None]] = {}
        self._context = context
        self._lines = lines

    async def begin(
        self, stream: trio.SocketStream, address: str
    ) -> trio.SSLStream[trio.SocketStream] | None:
        """The stream to go on with; None where nothing came of it, and the caller closes."""
        if sum(map(len, self._begun.values())) >= MOST_AT_ONCE:
            most = max(self._begun, key=lambda each: len(self._begun[each]))
            eldest = next(iter(self._begun[most]))
            self._end(most, eldest)
            eldest.cancel()
        with trio.move_on_after(HANDSHAKE_S) as limit:
            self._begun.setdefault(address, {})[limit] = None
            try:
                return await self._handshake(stream, address)
            except (trio.BrokenResourceError, OSError):
                return None
            finally:
                self._end(address, limit)
        return None

    def _end(self, address: str, scope: trio.CancelScope) -> None:
        begun = self._begun.get(address)
        if begun is not None:
            begun.pop(scope, None)
            if not begun:
                del self._begun[address]

    async def _handshake(
        self, stream: trio.SocketStream, address: str
    ) -> trio.SSLStream[trio.SocketStream] | None:
        first = await stream.socket.recv(1, socket.MSG_PEEK)
        if first != _HANDSHAKE:
            if first:
                await _refuse(stream)
            return None
        turn = self._lines.turn(f"handshake {address}")
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
            take_apart(encrypted)
            raise
        return encrypted


def take_apart(ended: trio.SSLStream[trio.SocketStream]) -> None:
    """Frees what TLS has allocated for a stream that is used no more. Trio's stream refers to itself, and the
    collector does not walk what is old (broker.garbage).
    """
    vars(ended).clear()


async def _refuse(stream: trio.SocketStream) -> None:
    """Closing with something unread would take the words back."""
    with trio.move_on_after(GOODBYE_S):
        await stream.send_all(_REFUSAL)
        await stream.send_eof()
        while await stream.receive_some(16_384):
            pass
