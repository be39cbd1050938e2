"""The queue of completed requests whose responses a handler sends.

Any task that completes a delayed request posts a callback: a handler, a reaper, or a change of the metadata.
`network.handling.handler_pool` takes callbacks before new requests, a bounded number per turn. (Kafka:
RequestChannel.callbackQueue, sendCallbackRequest)
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Protocol

from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome

Callback = tuple[RequestContext, Callable[[], Outcome]]
"""A delayed request and the function that builds its outcome: Response, NoResponse or Hangup.

The handler calls the function when it takes the callback, so its cost and its errors belong to this request
and not to the poster.
"""


TOGETHER: Final = 16
"""Callbacks posted together that are run in the same turn; each takes 10 to 20 microseconds; ours."""

LATER: Final = 20
"""How many times `queued.max.requests` callbacks may wait for later turns, 10,000 by default; ours. At 10 to
20 microseconds each, the last one waits 0.1 to 0.2 s.
"""


class CallbackQueue(Protocol):
    """The queue from which the handler pool takes callbacks."""

    def __len__(self) -> int: ...

    def popleft(self) -> Callback: ...


class Callbacks:
    """At most `queued.max.requests` callbacks, as in Kafka.

    Posting to a full queue completes the oldest callback at once, so that callbacks cannot be posted faster
    than they are completed. Of more than TOGETHER callbacks that are posted together, each turn queues a few:
    their responses would add to the time of the call that posted them. At most `later_capacity` wait for
    that, with the same rule.

    `recheck` has the keys with more ready operations than one turn completes; `blocked` counts the posts to a
    full queue.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.peak = 0
        self.blocked = 0
        self._waiting: deque[Callback] = deque()
        self.queue: CallbackQueue = self._waiting
        self.later_capacity = LATER * capacity
        self._later: deque[Callback] = deque()
        self.recheck: dict[Hashable, None] = {}

    def serve(
        self, conclude: Callable[[RequestContext, Callable[[], Outcome]], None], rest: Callable[[], None]
    ) -> None:
        """Set the callables of the handler pool, once.

        `conclude` completes a callback; `rest` schedules another turn.
        """
        self._conclude = conclude
        self._rest = rest

    def post(self, context: RequestContext, outcome_of: Callable[[], Outcome]) -> None:
        """Queue a callback; the handler pool calls `outcome_of` once."""
        queue = self._waiting
        if len(queue) >= self.capacity:
            self.blocked += 1
            self._conclude(*queue.popleft())
        queue.append((context, outcome_of))
        if len(queue) > self.peak:
            self.peak = len(queue)

    def post_together(self, callbacks: Sequence[Callback]) -> None:
        """Post the callbacks of one call, in order."""
        if len(callbacks) <= TOGETHER:
            for context, outcome_of in callbacks:
                self.post(context, outcome_of)
        else:
            later = self._later
            later.extend(callbacks)
            for _ in range(len(later) - self.later_capacity):
                self.blocked += 1
                self._conclude(*later.popleft())
            self._rest()

    @property
    def later(self) -> int:
        """The number of callbacks that wait for later turns."""
        return len(self._later)

    def queue_later(self, most: int) -> None:
        """Queue up to `most` callbacks of those posted together, and the others in later turns."""
        later = self._later
        for _ in range(min(most, len(later), self.capacity - len(self.queue))):
            self.post(*later.popleft())
        if later:
            self._rest()

    def check_again(self, key: Hashable) -> None:
        """Check the operations under `key` again in the next turn."""
        self.recheck[key] = None
        self._rest()

    def take_recheck(self) -> list[Hashable]:
        keys = list(self.recheck)
        self.recheck.clear()
        return keys
