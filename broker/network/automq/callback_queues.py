"""A callback queue per handler: the answers of requests that had to wait. (AutoMQ: RequestChannel,
multiCallbackQueue)

Each has the share of `queued.max.requests` that its handler's request queue has, and the connection decides
on the queue as it does there. The handler pool takes from the queues in turn, so that many answers for one
handler's connections hold up one of another handler's by a single answer.
"""

from collections import deque
from collections.abc import Callable

from broker.api.callbacks import Callback, Callbacks
from broker.api.context import RequestContext
from broker.api.outcome import Outcome
from broker.network.automq.channel import PipelinedChannel


class InTurn:
    """The queues as the handler pool sees them: one that has the answers of all handlers, one of each at a
    time.
    """

    __slots__ = ("_count", "_next", "queues")

    def __init__(self, handlers: int) -> None:
        self.queues: list[deque[Callback]] = [deque() for _ in range(handlers)]
        self._count = 0
        self._next = 0

    def __len__(self) -> int:
        return self._count

    def append_to(self, queue: deque[Callback], callback: Callback) -> None:
        """`queue` is one of `queues`."""
        queue.append(callback)
        self._count += 1

    def popleft_of(self, queue: deque[Callback]) -> Callback:
        """`queue` is one of `queues`. Raises IndexError where it is empty."""
        callback = queue.popleft()
        self._count -= 1
        return callback

    def popleft(self) -> Callback:
        """The oldest of the next handler that has one. Raises IndexError where there is none."""
        queues = self.queues
        for _ in queues:
            queue = queues[self._next]
            self._next = (self._next + 1) % len(queues)
            if queue:
                return self.popleft_of(queue)
        raise IndexError("no callback waits")


class CallbackQueues(Callbacks):
    """`handlers` queues of max(`capacity` / `handlers`, 1) answers."""

    __slots__ = ("_in_turn", "each")

    def __init__(self, capacity: int, handlers: int) -> None:
        self.each = max(capacity // handlers, 1)
        super().__init__(self.each * handlers)
        self.queue = self._in_turn = InTurn(handlers)

    def post(self, context: RequestContext, outcome_of: Callable[[], Outcome]) -> None:
        """Where the queue of the connection's handler is full, the oldest in it is concluded at once."""
        channel = context.connection
        assert isinstance(channel, PipelinedChannel)
        in_turn = self._in_turn
        queue = in_turn.queues[channel.hash % len(in_turn.queues)]
        if len(queue) >= self.each:
            self.blocked += 1
            self._conclude(*in_turn.popleft_of(queue))
        in_turn.append_to(queue, (context, outcome_of))
        self.peak = max(self.peak, len(in_turn))

    def depth_of(self, handler: int) -> int:
        """Answers that wait for the handler of this index."""
        return len(self._in_turn.queues[handler])
