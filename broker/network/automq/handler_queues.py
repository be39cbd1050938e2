"""The queues of each handler: requests under one bound in bytes, and callbacks of delayed responses. Beside
them, the responses that are due. (AutoMQ: RequestChannel, queuedRequestSizeSemaphore, multiCallbackQueue)

`RequestQueues` are a `network.requests.request_channel.Requests`. The connection selects the queue, so one
handler starts all of its requests in order of arrival; there is no work stealing, and a slow request delays
every connection of its queue. When the bytes are used up or the queue is full, the processor that adds to it
waits, reads none of its sockets, and drops nothing. Waiters for bytes are served in order: small requests do
not overtake a waiting large one, which would otherwise starve.

Each callback queue has its handler's share of `queued.max.requests`. The handler pool takes from the callback
queues in turn, so that many callbacks of one handler delay a callback of another handler by only one.

Not compiled by `make compiled`: mypyc cannot compile a subclass of a deque.
"""

from collections import deque
from collections.abc import Callable

import trio

from broker.api.requests.callbacks import Callback, Callbacks
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.network.automq.channel import PipelinedChannel
from broker.network.requests.request_channel import Request


class _Waiter:
    """A waiter for `wanted` permits."""

    __slots__ = ("granted", "wanted")

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.granted = trio.Event()


class SizeSemaphore:
    """`limit` permits, one per byte. A request of more than `limit` bytes takes all permits, and waits alone.
    `available` counts free permits (AvailableRequestSize).
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.available = limit
        self._waiters: deque[_Waiter] = deque()

    @property
    def waiting(self) -> int:
        """The number of waiters."""
        return len(self._waiters)

    def acquire_nowait(self, size: int) -> bool:
        """Take the permits for `size` bytes if they are free and there are no waiters."""
        wanted = min(size, self.limit)
        if self._waiters or wanted > self.available:
            return False
        self.available -= wanted
        return True

    async def acquire(self, size: int) -> None:
        """Wait for the permits for `size` bytes. If cancelled, takes none."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.acquire_nowait(size):
            return
        waiter = _Waiter(min(size, self.limit))
        self._waiters.append(waiter)
        try:
            await waiter.granted.wait()
        except trio.Cancelled:
            if waiter.granted.is_set():
                self.available += waiter.wanted
            else:
                self._waiters.remove(waiter)
            self._grant()
            raise

    def release(self, size: int) -> None:
        """Give back the permits for `size` bytes."""
        self.available += min(size, self.limit)
        if self._waiters:
            self._grant()

    def _grant(self) -> None:
        waiters = self._waiters
        while waiters and waiters[0].wanted <= self.available:
            waiter = waiters.popleft()
            self.available -= waiter.wanted
            waiter.granted.set()


class HandlerQueue:
    """The queue of one handler. Taking a request releases its permits, before it is handled."""

    def __init__(self, capacity: int, sizes: SizeSemaphore) -> None:
        self.capacity = capacity
        self.peak = 0
        self.send, self._receive = trio.open_memory_channel[Request](capacity)
        self._sizes = sizes

    async def receive(self) -> Request:
        request = await self._receive.receive()
        self._sizes.release(request.size)
        return request

    def receive_nowait(self) -> Request:
        request = self._receive.receive_nowait()
        self._sizes.release(request.size)
        return request

    def depth(self) -> int:
        """Return the number of queued requests and update `peak`."""
        depth = self.send.statistics().current_buffer_used
        self.peak = max(self.peak, depth)
        return depth


class RequestQueues:
    """`handlers` queues of max(`capacity` / `handlers`, 1) requests; `size_limit` bytes in all of them."""

    def __init__(self, capacity: int, handlers: int, size_limit: int) -> None:
        each = max(capacity // handlers, 1)
        self.capacity = each * handlers
        self.peak = 0
        self.sizes = SizeSemaphore(size_limit)
        self._queues = [HandlerQueue(each, self.sizes) for _ in range(handlers)]

    def queue_of(self, handler: int) -> HandlerQueue:
        return self._queues[handler]

    def put_nowait(self, request: Request) -> None:
        """Queue a request. Raises trio.WouldBlock, without taking permits, if there is no space."""
        if not self.sizes.acquire_nowait(request.size):
            raise trio.WouldBlock
        try:
            self._queue_for(request).send.send_nowait(request)
        except trio.WouldBlock:
            self.sizes.release(request.size)
            raise

    async def put(self, request: Request) -> None:
        """Queue a request; waits for permits, then for space, as AutoMQ does. If cancelled, holds neither."""
        await self.sizes.acquire(request.size)
        try:
            await self._queue_for(request).send.send(request)
        except BaseException:
            self.sizes.release(request.size)
            raise

    def depth(self) -> int:
        """Return the number of requests in all queues and update `peak`."""
        depth = sum(queue.depth() for queue in self._queues)
        self.peak = max(self.peak, depth)
        return depth

    def depths(self) -> list[int]:
        """Return the number of queued requests by handler, which shows how evenly connections are spread."""
        return [queue.depth() for queue in self._queues]

    async def aclose(self) -> None:
        """Take no more requests. Handlers finish the queued requests, then end."""
        for queue in self._queues:
            await queue.send.aclose()

    def _queue_for(self, request: Request) -> HandlerQueue:
        channel = request.channel
        assert isinstance(channel, PipelinedChannel)
        return self._queues[channel.hash % len(self._queues)]


class RoundRobin:
    """All callback queues as one queue for the handler pool, which takes from them in turn."""

    def __init__(self, handlers: int) -> None:
        self.queues: list[deque[Callback]] = [deque() for _ in range(handlers)]
        self._count = 0
        self._next = 0

    def __len__(self) -> int:
        return self._count

    def append_to(self, queue: deque[Callback], callback: Callback) -> None:
        """Append to `queue`, one of `queues`."""
        queue.append(callback)
        self._count += 1

    def popleft_of(self, queue: deque[Callback]) -> Callback:
        """Pop from `queue`, one of `queues`. Raises IndexError if it is empty."""
        callback = queue.popleft()
        self._count -= 1
        return callback

    def popleft(self) -> Callback:
        """Pop the oldest callback of the next handler that has one. Raises IndexError if all queues are
        empty.
        """
        queues = self.queues
        for _ in queues:
            queue = queues[self._next]
            self._next = (self._next + 1) % len(queues)
            if queue:
                return self.popleft_of(queue)
        raise IndexError("pop from empty callback queues")


class CallbackQueues(Callbacks):
    """`handlers` queues of max(`capacity` / `handlers`, 1) callbacks."""

    def __init__(self, capacity: int, handlers: int) -> None:
        self.each = max(capacity // handlers, 1)
        super().__init__(self.each * handlers)
        self.queue = self._round_robin = RoundRobin(handlers)

    def post(self, context: RequestContext, outcome_of: Callable[[], Outcome]) -> None:
        """Queue a callback. If the queue of the connection's handler is full, runs its oldest callback at
        once.
        """
        channel = context.connection
        assert isinstance(channel, PipelinedChannel)
        round_robin = self._round_robin
        queue = round_robin.queues[channel.hash % len(round_robin.queues)]
        if len(queue) >= self.each:
            self.blocked += 1
            self._conclude(*round_robin.popleft_of(queue))
        round_robin.append_to(queue, (context, outcome_of))
        self.peak = max(self.peak, len(round_robin))

    def depth_of(self, handler: int) -> int:
        """Return the number of callbacks queued for the handler with this index."""
        return len(self._round_robin.queues[handler])


class ResponsesInOrder(deque[Request]):
    """Requests whose responses are due. Appending one that is not due adds it to its channel's `early`.
    (AutoMQ: ChannelContext)
    """

    def append(self, request: Request) -> None:
        channel = request.channel
        assert isinstance(channel, PipelinedChannel)
        in_flight = channel.in_flight
        if not in_flight or in_flight[0] is request:
            super().append(request)
        else:
            channel.early.add(request)
