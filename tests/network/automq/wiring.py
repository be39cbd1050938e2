"""A responder of AutoMQ's mode with a socket pair, on which tests admit requests, finish them and read."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from broker.network.authentication import FailedLogins
from broker.network.automq.channel import PipelinedChannel
from broker.network.automq.server_mode import PipelinedResponder, Watermarks
from broker.network.clock import TrioClock
from broker.network.connection.channel import NewConnection
from broker.network.connection.frame_pool import FramePool
from broker.network.connection.receive import SCRATCH_BYTES, Receive
from broker.network.connection.send import Part
from broker.network.failures import Failures
from broker.network.requests.request_channel import Reply, Request
from broker.network.selector import Selector
from tests.support.rig import unused_route


class Wiring:
    """One connection; `closed` are the reasons for which it ended."""

    def __init__(self, watermarks: Watermarks, send_buffer: int) -> None:
        near, self.far = socket.socketpair()
        near.setblocking(False)
        self.far.setblocking(False)
        if send_buffer:
            near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        self.clock = clock = TrioClock()
        self.failures = Failures()
        self.selector = Selector(lambda channel, _reason: channel.abandon(), self.failures)
        failed = FailedLogins("test", self.selector, 100, clock)
        self.responder = PipelinedResponder(
            self.selector, clock, failed, 1_000, self.failures, watermarks=watermarks
        )
        self.channel = PipelinedChannel(
            near,
            self.responder,
            Receive(1_000, memoryview(bytearray(SCRATCH_BYTES)), FramePool()),
            NewConnection(
                "near-far-0-0", "PLAINTEXT", ("127.0.0.1", 1), authenticated=True, now_ms=0, wall_ms=0
            ),
        )
        self.selector.register(self.channel)
        self.route = unused_route()

    def admit(self, correlation_id: int = 0) -> Request:
        request = Request(self.responder, self.channel, self.route, b"", correlation_id, 0)
        self.responder.admit(request)
        return request

    def finish(self, request: Request, reply: Reply = b"", close_reason: str | None = None) -> None:
        """Finish requests as a handler does, with a flush at the end."""
        request.frame = None
        request.dequeued = request.completed = request.received
        request.reply = reply
        request.close_reason = close_reason
        self.responder.responses.append(request)
        self.responder.flush(self.clock.ns())

    def turn(self) -> None:
        """Continue the send, as the processor does when the socket is writable."""
        if self.channel.send is not None:
            self.responder.continue_send(self.channel)
        self.responder.flush(self.clock.ns())

    def read(self) -> bytes:
        try:
            return self.far.recv(1 << 20)
        except BlockingIOError:
            return b""


@contextmanager
def wired(high: int = 64, low: int = 8, send_buffer: int = 0) -> Iterator[Wiring]:
    wiring = Wiring(Watermarks(high, low), send_buffer)
    try:
        yield wiring
    finally:
        wiring.far.close()
        wiring.selector.close()


def numbered(number: int, size: int = 0) -> bytes:
    """Return a response that contains its own number."""
    return struct.pack(">ii", number, size) + b"." * size


def numbers(stream: bytes) -> list[int]:
    """Which answers lie in `stream`, which is to hold whole ones."""
    found, at = [], 0
    while at < len(stream):
        number, size = struct.unpack_from(">ii", stream, at)
        found.append(number)
        at += 8 + size
    assert at == len(stream)
    return found


def parts(number: int, size: int) -> list[Part]:
    """Return `numbered` in several buffers."""
    whole = numbered(number, size)
    return [whole[:8], memoryview(whole)[8:]]
