"""A selector with channels over socket pairs and no tasks: what a processor does with them, the test does."""

import socket

from broker.network.connection.authentication import FailedLogins
from broker.network.connection.channel import Channel
from broker.network.connection.receive import SCRATCH_BYTES
from broker.network.failures import Failures
from broker.network.memory.leased_receive import LeasedFrames, receiving
from broker.network.memory.memory_pool import MemoryPool
from broker.network.responder import Responder
from broker.network.selector import Selector
from tests.support.clock import ManualClock


def framed_zeros(size: int) -> bytes:
    return size.to_bytes(4, "big") + bytes(size)


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
        self.held: list[memoryview] = []

    def connect(self, *, authenticated: bool = True) -> tuple[Channel, socket.socket]:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.peers.append(theirs)
        channel = Channel(
            ours,
            self.responder,
            connection_id="",
            listener="",
            peer=("", 0),
            receive=self.new_receive(self.limit, ours),
            authenticated=authenticated,
            now_ms=0,
            wall_ms=0,
        )
        self.selector.register(channel)
        return channel, theirs

    def holder(self, size: int) -> memoryview:
        """A whole frame of `size` bytes, in hand."""
        channel, theirs = self.connect()
        theirs.sendall(framed_zeros(size))
        frame = channel.read(channel.sock)
        assert isinstance(frame, memoryview) and len(frame) == size
        self.held.append(frame)
        return frame

    def reported(self) -> set[int]:
        """Descriptors of channels that the kernel says are ready."""
        return {fd for fd, _ in self.selector.poll(0.01, 100)} & set(self.selector.channels)

    def close(self) -> None:
        self.selector.close()
        for peer in self.peers:
            peer.close()
