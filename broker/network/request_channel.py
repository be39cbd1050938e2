"""The bounded queue between processors and handlers. (Kafka: RequestChannel)

A full queue blocks the processor that would add to it, which then reads none of its sockets: that is the
back-pressure that reaches clients over TCP. The end of work is the closed channel: handlers fall out of
their loop.
"""

import trio

from broker.network.request import Request


class RequestChannel:
    """`queued.max.requests` requests at most."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.peak = 0
        self.send, self.receive = trio.open_memory_channel[Request](capacity)
        self.put_nowait = self.send.send_nowait
        self.put = self.send.send

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
