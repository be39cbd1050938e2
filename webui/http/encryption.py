"""The console's TLS: the handshake of a new connection, before anything that it says is read.

Used by http.front where `console.ssl.*` is set. A handshake that stalls ends in time, and when there are too
many the eldest makes room, so that peers who begin and do not go on hold nobody. It takes a turn like a
request does: a signature is a millisecond of the broker's thread. Who speaks HTTP without TLS is told so.
"""

import itertools
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

import trio

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
    """`context` is asked for every connection, so that a new certificate is taken by the next; `turn` waits
    for a share of the broker's thread, and is False where there is none.
    """

    __slots__ = ("_begun", "_context", "_numbers", "_turn")

    def __init__(self, context: Callable[[], ssl.SSLContext], turn: Callable[[], Awaitable[bool]]) -> None:
        self._begun: dict[int, trio.CancelScope] = {}
        self._context = context
        self._numbers = itertools.count()
        self._turn = turn

    async def begin(self, stream: trio.SocketStream) -> trio.SSLStream[trio.SocketStream] | None:
        """The stream to go on with; None where nothing came of it, and the caller closes."""
        if len(self._begun) >= MOST_AT_ONCE:
            self._begun.pop(next(iter(self._begun))).cancel()
        number = next(self._numbers)
        with trio.move_on_after(HANDSHAKE_S) as limit:
            self._begun[number] = limit
            try:
                return await self._handshake(stream)
            except (trio.BrokenResourceError, OSError):
                return None
            finally:
                self._begun.pop(number, None)
        return None

    async def _handshake(self, stream: trio.SocketStream) -> trio.SSLStream[trio.SocketStream] | None:
        first = await stream.socket.recv(1, socket.MSG_PEEK)
        if first != _HANDSHAKE:
            if first:
                await _refuse(stream)
            return None
        if not await self._turn():
            return None
        encrypted = trio.SSLStream(stream, self._context(), server_side=True, https_compatible=True)
        await encrypted.do_handshake()
        return encrypted


async def _refuse(stream: trio.SocketStream) -> None:
    """Closing with something unread would take the words back."""
    with trio.move_on_after(GOODBYE_S):
        await stream.send_all(_REFUSAL)
        await stream.send_eof()
        while await stream.receive_some(16_384):
            pass
