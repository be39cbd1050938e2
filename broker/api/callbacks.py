"""Answers of requests that had to wait, on their way back to a handler. (Kafka:
RequestChannel.callbackQueue, sendCallbackRequest)

Posted by whoever completes a request: another request's handler, a reaper, a change of the metadata. Taken
up by `network.handling.handler_pool`, before any further request and so many at a time that others get
their turn.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Protocol

from broker.api.context import RequestContext
from broker.api.outcome import Outcome

Callback = tuple[RequestContext, Callable[[], Outcome]]
"""A request that has waited, and what makes its outcome: Answered, Silent or Hangup. A handler makes it when
it takes the callback up, so what that costs and what it raises belong to this request and not to its poster.
"""


class CallbackQueue(Protocol):
    """What the handler pool takes callbacks from."""

    def __len__(self) -> int: ...

    def popleft(self) -> Callback: ...


class Callbacks:
    """`queued.max.requests` answers at most, as in Kafka. Whoever posts one more has the oldest concluded
    there and then: nobody can put off work faster than it is done.

    `recheck` are keys under which more may be ready than could be completed in one turn; `blocked` counts
    the answers that found no place.
    """

    __slots__ = ("_conclude", "_rest", "_waiting", "blocked", "capacity", "peak", "queue", "recheck")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.peak = 0
        self.blocked = 0
        self._waiting: deque[Callback] = deque()
        self.queue: CallbackQueue = self._waiting
        self.recheck: dict[Hashable, None] = {}

    def serve(
        self, conclude: Callable[[RequestContext, Callable[[], Outcome]], None], rest: Callable[[], None]
    ) -> None:
        """Told once by the handler pool: how one is concluded, and how it hears that some are left for the
        next turn.
        """
        self._conclude = conclude
        self._rest = rest

    def post(self, context: RequestContext, outcome_of: Callable[[], Outcome]) -> None:
        """`outcome_of` is called once, by the handler pool."""
        queue = self._waiting
        if len(queue) >= self.capacity:
            self.blocked += 1
            self._conclude(*queue.popleft())
        queue.append((context, outcome_of))
        if len(queue) > self.peak:
            self.peak = len(queue)

    def check_again(self, key: Hashable) -> None:
        """In the next turn."""
        self.recheck[key] = None
        self._rest()

    def take_recheck(self) -> list[Hashable]:
        keys = list(self.recheck)
        self.recheck.clear()
        return keys
