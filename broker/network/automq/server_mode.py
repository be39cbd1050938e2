"""AutoMQ's mode of a socket server: its handlers with a queue each, and the choice of its classes. (AutoMQ:
KafkaRequestHandler with its id)

No handler leads: each waits for its own queue, and a slow request delays the queue of its handler. `server`
calls `automq`.
"""

from collections.abc import Awaitable
from functools import partial
from typing import ClassVar

import trio

from broker.api.requests.outcome import Outcome, Response, Sliced
from broker.common.slices import Slices
from broker.config.sections import AutomqConfig
from broker.network.automq.handler_queues import CallbackQueues, RequestQueues
from broker.network.automq.processor import PipelinedProcessor, Watermarks
from broker.network.handling.handler_pool import HandlerPool
from broker.network.handling.leader_followers import LeaderFollowers
from broker.network.handling.sliced_requests import End
from broker.network.requests.request_channel import Request
from broker.network.server_factory import ServerMode
from broker.network.throttling import PipelinedThrottling


class IndependentHandlers(LeaderFollowers):
    """Every handler permanently leads, for its own queue."""

    async def take_the_lead(self, number: int) -> bool:
        return number in self._wanted

    def promote_follower(self) -> None:
        """Do nothing: no other handler takes from this queue."""

    def dismiss(self, numbers: set[int] | None = None) -> None:
        """Do nothing: each handler ends when its own queue is closed."""


class QueuePerHandler(HandlerPool):
    leader_followers_type: ClassVar[type[LeaderFollowers]] = IndependentHandlers

    def _serve_in_slices(self, request: Request, sliced: Sliced) -> Awaitable[Outcome] | None:
        """Wait as for every slow request: the queue may hold the next request of the same connection."""
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
        return Sliced(_in_slices(outcome), None) if isinstance(outcome, Response) else outcome


def _in_slices(response: Response) -> Slices[Outcome]:
    """Return a response in a slice, so that it is encoded in slices too."""
    yield from ()
    return response


def automq(config: AutomqConfig) -> ServerMode:
    """Return the mode with the limits of `config`, which are fixed while the server runs."""
    return ServerMode(
        partial(RequestQueues, size_limit=config.queued_requests_size),
        CallbackQueues,
        partial(PipelinedProcessor, watermarks=Watermarks(config.pipeline_high, config.pipeline_low)),
        QueuePerHandler,
        PipelinedThrottling,
        resizable=False,
    )
