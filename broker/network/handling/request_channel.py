"""The bounded queue between processors and handlers. (Kafka: RequestChannel)

A full queue blocks the processor that adds to it; the processor then reads none of its sockets, which is the
back-pressure that reaches clients over TCP. Closing the queue ends the handlers. `Requests` is the interface
of other queueing schemes.
"""

from typing import Protocol

import trio

from broker.network.handling.request import Request


class RequestQueue(Protocol):
    """The queue of one handler. Both methods raise trio.EndOfChannel once it is closed and empty."""

    async def receive(self) -> Request:
        """Wait for a request."""

    def receive_nowait(self) -> Request:
        """Return a request. Raises trio.WouldBlock if the queue is empty."""


class Requests(Protocol):
    """The queues between processors and handlers. `capacity` is the total of all queues, `peak` the largest
    depth observed by `depth`.
    """

    capacity: int
    peak: int

    def put_nowait(self, value: Request, /) -> None:
        """Queue a request. Raises trio.WouldBlock if the queue is full."""

    async def put(self, value: Request, /) -> None:
        """Queue a request; waits for space."""

    def queue_of(self, handler: int) -> RequestQueue:
        """Return the queue of the handler with this index."""

    def depth(self) -> int:
        """Return the number of queued requests (RequestQueueSize)."""

    async def aclose(self) -> None:
        """Take no more requests. Handlers finish the queued requests, then end."""


class RequestChannel:
    """One queue for all handlers, of at most `queued.max.requests` requests."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.peak = 0
        self.send, self.receive = trio.open_memory_channel[Request](capacity)
        self.put_nowait = self.send.send_nowait
        self.put = self.send.send

    def queue_of(self, _handler: int) -> RequestQueue:
        return self.receive

    def depth(self) -> int:
        """Return the number of queued requests (RequestQueueSize) and update `peak`."""
        depth = self.send.statistics().current_buffer_used
        self.peak = max(self.peak, depth)
        return depth

    async def aclose(self) -> None:
        """Take no more requests. Handlers finish the queued requests, then end."""
        await self.send.aclose()
