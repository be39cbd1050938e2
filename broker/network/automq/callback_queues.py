"""A callback queue per handler, for the responses of delayed requests. (AutoMQ: RequestChannel,
multiCallbackQueue)

Each has its handler's share of `queued.max.requests`, and the connection selects the queue, as for request
queues. The handler pool takes from the queues in turn, so that many callbacks of one handler delay a callback
of another handler by only one.
"""

from collections import deque
from collections.abc import Callable

from broker.api.callbacks import Callback, Callbacks
from broker.api.context import RequestContext
from broker.api.outcome import Outcome
from broker.network.automq.channel import PipelinedChannel


class RoundRobin:
    """All callback queues as one queue for the handler pool, which takes from them in turn."""

    __slots__ = ("_count", "_next", "queues")

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

    __slots__ = ("_round_robin", "each")

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
