"""Handlers with a queue each. (AutoMQ: KafkaRequestHandler with its id)

Nobody leads: each waits for its own queue, and while it waits for a slow request so does its queue.
"""

from collections.abc import Awaitable
from typing import ClassVar

import trio

from broker.api.outcome import Answered, Outcome, Sliced
from broker.network.handling.handler_pool import HandlerPool
from broker.network.handling.leader_followers import LeaderFollowers
from broker.network.handling.request import Request
from broker.network.handling.sliced_requests import End
from broker.records.slices import Slices


class Soloists(LeaderFollowers):
    """Every handler leads, of its own queue, from the start to the end."""

    async def take_the_lead(self, number: int) -> bool:
        return number in self._wanted

    def promote_follower(self) -> None:
        """To whom? The queue is this handler's own."""

    def dismiss(self, numbers: set[int] | None = None) -> None:
        """The end of one's queue is not the end of another's: each goes by itself."""


class QueuePerHandler(HandlerPool):
    leader_followers_type: ClassVar[type[LeaderFollowers]] = Soloists

    def _serve_in_slices(self, request: Request, sliced: Sliced) -> Awaitable[Outcome] | None:
        """Waits, as for every slow request: the next one of the same connection may be in the queue."""
        return self._last_slice(request, sliced)

    async def _last_slice(self, request: Request, sliced: Sliced) -> Outcome:
        done = trio.Event()
        ended: list[End] = []

        def conclude(end: End) -> None:
            ended.append(end)
            done.set()

        self._put_sliced(request, sliced, conclude)
        await done.wait()
        outcome = ended[0]()
        if isinstance(outcome, Awaitable):
            return await outcome
        return Sliced(_known(outcome), None) if isinstance(outcome, Answered) else outcome


def _known(answered: Answered) -> Slices[Outcome]:
    """An answer that took slices to find out is encoded in slices, too."""
    yield from ()
    return answered
