"""A selector with channels over socket pairs and no tasks: what a processor does with them, the test does."""

import socket

from broker.network.authentication import FailedLogins
from broker.network.connection.channel import Channel, NewConnection
from broker.network.connection.receive import SCRATCH_BYTES
from broker.network.failures import Failures
from broker.network.leased_receive import LeasedFrames, receiving
from broker.network.memory_pool import MemoryPool
from broker.network.requests.request_channel import Request
from broker.network.requests.request_metrics import RequestMetrics
from broker.network.requests.routes import Route
from broker.network.responder import Responder
from broker.network.selector import Selector
from tests.support.clock import ManualClock


def framed_zeros(size: int) -> bytes:
    return size.to_bytes(4, "big") + bytes(size)


def _unused(*_: object) -> object:
    raise AssertionError


def unused_route(metrics: RequestMetrics | None = None) -> Route:
    """Return a route that is never used to decode or handle; `metrics` measure its requests."""

    class Api:
        key = 18
        before_login = False
        fast_path = None

    return Route(
        Api,  # type: ignore[arg-type]
        0,
        RequestMetrics if metrics is None else lambda _name, _version: metrics,
        decode=_unused,  # type: ignore[arg-type]
        encode=_unused,  # type: ignore[arg-type]
        handle=_unused,
        services=None,
        flexible=False,
        error_codes=_unused,  # type: ignore[arg-type]
    )


class RunClock(ManualClock):
    """With what the run's own clock has beside it."""

    base_ms = 0


class Rig:
    """A selector with channels over socket pairs, and a pool for all of them."""

    def __init__(self, size: int, largest: int) -> None:
        self.clock = RunClock()
        self.frames = LeasedFrames(MemoryPool(size, largest), 5_000, self.clock)
        self.memory = self.frames.memory
        self.failures = Failures()
        self.selector = Selector(lambda _channel, _reason: None, self.failures)
        failed = FailedLogins("", self.selector, 0, self.clock)
        self.responder = Responder(self.selector, self.clock, failed, largest, self.failures)
        self.new_receive = receiving(self.frames, memoryview(bytearray(SCRATCH_BYTES)), self.selector)
        self.limit = largest
        self.peers: list[socket.socket] = []
        self.kept_frames: list[memoryview] = []

    def connect(self, *, authenticated: bool = True) -> tuple[Channel, socket.socket]:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.peers.append(theirs)
        channel = Channel(
            ours,
            self.responder,
            self.new_receive(self.limit, ours),
            NewConnection("", "", ("", 0), authenticated=authenticated, now_ms=0, wall_ms=0),
        )
        self.selector.register(channel)
        return channel, theirs

    def request(self) -> Request:
        """Return a request of a new connection."""
        channel, _ = self.connect()
        return Request(self.responder, channel, unused_route(), b"", 0, 0)

    def holder(self, size: int) -> memoryview:
        """A whole frame of `size` bytes, in hand."""
        channel, theirs = self.connect()
        theirs.sendall(framed_zeros(size))
        frame = channel.read(channel.sock)
        assert isinstance(frame, memoryview) and len(frame) == size
        self.kept_frames.append(frame)
        return frame

    def reported(self) -> set[int]:
        """Descriptors of channels that the kernel says are ready."""
        return {fd for fd, _ in self.selector.poll(0.01, 100)} & set(self.selector.channels)

    def close(self) -> None:
        self.selector.close()
        for peer in self.peers:
            peer.close()
