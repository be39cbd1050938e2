"""The bounded queue between processors and handlers. (Kafka: RequestChannel)

A full queue blocks the processor that would add to it, which then reads none of its sockets: that is the
back-pressure that reaches clients over TCP. The end of work is the closed channel: handlers fall out of
their loop. Another way to queue is anything that is a `Requests`.
"""

from typing import Protocol

import trio

from broker.network.handling.request import Request


class RequestQueue(Protocol):
    """What one handler takes from. Both raise trio.EndOfChannel once it is closed and empty."""

    async def receive(self) -> Request:
        """Waits for a request."""

    def receive_nowait(self) -> Request:
        """trio.WouldBlock where there is none now."""


class Requests(Protocol):
    """What processors put into and handlers take from. `capacity` is of all its queues together, `peak` the
    deepest that they were when anyone looked.
    """

    capacity: int
    peak: int

    def put_nowait(self, value: Request, /) -> None:
        """trio.WouldBlock where there is no room now."""

    async def put(self, value: Request, /) -> None:
        """Waits for room."""

    def queue_of(self, handler: int) -> RequestQueue:
        """Where the handler of this index takes its requests from."""

    def depth(self) -> int:
        """Requests waiting now (RequestQueueSize)."""

    async def aclose(self) -> None:
        """No more requests: what is queued is still handled, then every handler ends."""


class RequestChannel:
    """One queue for all handlers: `queued.max.requests` requests at most."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.peak = 0
        self.send, self.receive = trio.open_memory_channel[Request](capacity)
        self.put_nowait = self.send.send_nowait
        self.put = self.send.send

    def queue_of(self, _handler: int) -> RequestQueue:
        return self.receive

    def depth(self) -> int:
        """Requests waiting now (RequestQueueSize); also keeps `peak`, the deepest seen by anyone who
        asked.
        """
        depth = self.send.statistics().current_buffer_used
        self.peak = max(self.peak, depth)
        return depth

    async def aclose(self) -> None:
        """No more requests: what is queued is still handled, then every handler ends."""
        await self.send.aclose()
